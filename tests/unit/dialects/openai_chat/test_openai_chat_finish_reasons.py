"""The finish reason of a response with tool calls: from an engine that sends `stop` (TGI), and from those that send what OpenAI sends."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from app.gateway.response_translation.response_streamer import ResponseStreamer
from app.gateway.response_translation.stream_translator import StreamTranslator
from app.gateway.response_translation.write_response import check_finished, write_response
from providers.dialect import ResponseMeta
from providers.dialects.openai_chat import OpenAIChat
from tests.support.strategies.chat_strategies import META

CHAT = OpenAIChat()
TGI = replace(META, stops_after_calls=True)
CALL = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def response_body(reason: str, calls: list[Any]) -> bytes:
    message = {"role": "assistant", "content": None if calls else "Hi.", **({"tool_calls": calls} if calls else {})}
    return json.dumps({"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": reason}]}).encode()


def response_stream(reason: str, calls: list[Any]) -> bytes:
    """The same response as a stream: content, each call in a chunk of its own, then the finish reason."""
    deltas: list[tuple[Mapping[str, Any], str | None]] = [({"role": "assistant", "content": "H"}, None)]
    deltas += [({"tool_calls": [call]}, None) for call in calls]
    deltas.append(({}, reason))
    frames = [{"choices": [{"index": 0, "delta": delta, "finish_reason": end}]} for delta, end in deltas]
    return b"".join(b"data: %b\n\n" % json.dumps(frame).encode() for frame in frames) + b"data: [DONE]\n\n"


def finish_reasons(reason: str, calls: list[Any], meta: ResponseMeta) -> set[str | None]:
    """Returns the finish reasons that chat callers receive on every path from an engine, and those recorded."""
    edited = CHAT.edit_response(response_body(reason, calls), meta)
    translated = write_response(check_finished(CHAT.read_response(response_body(reason, calls))), CHAT, meta)
    reported = {edited.finish_reason, *(json.loads(each.raw)["choices"][0]["finish_reason"] for each in (edited, translated))}
    for editor, raw in (
        (CHAT.stream_editor(meta), response_stream(reason, calls)),
        (StreamTranslator(CHAT, CHAT, meta), response_stream(reason, calls)),
        (ResponseStreamer(CHAT, CHAT, meta), response_body(reason, calls)),
    ):
        frames = (editor.feed(raw) + editor.finish()).removesuffix(b"data: [DONE]\n\n").split(b"\n\n")
        ends = [json.loads(frame.removeprefix(b"data: "))["choices"][0]["finish_reason"] for frame in frames if frame]
        reported |= {end for end in ends if end}
    return reported


@pytest.mark.parametrize(
    ("reason", "calls", "expected"),
    [("stop", [CALL], "tool_calls"), ("stop", [], "stop"), ("length", [CALL], "length"), ("tool_calls", [CALL], "tool_calls")],
)
def test_stop_after_tool_calls_becomes_tool_calls_for_engines_that_say_stop(reason: str, calls: list[Any], expected: str):
    assert finish_reasons(reason, calls, TGI) == {expected}


def test_stop_after_tool_calls_is_kept_for_other_engines():
    """OpenAI itself sends `stop` for a call that the request forced by name."""
    assert finish_reasons("stop", [CALL], META) == {"stop"}


def test_only_choices_with_tool_calls_finish_with_tool_calls():
    choices = [
        {"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"},
        {"index": 1, "message": {"role": "assistant", "content": None, "tool_calls": [CALL]}, "finish_reason": "stop"},
    ]
    edited = CHAT.edit_response(json.dumps({"choices": choices}).encode(), TGI)
    assert [choice["finish_reason"] for choice in json.loads(edited.raw)["choices"]] == ["stop", "tool_calls"]
    assert edited.finish_reason == "stop"
