"""Text is kept however its block began: announced as something unknown, as something else, or not at all."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from providers.canonical.chat import ChatResponse, Reasoning, Text, ToolCall
from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.events import assemble_response
from providers.canonical.sse import sse_frame
from providers.dialects.catalogue import ENGINE_DIALECTS
from tests.replay.hosts.aws_event_stream import event

Events = Sequence[dict[str, Any]]


def read_stream(dialect: str, events: Events) -> ChatResponse:
    """Reads the events in one block and byte by byte."""
    if dialect == "bedrock_converse":
        wire = b"".join(event(next(iter(each)), next(iter(each.values()))) for each in events)
    else:
        wire = b"".join(sse_frame(json.dumps(each).encode()) for each in events)
    read: list[ChatResponse] = []
    for blocks in ([wire], [wire[at : at + 1] for at in range(len(wire))]):
        reader = ENGINE_DIALECTS[dialect].stream_reader()
        found = [each for block in blocks for each in reader.feed(block)]
        read.append(assemble_response([*found, *reader.finish()]))
    assert read[0] == read[1]
    return read[0]


def texts_of(response: ChatResponse) -> tuple[str, str]:
    parts = response.choices[0].parts
    return (
        "".join(part.text for part in parts if isinstance(part, Text)),
        "".join(part.text for part in parts if isinstance(part, Reasoning)),
    )


def anthropic(*middle: dict[str, Any]) -> Events:
    start = {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 1, "output_tokens": 1}}}
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}
    return [start, *middle, end, {"type": "message_stop"}]


def begin(block: object, index: int = 0) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def text_delta(text: str, index: int = 0) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}}


def stop(index: int = 0) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


HEL_LO = (text_delta("Hel"), text_delta("lo."))
THOUGHT = {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}}
CALL: dict[str, Any] = {"type": "tool_use", "id": "t", "name": "f", "input": {}}


@pytest.mark.parametrize(
    ("middle", "expected"),
    [
        (HEL_LO, ("Hello.", "")),
        ((*HEL_LO, stop()), ("Hello.", "")),
        ((begin({"type": "output_text", "text": ""}), *HEL_LO, stop()), ("Hello.", "")),
        ((begin({"type": "output_text", "text": "Well: "}), *HEL_LO, stop()), ("Well: Hello.", "")),
        ((begin({"type": "speech", "voice": "a"}), *HEL_LO, stop()), ("Hello.", "")),
        ((begin({}), *HEL_LO, stop()), ("Hello.", "")),
        ((begin(None), *HEL_LO, stop()), ("Hello.", "")),
        (({"type": "content_block_start", "index": 0}, *HEL_LO, stop()), ("Hello.", "")),
        ((begin({"text": "Hello."}), stop()), ("Hello.", "")),
        ((begin({"type": "text", "text": ""}), HEL_LO[0], stop(), HEL_LO[1]), ("Hello.", "")),
        ((begin({"type": "thinking", "thinking": ""}), THOUGHT, *HEL_LO, stop()), ("Hello.", "Hm.")),
        ((THOUGHT, *HEL_LO), ("Hello.", "Hm.")),
        ((begin({"type": "text", "text": ""}), *HEL_LO, THOUGHT, stop()), ("Hello.", "Hm.")),
        (({"type": "content_block_delta", "index": 0}, *HEL_LO), ("Hello.", "")),
    ],
    ids=lambda value: json.dumps(value)[:100],
)
def test_messages_stream_keeps_text_of_blocks_that_began_in_an_unknown_way(middle: Events, expected: tuple[str, str]) -> None:
    response = read_stream("anthropic_messages", anthropic(*middle))
    assert texts_of(response) == expected
    assert response.choices[0].finish_reason == "stop"


def test_messages_stream_keeps_a_call_beside_text_in_its_own_block() -> None:
    arguments = {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"a":1}'}}
    response = read_stream("anthropic_messages", anthropic(begin(CALL), arguments, *HEL_LO, stop()))
    assert response.choices[0].parts == (ToolCall("t", "f", '{"a":1}'), Text("Hello."))


@pytest.mark.parametrize(
    "middle", [({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{}"}},)]
)
def test_messages_stream_with_arguments_of_no_call_is_refused(middle: Events) -> None:
    with pytest.raises(InvalidUpstreamResponse, match="block 0, which has not begun"):
        read_stream("anthropic_messages", anthropic(*middle))


def test_messages_stream_with_text_after_its_end_is_refused() -> None:
    *events, end = anthropic(*HEL_LO)
    with pytest.raises(InvalidUpstreamResponse, match="has ended"):
        read_stream("anthropic_messages", [*events, text_delta("more"), end])


@pytest.mark.parametrize("block", [{"type": "output_text", "text": "Hello."}, {"text": "Hello."}], ids=str)
def test_message_keeps_text_of_an_unknown_block(block: dict[str, Any]) -> None:
    raw = json.dumps({"content": [block], "model": "m", "stop_reason": "end_turn"}).encode()
    assert texts_of(ENGINE_DIALECTS["anthropic_messages"].read_response(raw)) == ("Hello.", "")


def converse(*middle: dict[str, Any]) -> Events:
    return [{"messageStart": {"role": "assistant"}}, *middle, {"messageStop": {"stopReason": "end_turn"}}]


def converse_delta(delta: dict[str, Any]) -> dict[str, Any]:
    return {"contentBlockDelta": {"contentBlockIndex": 0, "delta": delta}}


NOTHING: dict[str, Any] = {}
CONVERSE_HEL_LO = (converse_delta({"text": "Hel"}), converse_delta({"text": "lo."}), {"contentBlockStop": {"contentBlockIndex": 0}})
CONVERSE_THOUGHT = converse_delta({"reasoningContent": {"text": "Hm."}})


@pytest.mark.parametrize(
    ("middle", "expected"),
    [
        (CONVERSE_HEL_LO, ("Hello.", "")),
        (({"contentBlockStart": {"contentBlockIndex": 0, "start": NOTHING}}, *CONVERSE_HEL_LO), ("Hello.", "")),
        (({"contentBlockStart": {"contentBlockIndex": 0}}, *CONVERSE_HEL_LO), ("Hello.", "")),
        (({"contentBlockStart": {"contentBlockIndex": 0, "start": {"speech": {"voice": "a"}}}}, *CONVERSE_HEL_LO), ("Hello.", "")),
        ((CONVERSE_THOUGHT, *CONVERSE_HEL_LO), ("Hello.", "Hm.")),
        ((*CONVERSE_HEL_LO[:2], CONVERSE_THOUGHT, CONVERSE_HEL_LO[2]), ("Hello.", "Hm.")),
        ((converse_delta({"speech": {"voice": "a"}}), *CONVERSE_HEL_LO), ("Hello.", "")),
    ],
    ids=lambda value: json.dumps(value)[:100],
)
def test_converse_stream_keeps_text_of_blocks_that_began_in_an_unknown_way(middle: Events, expected: tuple[str, str]) -> None:
    response = read_stream("bedrock_converse", converse(*middle))
    assert texts_of(response) == expected
    assert response.choices[0].finish_reason == "stop"


def test_converse_stream_with_arguments_in_a_text_is_refused() -> None:
    with pytest.raises(InvalidUpstreamResponse, match="has not begun"):
        read_stream("bedrock_converse", converse(CONVERSE_HEL_LO[0], converse_delta({"toolUse": {"input": "{}"}})))


UNKNOWN_ITEM: dict[str, Any] = {"type": "speech", "id": "s", "content": [{"type": "spoken_text", "text": "Hello."}]}
UNKNOWN_CONTENT: dict[str, Any] = {"type": "message", "id": "m", "content": [{"type": "spoken_text", "text": "Hello."}]}


def responses_delta(text: str) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "item_id": "s", "output_index": 0, "content_index": 0, "delta": text}


@pytest.mark.parametrize("item", [UNKNOWN_ITEM, UNKNOWN_CONTENT], ids=["item", "content"])
@pytest.mark.parametrize("deltas", [[], [responses_delta("Hel"), responses_delta("lo.")]], ids=["whole", "deltas"])
@pytest.mark.parametrize("says_done", [True, False])
def test_response_keeps_text_of_unknown_items_and_contents(item: dict[str, Any], deltas: list[dict[str, Any]], says_done: bool) -> None:
    whole = {"id": "r", "status": "completed", "model": "m", "output": [item]}
    assert texts_of(ENGINE_DIALECTS["openai_responses"].read_response(json.dumps(whole).encode())) == ("Hello.", "")
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {"id": "r", "model": "m"}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        *deltas,
        *([{"type": "response.output_item.done", "output_index": 0, "item": item}] if says_done else []),
        {"type": "response.completed", "response": whole},
    ]
    assert texts_of(read_stream("openai_responses", events)) == ("Hello.", "")


def test_gemini_part_with_text_and_a_call_keeps_both() -> None:
    part: dict[str, Any] = {"text": "Hello.", "functionCall": {"name": "f", "args": {"a": 1}}}
    chunk: dict[str, Any] = {
        "candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}],
        "responseId": "r",
    }
    for response in (ENGINE_DIALECTS["gemini"].read_response(json.dumps(chunk).encode()), read_stream("gemini", [chunk])):
        text, call = response.choices[0].parts
        assert text == Text("Hello.")
        assert isinstance(call, ToolCall) and (call.name, json.loads(call.arguments)) == ("f", {"a": 1})


@pytest.mark.parametrize("kind", ["content-delta", "speech-delta"])
def test_cohere_stream_keeps_text_of_unknown_events(kind: str) -> None:
    events = [
        {"type": "message-start"},
        *({"type": kind, "index": 0, "delta": {"message": {"content": {"type": "speech", "text": text}}}} for text in ("Hel", "lo.")),
        {"type": "message-end", "delta": {"finish_reason": "COMPLETE"}},
    ]
    assert texts_of(read_stream("cohere_chat", events)) == ("Hello.", "")


@pytest.mark.parametrize("kind", ["text", "output_text", "speech"])
def test_chat_content_of_unknown_pieces_keeps_its_text(kind: str) -> None:
    content = [{"type": kind, "text": "Hello."}]
    whole = {"choices": [{"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}]}
    chunk = {"choices": [{"index": 0, "delta": {"content": content}, "finish_reason": "stop"}]}
    assert texts_of(ENGINE_DIALECTS["openai_chat"].read_response(json.dumps(whole).encode())) == ("Hello.", "")
    assert texts_of(read_stream("openai_chat", [chunk])) == ("Hello.", "")
