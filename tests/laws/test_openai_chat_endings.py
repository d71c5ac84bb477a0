"""How an answer with calls of tools ended, of an engine that says `stop` then (TGI), and of those that say it as OpenAI does."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from app.gateway.response_translation.translate import ResponseStreamer, StreamTranslator, check_finished, write_response
from providers.dialect import ResponseMeta
from providers.dialects.openai_chat import OpenAIChat
from tests.laws.chats import STAMP

CHAT = OpenAIChat()
TGI = replace(STAMP, stops_after_calls=True)
CALL = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def whole(reason: str, calls: list[Any]) -> bytes:
    said = {"role": "assistant", "content": None if calls else "Hi.", **({"tool_calls": calls} if calls else {})}
    return json.dumps({"object": "chat.completion", "choices": [{"index": 0, "message": said, "finish_reason": reason}]}).encode()


def streamed(reason: str, calls: list[Any]) -> bytes:
    """The last call may come in the chunk that ends the answer."""
    deltas: list[tuple[Mapping[str, Any], str | None]] = [({"role": "assistant", "content": "H"}, None)]
    deltas += [({"tool_calls": [call]}, None) for call in calls]
    deltas.append(({}, reason))
    frames = [{"choices": [{"index": 0, "delta": delta, "finish_reason": end}]} for delta, end in deltas]
    return b"".join(b"data: %b\n\n" % json.dumps(frame).encode() for frame in frames) + b"data: [DONE]\n\n"


def reasons(reason: str, calls: list[Any], stamp: ResponseMeta) -> set[str | None]:
    """As it is told on every way from an engine to a caller of chat, and as it is recorded."""
    edited = CHAT.edit_response(whole(reason, calls), stamp)
    crossed = write_response(check_finished(CHAT.read_response(whole(reason, calls))), CHAT, stamp)
    told = {edited.finish_reason, *(json.loads(each.raw)["choices"][0]["finish_reason"] for each in (edited, crossed))}
    for editor, raw in (
        (CHAT.stream_editor(stamp), streamed(reason, calls)),
        (StreamTranslator(CHAT, CHAT, stamp), streamed(reason, calls)),
        (ResponseStreamer(CHAT, CHAT, stamp), whole(reason, calls)),
    ):
        frames = (editor.feed(raw) + editor.finish()).removesuffix(b"data: [DONE]\n\n").split(b"\n\n")
        ends = [json.loads(frame.removeprefix(b"data: "))["choices"][0]["finish_reason"] for frame in frames if frame]
        told |= {end for end in ends if end}
    return told


@pytest.mark.parametrize(
    ("reason", "calls", "told"),
    [("stop", [CALL], "tool_calls"), ("stop", [], "stop"), ("length", [CALL], "length"), ("tool_calls", [CALL], "tool_calls")],
)
def test_an_engine_that_stops_after_calls_has_ended_with_them(reason: str, calls: list[Any], told: str):
    assert reasons(reason, calls, TGI) == {told}


def test_of_any_other_what_it_says_is_what_is_told():
    """OpenAI itself says `stop` of a call that it was told to make by name."""
    assert reasons("stop", [CALL], STAMP) == {"stop"}


def test_a_choice_without_calls_beside_one_that_makes_some_has_stopped():
    choices = [
        {"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"},
        {"index": 1, "message": {"role": "assistant", "content": None, "tool_calls": [CALL]}, "finish_reason": "stop"},
    ]
    told = CHAT.edit_response(json.dumps({"choices": choices}).encode(), TGI)
    assert [choice["finish_reason"] for choice in json.loads(told.raw)["choices"]] == ["stop", "tool_calls"]
    assert told.finish_reason == "stop"
