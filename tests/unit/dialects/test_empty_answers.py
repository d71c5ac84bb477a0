"""A 200 of Messages or Responses with neither content, calls nor usage is a failure: same dialect, merged and resumed streams."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.gateway.response_translation import translate
from app.gateway.response_translation.resumable_stream import ResumableStream
from app.gateway.upstream.merged_responses import MergedStream
from providers.canonical.chat import Refusal, Text, Usage
from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.events import ChoiceFinished, Event, PartDelta, PartFinished, PartStarted, ResponseStarted, UsageReported
from providers.dialect import StreamEditor
from providers.dialects.catalogue import CALLER_DIALECTS, CHAT_DIALECTS
from tests.unit.dialects.test_loose_responses import META
from tests.unit.dialects.test_unknown_endings import stream_bytes

ANTHROPIC, RESPONSES = "anthropic_messages", "openai_responses"
EMPTY = "neither content nor calls nor usage"
ZERO = {"input_tokens": 0, "output_tokens": 0}
SOME = {"input_tokens": 3, "output_tokens": 0}


def anthropic_message(content: list[Any], usage: Any, reason: str = "end_turn") -> Any:
    return {"type": "message", "role": "assistant", "model": "m", "content": content, "stop_reason": reason, "usage": usage}


def anthropic_events(content: list[Any], usage: Any, reason: str = "end_turn") -> list[Any]:
    written: list[Any] = [{"type": "message_start", "message": {**anthropic_message([], usage), "stop_reason": None}}]
    for at, block in enumerate(content):
        field = block["type"]
        written.append({"type": "content_block_start", "index": at, "content_block": {**block, field: ""} if field in block else block})
        if field in block:
            written.append({"type": "content_block_delta", "index": at, "delta": {"type": f"{field}_delta", field: block[field]}})
        written.append({"type": "content_block_stop", "index": at})
    return [*written, {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}, {"type": "message_stop"}]


def response(output: list[Any], usage: Any, reason: str | None = None) -> Any:
    body = {"id": "resp_1", "object": "response", "model": "m", "created_at": 1, "output": output, "usage": usage}
    return {**body, "status": "incomplete" if reason else "completed", "incomplete_details": {"reason": reason} if reason else None}


def response_events(output: list[Any], usage: Any, reason: str | None = None) -> list[Any]:
    ended = response(output, usage, reason)
    return [
        {"type": "response.created", "response": {**ended, "output": [], "status": "in_progress"}},
        {"type": f"response.{ended['status']}", "response": ended},
    ]


def message(*texts: str) -> dict[str, Any]:
    content: list[Any] = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []} for text in texts]
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": content}


BODIES: dict[str, Any] = {ANTHROPIC: (anthropic_message, anthropic_events), RESPONSES: (response, response_events)}
REASONING: dict[str, Any] = {"id": "rs_1", "type": "reasoning", "summary": [], "content": []}
EMPTY_CONTENTS: dict[str, list[list[Any]]] = {
    ANTHROPIC: [[], [{"type": "text", "text": ""}], [{"type": "thinking", "thinking": "", "signature": ""}]],
    RESPONSES: [[], [message()], [message("")], [REASONING]],
}
ANSWERS: dict[str, list[list[Any]]] = {
    ANTHROPIC: [
        [{"type": "text", "text": "Hi."}],
        [{"type": "thinking", "thinking": "Hm."}],
        [{"type": "tool_use", "id": "1", "name": "now", "input": {}}],
        [{"type": "redacted_thinking", "data": "x"}],
    ],
    RESPONSES: [
        [message("Hi.")],
        [{**REASONING, "encrypted_content": "x"}],
        [{"type": "function_call", "id": "fc_1", "call_id": "1", "name": "now", "arguments": "{}", "status": "completed"}],
        [{"type": "web_search_call", "id": "ws_1", "status": "completed"}],
    ],
}
CUT_OFF = {ANTHROPIC: ("max_tokens", "refusal"), RESPONSES: ("max_output_tokens", "content_filter")}


def editor_of(dialect: str, events: list[Any]) -> StreamEditor:
    editor = translate.make_stream_editor(CALLER_DIALECTS[dialect], CHAT_DIALECTS[dialect], META, streamed=True)
    editor.feed(stream_bytes(dialect, events))
    return editor


@pytest.mark.parametrize("usage", [None, ZERO], ids=repr)
@pytest.mark.parametrize("dialect", BODIES)
def test_empty_answer_is_a_failure(dialect: str, usage: Any) -> None:
    write, write_events = BODIES[dialect]
    for content in EMPTY_CONTENTS[dialect]:
        raw = json.dumps(write(content, usage)).encode()
        with pytest.raises(InvalidUpstreamResponse, match=EMPTY) as caught:
            translate.translate_response(raw, CALLER_DIALECTS[dialect], CHAT_DIALECTS[dialect], META)
        assert caught.value.retry_elsewhere
        editor = editor_of(dialect, write_events(content, usage))
        with pytest.raises(InvalidUpstreamResponse, match=EMPTY) as streamed:
            editor.finish()
        failed = editor.write_failure(streamed.value).decode()
        assert ('"type":"response.failed"' in failed and '"sequence_number":2' in failed) == (dialect == RESPONSES)


@pytest.mark.parametrize("dialect", BODIES)
def test_content_or_usage_or_a_reason_makes_an_answer(dialect: str) -> None:
    write, write_events = BODIES[dialect]
    cases: list[Any] = [(content, None, None) for content in ANSWERS[dialect]] + [([], SOME, None)]
    cases += [([], ZERO, reason) for reason in CUT_OFF[dialect]]
    for content, usage, reason in cases:
        arguments = (content, usage) if reason is None else (content, usage, reason)
        raw = json.dumps(write(*arguments)).encode()
        assert translate.translate_response(raw, CALLER_DIALECTS[dialect], CHAT_DIALECTS[dialect], META).raw
        assert editor_of(dialect, write_events(*arguments)).finish(), (content, usage, reason)


def chunks(text: str, usage: Any = None) -> bytes:
    deltas: list[Any] = [({"role": "assistant", "content": text}, None), ({}, "stop")]
    events = [{"id": "x", "choices": [{"index": 0, "delta": delta, "finish_reason": end}]} for delta, end in deltas]
    return stream_bytes("openai_chat", [*events, {"id": "x", "choices": [], "usage": usage}])


def test_resumable_stream_fails_before_anything_is_sent_and_goes_on_with_the_next_engine() -> None:
    chat = CHAT_DIALECTS["openai_chat"]
    stream = ResumableStream(chat, continues_prompt=False)
    stream.open(chat, META).feed(chunks(""))
    assert stream.failure is not None and EMPTY in stream.failure.message
    with pytest.raises(InvalidUpstreamResponse, match=EMPTY):
        stream.finish()
    sent = stream.open(chat, META).feed(chunks("Hi.")) + stream.finish()
    assert stream.failure is None and b"Hi." in sent
    stream = ResumableStream(chat, continues_prompt=False)
    assert stream.open(chat, META).feed(chunks("", {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4})) is not None
    assert stream.finish()


async def merged(*events: Event) -> bytes:
    async def source() -> AsyncIterator[Event]:
        for event in events:
            yield event

    stream = MergedStream(CHAT_DIALECTS["openai_chat"], META, None)
    return b"".join([block async for block in stream.blocks(source())]) + stream.finish()


async def test_merged_stream_without_anything_ends_with_an_error() -> None:
    start, empty, end = ResponseStarted("m"), (PartStarted(0, 0, Text("")), PartFinished(0, 0)), ChoiceFinished(0, "stop")
    for parts in ((), empty):
        with pytest.raises(InvalidUpstreamResponse, match=EMPTY):
            await merged(start, *parts, end)
    assert await merged(start, *empty, end, UsageReported(Usage(3, 1)))
    assert b"no" in await merged(start, PartStarted(0, 0, Refusal("")), PartDelta(0, 0, "no"), PartFinished(0, 0), end)
    assert await merged(start, ChoiceFinished(0, "length"))
