"""An unknown finish reason of any host ends a response: a stop for every caller, and the host's own word in the record."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from app.gateway.response_translation import translate
from providers.canonical.sse import sse_frame
from providers.dialect import ResponseMeta
from providers.dialects.catalogue import CALLER_DIALECTS, ENGINE_DIALECTS
from tests.conformance.strict_shapes import response_errors
from tests.replay.hosts.aws_event_stream import event

META = ResponseMeta("ID", "EP", "m", 1, wants_usage=True)
WORD = "what_may_come"
CHAT_CALLERS = ("openai_chat", "openai_responses", "anthropic_messages")
CALL = {"name": "now", "arguments": "{}"}


def anthropic(block: dict[str, Any]) -> tuple[Any, Sequence[Any]]:
    message = {"type": "message", "role": "assistant", "model": "m", "usage": {"input_tokens": 1, "output_tokens": 1}}
    text = block.get("text")
    whole = {**message, "content": [block], "stop_reason": WORD}
    deltas = [{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}] if text else []
    return whole, [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {**block, "text": ""} if text else block},
        *deltas,
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": WORD}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]


def response(status: str, **more: Any) -> dict[str, Any]:
    content: Any = [{"type": "output_text", "text": "Hello.", "annotations": [], "logprobs": []}]
    item: Any = {"id": "msg_1", "type": "message", "role": "assistant", "status": "incomplete", "content": content}
    return {"id": "resp_1", "object": "response", "model": "m", "created_at": 1, "status": status, "output": [item], **more}


def responses_events(kind: str, ended: dict[str, Any]) -> Sequence[Any]:
    delta = {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": "Hello."}
    started: Any = {**ended, "status": "in_progress", "output": [], "incomplete_details": None}
    return [{"type": "response.created", "response": started}, delta, {"type": kind, "response": ended}]


MESSAGE = {"role": "assistant", "content": "Hello."}
CALLING = {"role": "assistant", "content": None, "tool_calls": [{"index": 0, "id": "1", "type": "function", "function": CALL}]}
CANDIDATE = {"content": {"role": "model", "parts": [{"text": "Hello."}]}, "finishReason": WORD}
CONVERSED = {"role": "assistant", "content": [{"text": "Hello."}]}
CONVERSE_USAGE = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
COHERE = {"role": "assistant", "content": [{"type": "text", "text": "Hello."}]}
OLLAMA = {"model": "m", "created_at": "2026-01-01T00:00:00Z", "message": MESSAGE, "done": True, "done_reason": WORD}
GENERATED: tuple[Any, Sequence[Any]] = (
    {"generated_text": "Hello.", "details": {"finish_reason": WORD, "generated_tokens": 1, "tokens": []}},
    [
        {"token": {"id": 1, "text": "Hello.", "special": False}, "generated_text": None},
        {"token": {"id": 2, "text": "", "special": True}, "generated_text": "Hello.", "details": {"finish_reason": WORD}},
    ],
)
# A complete response, and the events of its stream.
ENDINGS: dict[str, tuple[Any, Sequence[Any]]] = {
    "openai_chat": (
        {"id": "x", "choices": [{"index": 0, "message": MESSAGE, "finish_reason": WORD}]},
        [
            {"id": "x", "choices": [{"index": 0, "delta": MESSAGE}]},
            {"id": "x", "choices": [{"index": 0, "delta": {}, "finish_reason": WORD}]},
        ],
    ),
    "openai_completions": (
        {"id": "x", "choices": [{"index": 0, "text": "Hello.", "logprobs": None, "finish_reason": WORD}]},
        [
            {"id": "x", "choices": [{"index": 0, "text": "Hello.", "logprobs": None, "finish_reason": None}]},
            {"id": "x", "choices": [{"index": 0, "text": "", "logprobs": None, "finish_reason": WORD}]},
        ],
    ),
    "openai_responses": (response(WORD), responses_events("response.completed", response(WORD))),
    "anthropic_messages": anthropic({"type": "text", "text": "Hello."}),
    "bedrock_converse": (
        {"output": {"message": CONVERSED}, "stopReason": WORD, "usage": CONVERSE_USAGE},
        [
            {"messageStart": {"role": "assistant"}},
            {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "Hello."}}},
            {"contentBlockStop": {"contentBlockIndex": 0}},
            {"messageStop": {"stopReason": WORD}},
            {"metadata": {"usage": CONVERSE_USAGE}},
        ],
    ),
    "bedrock_llama": (
        {"generation": "Hello.", "prompt_token_count": 1, "generation_token_count": 1, "stop_reason": WORD},
        [{"generation": "Hello.", "stop_reason": None}, {"generation": "", "stop_reason": WORD}],
    ),
    "gemini": ({"candidates": [CANDIDATE]}, [{"candidates": [CANDIDATE]}]),
    "cohere_chat": (
        {"id": "1", "message": COHERE, "finish_reason": WORD},
        [
            {"type": "message-start", "id": "1", "delta": {"message": {"role": "assistant"}}},
            {"type": "content-start", "index": 0, "delta": {"message": {"content": {"type": "text", "text": ""}}}},
            {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "Hello."}}}},
            {"type": "content-end", "index": 0},
            {"type": "message-end", "delta": {"finish_reason": WORD}},
        ],
    ),
    "ollama_chat": (OLLAMA, [{**OLLAMA, "done": False, "done_reason": None}, {**OLLAMA, "message": {"role": "assistant", "content": ""}}]),
    "tgi_generate": GENERATED,
    "lmi_generate": GENERATED,
}
STOPS = {
    "openai_chat": "stop",
    "openai_completions": "stop",
    "openai_responses": "completed",
    "anthropic_messages": "end_turn",
}


def stream_bytes(dialect: str, events: Sequence[Any]) -> bytes:
    if dialect == "bedrock_converse":
        return b"".join(event(next(iter(each)), next(iter(each.values()))) for each in events)
    if dialect == "ollama_chat":
        return b"".join(json.dumps(each).encode() + b"\n" for each in events)
    done = b"" if dialect not in ("openai_chat", "openai_completions") else b"data: [DONE]\n\n"
    return b"".join(sse_frame(json.dumps(each).encode()) for each in events) + done


def ending_of(caller: str, raw: bytes) -> tuple[Any, Any]:
    """Returns how a complete response ends, and why it is incomplete, or None."""
    body = json.loads(raw)
    match caller:
        case "anthropic_messages":
            return body["stop_reason"], None
        case "openai_responses":
            details = body["incomplete_details"]
            return body["status"], None if details is None else details["reason"]
        case _:
            return body["choices"][0]["finish_reason"], None


def streamed_ending_of(caller: str, raw: bytes) -> tuple[Any, Any]:
    """The same of a stream's last events."""
    events = [json.loads(line.partition("data: ")[2]) for line in raw.decode().split("\n") if line.startswith("data: {")]
    match caller:
        case "anthropic_messages":
            return next(each["delta"]["stop_reason"] for each in events if each["type"] == "message_delta"), None
        case "openai_responses":
            assert events[-1]["type"] == "response." + events[-1]["response"]["status"]
            return ending_of(caller, json.dumps(events[-1]["response"]).encode())
        case _:
            return next(choice["finish_reason"] for each in events for choice in each["choices"] if choice.get("finish_reason")), None


def endings(caller: str, target: str, whole: Any, events: Sequence[Any]) -> list[tuple[Any, Any, str | None]]:
    """Returns how the response ends for a caller and in the record: whole and streamed."""
    caller_dialect, engine = CALLER_DIALECTS[caller], ENGINE_DIALECTS[target]
    translated = translate.translate_response(json.dumps(whole).encode(), caller_dialect, engine, META)
    editor = translate.make_stream_editor(caller_dialect, engine, META, streamed=True)
    streamed = editor.feed(stream_bytes(target, events)) + editor.finish()
    assert response_errors(caller, translated.raw, streamed=False, written_by_engine=caller == target) == []
    known_events = streamed.replace(b"response.news", b"response.in_progress")
    assert response_errors(caller, known_events, streamed=True, written_by_engine=caller == target) == []
    return [
        (*ending_of(caller, translated.raw), translated.finish_reason),
        (*streamed_ending_of(caller, streamed), editor.finish_reason),
    ]


def test_every_dialect_of_engines_is_in_the_table() -> None:
    assert ENDINGS.keys() == ENGINE_DIALECTS.keys()


@pytest.mark.parametrize("caller", STOPS)
@pytest.mark.parametrize("target", ENDINGS)
def test_unknown_finish_reason_is_a_stop_for_the_caller_and_itself_in_the_record(caller: str, target: str) -> None:
    expected = (STOPS[caller], None, WORD)
    assert endings(caller, target, *ENDINGS[target]) == [expected, expected]


@pytest.mark.parametrize("caller", CHAT_CALLERS)
def test_unknown_stop_reason_after_a_call_ends_with_the_call(caller: str) -> None:
    whole, events = anthropic({"type": "tool_use", "id": "1", "name": "now", "input": {}})
    expected = {"openai_chat": "stop", "openai_responses": "completed", "anthropic_messages": "tool_use"}[caller]
    assert endings(caller, "anthropic_messages", whole, events) == [(expected, None, WORD)] * 2


INCOMPLETE = {
    "max_output_tokens": ("length", "max_output_tokens", "max_tokens", "length"),
    "content_filter": ("content_filter", "content_filter", "refusal", "content_filter"),
    WORD: ("length", "max_output_tokens", "max_tokens", WORD),
    None: ("length", "max_output_tokens", "max_tokens", "length"),
}


@pytest.mark.parametrize("kind", ["response.incomplete", "response.completed", "response.what_may_come"])
@pytest.mark.parametrize("reason", INCOMPLETE)
def test_incomplete_response_is_cut_off_for_every_caller(reason: str | None, kind: str) -> None:
    chat, responses, anthropic_reason, recorded = INCOMPLETE[reason]
    ended = response("incomplete", incomplete_details=None if reason is None else {"reason": reason})
    ends = {caller: endings(caller, "openai_responses", ended, responses_events(kind, ended)) for caller in CHAT_CALLERS}
    assert ends == {
        "openai_chat": [(chat, None, recorded)] * 2,
        "openai_responses": [("incomplete", responses, recorded)] * 2,
        "anthropic_messages": [(anthropic_reason, None, recorded)] * 2,
    }


def test_event_of_an_unknown_type_that_ends_no_response_is_passed_over() -> None:
    ended = response("completed")
    created, *more = responses_events("response.completed", ended)
    news: Any = {"type": "response.news", "response": {**ended, "status": "in_progress", "output": []}}
    for caller in CHAT_CALLERS:
        assert endings(caller, "openai_responses", ended, [created, news, *more]) == [(STOPS[caller], None, "stop")] * 2
