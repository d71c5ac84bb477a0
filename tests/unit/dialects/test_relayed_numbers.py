"""Numbers that an engine sends as strings, or leaves out, are numbers for a caller of the same API, as for callers of others."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from providers.dialects.anthropic_messages import AnthropicMessages
from providers.dialects.openai_chat import OpenAIChat
from providers.dialects.openai_completions import OpenAICompletions
from tests.support.strategies.anthropic_strategies import parse_sse_events
from tests.support.strategies.chat_strategies import META, parse_sse_chunks

CREATED: list[tuple[Any, int]] = [
    ("1700000000", 1_700_000_000),
    ("soon", META.created),
    (None, META.created),
    (1_700_000_000, 1_700_000_000),
]
HI: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
ANSWERS: list[tuple[Any, dict[str, Any]]] = [
    (OpenAIChat(), {**HI, "message": {"role": "assistant", "content": "Hi"}}),
    (OpenAICompletions(), {**HI, "text": "Hi"}),
]


@pytest.mark.parametrize(("created", "expected"), CREATED)
@pytest.mark.parametrize(("dialect", "choice"), ANSWERS, ids=["chat", "completions"])
def test_created_of_an_answer_is_a_number(dialect: Any, choice: dict[str, Any], created: Any, expected: int) -> None:
    edited = dialect.edit_response(json.dumps({"created": created, "choices": [choice]}).encode(), META)
    assert json.loads(edited.raw)["created"] == expected


@pytest.mark.parametrize(("created", "expected"), CREATED)
def test_created_of_each_chunk_is_a_number(created: Any, expected: int) -> None:
    deltas = [{"index": 0, "delta": {"content": text}} for text in "abcdef"] + [{**HI, "delta": {}}]
    chunks = [{"id": "c", "created": created, "choices": [delta]} for delta in deltas]
    editor = OpenAIChat().stream_editor(META)
    out = editor.feed(b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks)) + editor.finish()
    assert [chunk["created"] for chunk in parse_sse_chunks(out)] == [expected] * len(chunks)


INDEXES: dict[str, Callable[[int], dict[str, Any]]] = {
    "string": lambda at: {"index": str(at)},
    "null": lambda at: {"index": None},
    "missing": lambda at: {},
    "number": lambda at: {"index": at},
}


@pytest.mark.parametrize("write", INDEXES.values(), ids=list(INDEXES))
def test_index_of_each_block_of_a_message_is_a_number(write: Any) -> None:
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 1, "output_tokens": 1}}}]
    for at in range(2):
        events += [
            {"type": "content_block_start", **write(at), "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", **write(at), "delta": {"type": "text_delta", "text": '"index":"7"'}},
            {"type": "content_block_stop", **write(at)},
        ]
    events += [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}, {"type": "message_stop"}]
    editor = AnthropicMessages().stream_editor(META)
    frames = b"".join(b"event: %b\ndata: %b\n\n" % (each["type"].encode(), json.dumps(each).encode()) for each in events)
    out = parse_sse_events(editor.feed(frames) + editor.finish())
    assert [each["index"] for each in out if "block" in each["type"]] == [0, 0, 0, 1, 1, 1]
    assert [each["delta"]["text"] for each in out if each["type"] == "content_block_delta"] == ['"index":"7"'] * 2
