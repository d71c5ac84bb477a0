"""Calls of earlier turns that got no result: a conversation that is continued by id is put in order like one that is sent whole."""

import json
from typing import Any

import msgspec

from providers.canonical.open_calls import MISSING_RESULT
from providers.canonical.raw_json import Body
from providers.dialects.openai_responses.caller_path import caller_path
from providers.dialects.openai_responses.input_items import ContinuedInput, prepend_items
from providers.dialects.openai_responses.normalize_input import put_continued_calls_in_order


def user(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": text}


def call(id: str, kind: str = "function_call") -> dict[str, Any]:
    said = {"arguments": "{}"} if kind == "function_call" else {"input": "x"}
    return {"type": kind, "id": f"fc_{id}", "call_id": id, "name": "f", **said, "status": "completed"}


def result(id: str, output: Any = "1") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": id, "output": output}


def continued(earlier: list[Any], own: Any) -> tuple[Body, ContinuedInput]:
    body = Body.read(json.dumps({"input": own, "previous_response_id": "resp_1"}).encode())
    return body, prepend_items(body, [msgspec.Raw(json.dumps(each).encode()) for each in earlier])


def items_of(items: ContinuedInput) -> list[dict[str, Any]]:
    return [json.loads(bytes(each)) for each in items]


def test_call_of_an_earlier_turn_without_a_result_gets_one_that_says_so():
    _, items = continued([user("One?"), call("a"), call("b", "custom_tool_call")], "Never mind.")
    repair = put_continued_calls_in_order(items)
    first, *calls, missing, missing_custom, last = items_of(items)
    assert (first, calls) == (user("One?"), [call("a"), call("b", "custom_tool_call")])
    assert missing == {"type": "function_call_output", "call_id": "a", "output": MISSING_RESULT}
    assert missing_custom == {"type": "custom_tool_call_output", "call_id": "b", "output": MISSING_RESULT}
    assert last["role"] == "user"
    assert repair is not None and repair.paths == ["previous_response_id"]


def test_result_that_comes_late_follows_its_call_and_paths_stay_the_callers():
    body, items = continued([user("One?"), call("a")], [user("Wait."), result("a"), user("And?")])
    repair = put_continued_calls_in_order(items)
    assert items_of(items) == [user("One?"), call("a"), result("a"), user("Wait."), user("And?")]
    assert repair is not None and repair.paths == ["input[1]"]
    assert [repair.original_path(items.item_path(at)) for at in range(5)] == [
        *("previous_response_id", "previous_response_id", "input[1]", "input[0]", "input[2]")
    ]
    assert caller_path(body, "messages[4].content") == "input[2].content"
    assert caller_path(body, "messages[0].content") == "previous_response_id"


def test_result_without_a_call_becomes_text_of_the_user():
    body, items = continued([user("One?")], [result("z", [{"type": "input_text", "text": "1"}]), user("And?")])
    repair = put_continued_calls_in_order(items)
    assert [each["role"] for each in items_of(items)] == ["user"] * 3
    assert repair is not None and repair.paths == ["input[0]"]
    assert caller_path(body, "messages[1].content[1]") == "input[0]"


def test_conversation_in_order_stays_as_it_is():
    for earlier, own in (([user("One?"), call("a")], [result("a")]), ([user("One?")], "Two?"), ([], [user("Hi"), call("a")])):
        _, items = continued(earlier, own)
        before = list(items)
        assert put_continued_calls_in_order(items) is None
        assert list(items) == before and items.paths is None
