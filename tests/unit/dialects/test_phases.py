"""The field `phase` of Responses: kept between a caller and an engine of Responses, whichever way, and passed over where no field says it.

Source: https://www.openresponses.org/changelog (2026-04-24), read 2026-11.
"""

import json
from typing import Any

import pytest

from app.gateway.response_translation import translate
from providers.canonical.chat import ChatResponse, Choice, Text, ToolCall, Usage
from providers.canonical.events import assemble_response, response_events
from providers.dialects.catalogue import CALLER_DIALECTS, CHAT_DIALECTS, ENGINE_DIALECTS
from providers.drop_policy import DropPolicy
from tests.unit.dialects.test_loose_responses import META
from tests.unit.dialects.test_unknown_endings import stream_bytes

RESPONSES, CHAT, ANTHROPIC = "openai_responses", "openai_chat", "anthropic_messages"
DIALECT = CHAT_DIALECTS[RESPONSES]
CALL = {"type": "function_call", "call_id": "call_1", "name": "now", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "call_1", "output": "noon"}


def message(text: str, phase: str | None, at: int) -> dict[str, Any]:
    content: list[Any] = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
    item: dict[str, Any] = {"id": f"msg_{at}", "type": "message", "role": "assistant", "status": "completed", "content": content}
    return item if phase is None else {**item, "phase": phase}


ITEMS = [message("Let me see.", "commentary", 0), message("It is noon.", "final_answer", 1), message("Bye.", None, 2)]
WHOLE = {"id": "resp_1", "object": "response", "model": "m", "created_at": 1, "status": "completed", "output": ITEMS}
PHASES = [("commentary", "Let me see."), ("final_answer", "It is noon."), (None, "Bye.")]


def events(items: list[Any]) -> list[Any]:
    """Returns the events as OpenAI and DeepSeek stream them: each item has its phase when it starts."""
    written: list[Any] = [{"type": "response.created", "response": {**WHOLE, "status": "in_progress", "output": []}}]
    for at, item in enumerate(items):
        text, head = item["content"][0]["text"], {"output_index": at, "content_index": 0, "item_id": item["id"]}
        started: dict[str, Any] = {**item, "status": "in_progress", "content": []}
        written += [
            {"type": "response.output_item.added", "output_index": at, "item": started},
            {"type": "response.content_part.added", **head, "part": {**item["content"][0], "text": ""}},
            {"type": "response.output_text.delta", **head, "delta": text, "logprobs": []},
            {"type": "response.output_text.done", **head, "text": text, "logprobs": []},
            {"type": "response.output_item.done", "output_index": at, "item": item},
        ]
    return [*written, {"type": "response.completed", "response": {**WHOLE, "output": items}}]


def phases_of(output: list[Any]) -> list[tuple[Any, str]]:
    return [(item.get("phase"), content["text"]) for item in output if item["type"] == "message" for content in item["content"]]


def test_same_dialect_keeps_the_phases() -> None:
    caller = CALLER_DIALECTS[RESPONSES]
    raw = translate.translate_response(json.dumps(WHOLE).encode(), caller, DIALECT, META).raw
    assert phases_of(json.loads(raw)["output"]) == PHASES
    editor = translate.make_stream_editor(caller, DIALECT, META, streamed=True)
    check_stream(editor.feed(stream_bytes(RESPONSES, events(ITEMS))) + editor.finish())


def check_stream(raw: bytes) -> None:
    sent = [json.loads(line[6:]) for line in raw.decode().split("\n") if line.startswith("data: ")]
    for kind in ("added", "done"):
        items = [each["item"] for each in sent if each["type"] == f"response.output_item.{kind}"]
        assert [item.get("phase") for item in items] == [phase for phase, _ in PHASES]
    assert phases_of(sent[-1]["response"]["output"]) == PHASES


def written_stream(response: ChatResponse) -> bytes:
    writer = DIALECT.stream_writer(META)
    return b"".join(writer.feed(event) for event in response_events(response)) + writer.finish()


def test_canonical_model_keeps_the_phases_of_a_response() -> None:
    """A response that is translated although both sides speak Responses: assembled, trimmed, checked or resumed."""
    read = DIALECT.read_response(json.dumps(WHOLE).encode())
    assert [(part.phase, part.text) for part in read.choices[0].parts if isinstance(part, Text)] == PHASES
    assert phases_of(json.loads(DIALECT.write_response(read, META))["output"]) == PHASES
    check_stream(written_stream(read))
    reader = DIALECT.stream_reader()
    streamed = assemble_response([*reader.feed(stream_bytes(RESPONSES, events(ITEMS))), *reader.finish()])
    assert streamed.choices[0].parts == read.choices[0].parts
    assembler = translate.make_assembler(CALLER_DIALECTS[RESPONSES], DIALECT, META)
    assembler.feed(stream_bytes(RESPONSES, events(ITEMS)))
    assert phases_of(json.loads(assembler.finish().raw)["output"]) == PHASES


def test_phase_of_an_item_that_comes_whole_is_kept() -> None:
    all_events = events(ITEMS)
    done = [each for each in all_events if each["type"] == "response.output_item.done"]
    for sent in ([all_events[0], *done, all_events[-1]], [all_events[0], all_events[-1]]):
        reader = DIALECT.stream_reader()
        parts = assemble_response([*reader.feed(stream_bytes(RESPONSES, sent)), *reader.finish()]).choices[0].parts
        assert [part.phase for part in parts if isinstance(part, Text)] == [phase for phase, _ in PHASES]


@pytest.mark.parametrize("caller", [CHAT, ANTHROPIC])
def test_phase_of_a_response_is_passed_over_for_callers_of_other_apis(caller: str) -> None:
    dialect = CALLER_DIALECTS[caller]
    raw = translate.translate_response(json.dumps(WHOLE).encode(), dialect, DIALECT, META).raw
    assert all(text in raw.decode() for _, text in PHASES) and b"phase" not in raw
    editor = translate.make_stream_editor(dialect, DIALECT, META, streamed=True)
    raw = editor.feed(stream_bytes(RESPONSES, events(ITEMS))) + editor.finish()
    assert all(text in raw.decode() for _, text in PHASES) and b"phase" not in raw


@pytest.mark.parametrize("engine", [CHAT, ANTHROPIC])
def test_response_of_an_engine_of_another_api_has_no_phase(engine: str) -> None:
    response = ChatResponse((Choice((Text("Hi."), ToolCall("call_1", "now", "{}")), "tool_calls"),), "m", 1, Usage(1, 1))
    read = CHAT_DIALECTS[engine].read_response(CHAT_DIALECTS[engine].write_response(response, META))
    assert b"phase" not in DIALECT.write_response(read, META) and b"phase" not in written_stream(read)


HISTORY = [
    {"role": "user", "content": "What time is it?"},
    message("Let me see.", "commentary", 0),
    {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "A clock."}]},
    message("I ask the clock.", "commentary", 1),
    CALL,
    RESULT,
    message("It is noon.", "final_answer", 2),
    message("Bye.", None, 3),
    {"role": "user", "content": "Thanks"},
]


def translated(target: str) -> tuple[Any, list[str]]:
    body = DIALECT.parse_request(json.dumps({"model": "m", "input": HISTORY, "store": False}).encode()).body
    policy = DropPolicy(lambda field: False, DIALECT.field_names, "the target", lambda path: DIALECT.caller_path(body, path))
    return json.loads(ENGINE_DIALECTS[target].write_request(DIALECT.read_request(body), policy).write()), policy.dropped


def test_canonical_model_keeps_the_phases_of_a_history() -> None:
    body, dropped = translated(RESPONSES)
    expected = [("commentary", "Let me see."), ("commentary", "I ask the clock."), ("final_answer", "It is noon."), (None, "Bye.")]
    assert phases_of([item for item in body["input"] if item.get("role") == "assistant"]) == expected
    assert dropped == []


@pytest.mark.parametrize("target", [CHAT, ANTHROPIC, "gemini", "bedrock_converse"])
def test_phase_of_a_history_is_a_hint_for_other_apis_and_reported_by_the_callers_own_path(target: str) -> None:
    body, dropped = translated(target)
    assert "phase" not in json.dumps(body)
    assert {each for each in dropped if "phase" in each} == {"input[1].phase", "input[6].phase"}
