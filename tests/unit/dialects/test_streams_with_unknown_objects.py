"""Streams of OpenAI's shapes pass over what they do not know, wherever it stands, and over no content."""

import json
from itertools import product
from typing import Any

import pytest

from providers.canonical.errors import InvalidUpstreamResponse, UpstreamError
from providers.canonical.events import assemble_response
from providers.canonical.sse import sse_frame
from providers.dialect import ResponseMeta
from providers.dialects.catalogue import CALLER_DIALECTS, CHAT_DIALECTS

META = ResponseMeta("0", "0", "m", 1, True)
UNKNOWN: list[Any] = [
    {},
    {"object": "status", "message": "queued", "created": "2026-11-22T00:00:00Z"},
    {"choices": None},
    {"id": "1", "model": 7},
]
USAGE = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
STREAMS: dict[str, list[Any]] = {
    "openai_chat": [
        {"choices": [{"index": 0, "delta": {"content": "Hel"}}]},
        {"choices": [{"index": 0, "delta": {"content": "lo."}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": USAGE},
    ],
    "openai_completions": [
        {"choices": [{"index": 0, "text": "Hel"}]},
        {"choices": [{"index": 0, "text": "lo."}]},
        {"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]},
        {"choices": [], "usage": USAGE},
    ],
    "openai_responses": [
        {"type": "response.created", "response": {"id": "1"}},
        {"type": "response.output_text.delta", "item_id": "i", "output_index": 0, "content_index": 0, "delta": "Hel"},
        {"type": "response.output_text.delta", "item_id": "i", "output_index": 0, "content_index": 0, "delta": "lo."},
        {"type": "response.completed", "response": {"output": [], "status": "completed"}},
    ],
    "vllm_generate": [
        {"choices": [{"index": 0, "token_ids": [1]}]},
        {"choices": [{"index": 0, "token_ids": [2]}]},
        {"choices": [{"index": 0, "token_ids": [], "finish_reason": "stop"}]},
    ],
}
# A type that is not known is one of the Responses API's own events, which are sent on.
PING = {"type": "ping"}
CASES = [
    (name, at, unknown)
    for name, stream in STREAMS.items()
    for at, unknown in product(range(len(stream) + 1), [*UNKNOWN, *([PING] if name != "openai_responses" else [])])
]


def _wire(frames: list[Any]) -> bytes:
    return b"".join(sse_frame(json.dumps(frame).encode()) for frame in frames)


def _edited(name: str, frames: list[Any]) -> list[tuple[Any, ...]]:
    """Returns what the caller receives, without ids, which may be made up."""
    editor = CALLER_DIALECTS[name].stream_editor(META)
    sent = editor.feed(_wire(frames)) + editor.feed(sse_frame(b"[DONE]")) + editor.finish()
    bodies = [json.loads(line[6:]) for line in sent.split(b"\n") if line.startswith(b"data: {")]
    return [(body.get("type"), body.get("choices"), body.get("delta"), body.get("usage")) for body in bodies]


def _read(name: str, frames: list[Any]) -> list[Any]:
    reader = CHAT_DIALECTS[name].stream_reader()
    return [*reader.feed(_wire(frames)), *reader.finish()]


@pytest.mark.parametrize(("name", "at", "unknown"), CASES)
def test_unknown_object_changes_nothing_in_a_stream(name: str, at: int, unknown: Any) -> None:
    frames = STREAMS[name]
    disturbed = [*frames[:at], unknown, *frames[at:]]
    assert _edited(name, disturbed) == _edited(name, frames)
    if name in CHAT_DIALECTS:
        assert assemble_response(_read(name, disturbed)) == assemble_response(_read(name, frames))


@pytest.mark.parametrize("frame", [b'{"choices": 5}', b'{"choices": [{"index": 0, "delta": {"content": "Hel'])
def test_chunk_whose_choices_cannot_be_read_is_an_error(frame: bytes) -> None:
    chat = CHAT_DIALECTS["openai_chat"]
    with pytest.raises(InvalidUpstreamResponse):
        list(chat.stream_reader().feed(sse_frame(frame)))
    editor = chat.stream_editor(META)
    editor.feed(sse_frame(frame))
    assert isinstance(editor.failure, InvalidUpstreamResponse)


@pytest.mark.parametrize("name", ["openai_chat", "openai_completions"])
def test_error_in_a_stream_is_raised_and_an_empty_one_is_not(name: str) -> None:
    first, *rest = STREAMS[name]
    assert assemble_response(_read(name, [{**first, "error": ""}, *rest])) == assemble_response(_read(name, STREAMS[name]))
    for error in ({"error": {"message": "Out of memory"}}, {"detail": "Out of memory"}):
        with pytest.raises(UpstreamError, match="Out of memory"):
            _read(name, [first, error])
