"""Histories in which calls and results do not belong together: put in order when they are parsed, and reported by the caller's paths."""

import json
import time
from collections.abc import Sequence
from typing import Any, cast

import pytest

from providers.catalogue import DIALECTS
from tests.conformance.shapes import CHAT, MESSAGES, RESPONSES, body, call, result, user

APIS = (CHAT, RESPONSES, MESSAGES)
Turns = Sequence[str]


def history(api: str, turns: Turns) -> list[Any]:
    """Returns the turns' messages: `u` is the user, `t` a text of the assistant, `c1` and `r1` a call and its result, of id 1."""
    messages: list[Any] = []
    for turn in turns:
        match turn[0]:
            case "u":
                messages += user(api, "Hello")
            case "t":
                messages += [{"role": "assistant", "content": "Hm."}]
            case "c":
                messages += call(api, turn[1:])
            case _:
                messages += result(api, turn[1:], f"result {turn[1:]}")
    return messages


def read(api: str, turns: Turns, **fields: Any) -> tuple[list[str], list[str]]:
    """Returns what is sent in place of these turns, in the same letters, and what is reported.

    `m1` is the result that says that there is none.
    """
    request = DIALECTS[api].parse_request(json.dumps({"model": "m", **body(api, history(api, turns), **fields)}).encode())
    sent = json.loads(request.body.write())["input" if api == RESPONSES else "messages"]
    return [letter for message in sent for letter in _letters(message)], [] if request.repair is None else list(request.repair.paths)


def _letters(message: dict[str, Any]) -> list[str]:
    text = json.dumps(message)
    if message.get("type") == "function_call" or message.get("tool_calls"):
        return ["c" + (message.get("call_id") or message["tool_calls"][0]["id"])]
    id = message.get("tool_call_id") or (message.get("call_id") if "output" in message else None)
    if id is not None:
        return [("m" if "has no result" in text else "r") + id]
    if message["role"] == "assistant":
        calls: list[str] = [block["id"] for block in _blocks(message) if block["type"] == "tool_use"]
        return [f"c{id}" for id in calls] or ["t"]
    blocks = _blocks(message)
    results = [block for block in blocks if block["type"] == "tool_result"]
    letters = [("m" if "has no result" in json.dumps(block) else "r") + block["tool_use_id"] for block in results]
    return letters + (["u"] if len(results) < len(blocks) or not blocks else [])


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content: Any = message["content"]
    return cast("list[dict[str, Any]]", content) if isinstance(content, list) else []


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    "turns",
    [
        ["u", "c1", "r1", "t", "u"],
        ["u", "c1", "r1", "c1", "r1", "u"],
        ["u", "c1", "r1", "u"],
        ["u", "t", "u"],
        ["u", "c1"],
    ],
)
def test_history_in_order_is_left_alone(api: str, turns: Turns):
    sent, reported = read(api, turns)
    assert (sent, reported) == (turns, [])


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("turns", "expected", "count"),
    [
        (["u", "c1", "u"], ["u", "c1", "m1", "u"], 1),
        (["u", "c1", "r1", "c2", "u", "t", "u"], ["u", "c1", "r1", "c2", "m2", "u", "t", "u"], 1),
        (["u", "c1", "u", "t", "r1", "u"], ["u", "c1", "r1", "u", "t", "u"], 1),
        (["u", "r9", "u"], ["u", "u", "u"], 1),
        (["u", "c1", "r1", "r1", "u"], ["u", "c1", "r1", "u", "u"], 1),
    ],
)
def test_history_out_of_order_is_put_in_order(api: str, turns: Turns, expected: Turns, count: int):
    sent, reported = read(api, turns)
    assert (sent, len(reported)) == (expected, count)
    assert read(api, turns)[1] == reported


def test_reports_name_the_callers_own_places():
    assert read(CHAT, ["u", "c1", "u", "r9"])[1] == ["messages[3]", "messages[1].tool_calls[0]"]
    assert read(RESPONSES, ["u", "c1", "u", "r9"])[1] == ["input[3]", "input[1]"]
    assert read(MESSAGES, ["u", "c1", "u", "t", "r9"])[1] == ["messages[4].content[0]", "messages[1].content[0]"]


def test_later_paths_are_the_callers_too():
    messages = [*history(CHAT, ["u", "c1", "u"]), {"role": "user", "content": "x"}]
    repair = DIALECTS[CHAT].parse_request(json.dumps({"model": "m", "messages": messages}).encode()).repair
    assert repair is not None
    assert repair.original_path("messages[4].content[0]") == "messages[3].content[0]"
    assert repair.original_path("tools[1]") == "tools[1]"


def test_continued_response_may_hold_the_call():
    assert read(RESPONSES, ["r1", "u"], previous_response_id="resp_1") == (["r1", "u"], [])


def test_calls_with_one_id_are_left_alone():
    two = call(CHAT, "1")[0]
    twice = {**two, "tool_calls": two["tool_calls"] * 2}
    raw = json.dumps({"model": "m", "messages": [twice, *result(CHAT, "1", "x"), *user(CHAT)]}).encode()
    assert DIALECTS[CHAT].parse_request(raw).repair is None


def test_result_behind_text_of_the_user_comes_first():
    turn = {"role": "user", "content": [{"type": "text", "text": "And?"}, *result(MESSAGES, "1", "x")[0]["content"]]}
    raw = json.dumps({"model": "m", "max_tokens": 9, "messages": [*user(MESSAGES), *call(MESSAGES, "1"), turn]}).encode()
    request = DIALECTS[MESSAGES].parse_request(raw)
    assert [block["type"] for block in json.loads(request.body.write())["messages"][2]["content"]] == ["tool_result", "text"]
    assert request.repair is not None and request.repair.paths == ["messages[2].content[1]"]


IMAGE = {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}


def refused_place(api: str, items: list[Any], path: str) -> str:
    """The caller's own path of what stands at `path` behind the repair."""
    repair = DIALECTS[api].parse_request(json.dumps({"model": "m", **body(api, items)}).encode()).repair
    assert repair is not None
    return repair.original_path(path)


def test_place_of_a_block_that_a_result_has_pushed_back_is_the_callers():
    turn = {"role": "user", "content": [{"type": "text", "text": "And?"}, IMAGE, *result(MESSAGES, "1", "x")[0]["content"]]}
    messages = [*user(MESSAGES), *call(MESSAGES, "1"), turn]
    assert refused_place(MESSAGES, messages, "messages[2].content[2]") == "messages[2].content[1]"
    assert refused_place(MESSAGES, messages, "messages[2].content[0].content[0]") == "messages[2].content[2].content[0]"
    # The text that follows a result which is added was the whole content.
    assert refused_place(MESSAGES, history(MESSAGES, ["u", "c1", "u"]), "messages[2].content[1]") == "messages[2].content"


def test_place_in_a_result_that_was_moved_or_became_text_is_the_callers():
    lost = {"type": "tool_result", "tool_use_id": "9", "content": [IMAGE]}
    moved = {"type": "tool_result", "tool_use_id": "1", "content": [IMAGE]}
    messages = [*history(MESSAGES, ["u", "c1", "u", "t"]), {"role": "user", "content": [lost, moved]}]
    assert refused_place(MESSAGES, messages, "messages[2].content[0].content[0]") == "messages[4].content[1].content[0]"
    assert refused_place(MESSAGES, messages, "messages[4].content[1]") == "messages[4].content[0].content[0]"
    parts = [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}]
    chat = [*user(CHAT), {"role": "tool", "tool_call_id": "9", "content": parts}, *user(CHAT)]
    assert refused_place(CHAT, chat, "messages[1].content[1]") == "messages[1].content[0]"
    output = [{"type": "input_image", "image_url": "https://x/y.png"}]
    items = [*user(RESPONSES), {"type": "function_call_output", "call_id": "9", "output": output}, *user(RESPONSES)]
    assert refused_place(RESPONSES, items, "input[1].content[1]") == "input[1].output[0]"


def test_result_of_a_call_of_another_kind_stays_where_it_is():
    """Codex answers a call of its local shell like this, beside calls of functions."""
    shell: dict[str, Any] = {
        "type": "local_shell_call",
        "call_id": "s",
        "status": "completed",
        "action": {"type": "exec", "command": ["ls"], "env": {}},
    }
    answer = {"type": "function_call_output", "call_id": "s", "output": "ok"}
    items: list[Any] = [*user(RESPONSES), shell, answer, *user(RESPONSES)]
    request = DIALECTS[RESPONSES].parse_request(json.dumps({"model": "m", **body(RESPONSES, items)}).encode())
    assert request.repair is None and json.loads(request.body.write())["input"] == items
    items = [*user(RESPONSES), *call(RESPONSES, "1"), shell, answer, *user(RESPONSES)]
    request = DIALECTS[RESPONSES].parse_request(json.dumps({"model": "m", **body(RESPONSES, items)}).encode())
    assert request.repair is not None and request.repair.paths == ["input[1]"]
    assert answer in json.loads(request.body.write())["input"]


def test_many_results_behind_a_text_take_time_by_their_number():
    """These took ten times as long where every result looked at all blocks before it."""
    count = 20_000
    calls: list[Any] = [{"type": "tool_use", "id": f"c{n}", "name": "f", "input": {}} for n in range(count)]
    results = [{"type": "tool_result", "tool_use_id": f"c{n}", "content": "r"} for n in range(count)]
    text = {"type": "text", "text": "And?"}
    messages: list[Any] = [{"role": "assistant", "content": calls}, {"role": "user", "content": [text, *results]}]
    raw = json.dumps({"model": "m", "max_tokens": 9, "messages": messages}).encode()
    started = time.process_time()
    request = DIALECTS[MESSAGES].parse_request(raw)
    assert request.repair is not None and len(request.repair.paths) == count
    assert time.process_time() - started < 3
