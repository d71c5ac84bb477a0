"""Cohere responses: streams and whole responses read alike, however they are split, and every caller can send them back."""

import json
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from providers.canonical.chat import ChatResponse, Reasoning, Text, ToolCall, Usage
from providers.canonical.errors import (
    CredentialRefused,
    InvalidUpstreamResponse,
    Overloaded,
    QuotaExhausted,
    StreamTruncated,
    TimedOut,
    UpstreamError,
    UpstreamFailed,
    UpstreamNotFound,
    UpstreamRejected,
)
from providers.canonical.events import Event, assemble_response
from providers.dialects.catalogue import CHAT_DIALECTS
from providers.dialects.cohere_chat import CohereChat
from providers.drop_policy import DropPolicy
from providers.hosted.cohere.adapter import Cohere
from tests.support.request_translation import drop_nothing
from tests.support.strategies.chat_strategies import META, bounded, byte_splits

DIALECT = CohereChat()
USAGE = {
    "billed_units": {"input_tokens": 7.0, "output_tokens": 5.0},
    "tokens": {"input_tokens": 70, "output_tokens": 9, "reasoning_tokens": 2},
    "cached_tokens": 60,
}
EXPECTED_USAGE = Usage(70, 9, cached=60, reasoning=2, billed_input=7, billed_output=5)
SOURCES = [{"type": "document", "id": "doc:0", "document": {"id": "doc:0", "title": "A page", "url": "https://example.org/a", "text": "…"}}]


def citation(start: int, end: int, content_index: int | None, kind: str = "TEXT_CONTENT") -> dict[str, Any]:
    return {
        "start": start,
        "end": end,
        "text": "x",
        "sources": SOURCES,
        "type": kind,
        **({} if content_index is None else {"content_index": content_index}),
    }


def event(kind: str, index: int | None = None, **delta: Any) -> dict[str, Any]:
    return {"type": kind, **({} if index is None else {"index": index}), **({"delta": delta} if delta else {})}


def content(kind: str, index: int, **piece: str) -> dict[str, Any]:
    return event(f"content-{kind}", index, message={"content": piece})


def tool_call_event(kind: str, index: int, **fields: Any) -> dict[str, Any]:
    return event(f"tool-call-{kind}", index, message={"tool_calls": fields})


START: dict[str, Any] = {
    "id": "x",
    "type": "message-start",
    "delta": {"message": {"role": "assistant", "content": [], "tool_calls": [], "citations": []}},
}
END = event("message-end", finish_reason="TOOL_CALL", usage=USAGE)
ANSWER: list[dict[str, Any]] = [
    START,
    content("start", 0, type="thinking", thinking=""),
    content("delta", 0, thinking="Let "),
    content("delta", 0, thinking="me see."),
    event("content-end", 0),
    content("start", 1, type="text", text=""),
    content("delta", 1, text="It is "),
    event("citation-start", 0, message={"citations": citation(0, 2, 1)}),
    event("citation-end", 0),
    event("citation-start", 1, message={"citations": citation(0, 3, 0, "THINKING_CONTENT")}),
    content("delta", 1, text="so."),
    event("content-end", 1),
    event("citation-start", 2, message={"citations": citation(3, 5, 1)}),
    event("tool-plan-delta", message={"tool_plan": "I will "}),
    event("tool-plan-delta", message={"tool_plan": "add."}),
    tool_call_event("start", 0, id="add_1", type="function", function={"name": "add", "arguments": ""}),
    tool_call_event("delta", 0, function={"arguments": '{"a":'}),
    tool_call_event("delta", 0, function={"arguments": "1}"}),
    event("tool-call-end", 0),
    tool_call_event("start", 1, id="now_2", type="function", function={"name": "now", "arguments": ""}),
    event("tool-call-end", 1),
    {"type": "debug", "prompt": "?"},
    END,
]
WHOLE = {
    "id": "x",
    "finish_reason": "TOOL_CALL",
    "usage": USAGE,
    "message": {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "Let me see."}, {"type": "text", "text": "It is so."}],
        "citations": [citation(0, 2, 1), citation(0, 3, 0, "THINKING_CONTENT"), citation(3, 5, 1)],
        "tool_plan": "I will add.",
        "tool_calls": [
            {"id": "add_1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}},
            {"id": "now_2", "type": "function", "function": {"name": "now"}},
        ],
    },
}


def encode_sse(*events: Any) -> bytes:
    frames = [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events]
    return "".join([*frames, "data: [DONE]\n\n"]).encode()


def read_stream(*blocks: bytes) -> list[Event]:
    reader = DIALECT.stream_reader()
    return [event for block in blocks for event in reader.feed(block)] + [*reader.finish()]


def read_whole(body: Any) -> ChatResponse:
    return DIALECT.read_response(json.dumps(body).encode())


def test_stream_reads_like_the_whole_response():
    answer = assemble_response(read_stream(encode_sse(*ANSWER)))
    assert answer == read_whole(WHOLE)
    (choice,) = answer.choices
    assert [type(part) for part in choice.parts] == [Reasoning, Text, Reasoning, ToolCall, ToolCall]
    text = choice.parts[1]
    assert isinstance(text, Text) and [(each.start, each.end, each.url, each.title) for each in text.citations] == [
        (0, 2, "https://example.org/a", "A page"),
        (3, 5, "https://example.org/a", "A page"),
    ]
    assert choice.parts[4] == ToolCall("now_2", "now", "{}")
    assert (choice.finish_reason, answer.usage) == ("tool_calls", EXPECTED_USAGE)


@bounded
@given(st.data())
def test_stream_reads_alike_however_it_is_split(data: st.DataObject):
    assert read_stream(*data.draw(byte_splits(encode_sse(*ANSWER)))) == read_stream(encode_sse(*ANSWER))


def test_tool_calls_without_ids_get_unique_ids():
    calls: list[dict[str, Any]] = [{"type": "function", "function": {"name": "now"}}, {"id": None, "function": {"name": "now"}}]
    answers = [read_whole({**WHOLE, "message": {"tool_calls": calls}}) for _ in range(2)]
    started = [tool_call_event("start", at, **{**each, "function": {"name": "now", "arguments": ""}}) for at, each in enumerate(calls)]
    answers.append(assemble_response(read_stream(encode_sse(START, *started, END))))
    ids = [part.id for answer in answers for part in answer.choices[0].parts if isinstance(part, ToolCall)]
    assert len(ids) == len(set(ids)) == 6 and all(ids)


@pytest.mark.parametrize("caller", ["openai_chat", "openai_responses", "anthropic_messages"])
def test_response_round_trips_through_every_caller_dialect(caller: str):
    """Plans keep their own field, thinking stays thinking, and citations survive where the caller's API has a field for them."""
    caller_dialect = CHAT_DIALECTS[caller]
    response = json.loads(caller_dialect.write_response(read_whole(WHOLE), META))
    if caller == "openai_chat":
        back: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}, response["choices"][0]["message"]]}
    elif caller == "openai_responses":
        back = {"input": [{"role": "user", "content": "Hi"}, *response["output"]]}
    else:
        back = {"max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": response["content"]}]}
    request = caller_dialect.parse_request(json.dumps({"model": "m", **back}).encode())
    drop_policy = DropPolicy(drop_nothing, caller_dialect.field_names, "it")
    body = json.loads(DIALECT.write_request(caller_dialect.read_request(request.body), drop_policy).write())
    assistant_messages = [each for each in body["messages"] if each["role"] == "assistant"]
    plans = "".join(each.get("tool_plan", "") for each in assistant_messages)
    listed = [cast("list[Any]", each["content"]) for each in assistant_messages if isinstance(each.get("content"), list)]
    pieces = [piece for content in listed for piece in content]
    assert plans == "I will add."
    assert [piece["thinking"] for piece in pieces if piece["type"] == "thinking"] == ["Let me see."]
    assert [call["id"] for each in assistant_messages for call in each.get("tool_calls", ())] == ["add_1", "now_2"]
    if caller == "anthropic_messages":
        assert [{**each, "content_index": 1} for each in assistant_messages[0]["citations"]] == [citation(0, 2, 1), citation(3, 5, 1)]


@pytest.mark.parametrize(
    ("reason", "finish_reason", "upstream_reason"),
    [
        ("COMPLETE", "stop", None),
        ("STOP_SEQUENCE", "stop", "stop_sequence"),
        ("MAX_TOKENS", "length", None),
        ("TOOL_CALL", "tool_calls", None),
        ("ERROR_TOXIC", "content_filter", None),
        ("NEW_REASON", "stop", "NEW_REASON"),
    ],
)
def test_finish_reason_maps_to_openais(reason: str, finish_reason: str, upstream_reason: str | None):
    answer = read_whole({**WHOLE, "finish_reason": reason})
    assert (answer.choices[0].finish_reason, answer.choices[0].upstream_finish_reason) == (finish_reason, upstream_reason)


@pytest.mark.parametrize(
    ("end", "kind"),
    [
        (event("message-end", finish_reason="ERROR", error="the model broke"), UpstreamFailed),
        (event("message-end", finish_reason="TIMEOUT"), TimedOut),
        ({"id": "x", "message": "internal server error"}, UpstreamError),
        ({"type": 5}, InvalidUpstreamResponse),
    ],
)
def test_stream_failure_is_raised_after_earlier_events_are_delivered(end: dict[str, Any], kind: type[Exception]):
    reader = DIALECT.stream_reader()
    received: list[Event] = []
    stream = encode_sse(*ANSWER[:4]).removesuffix(b"data: [DONE]\n\n") + f"data: {json.dumps(end)}\n\n".encode()
    with pytest.raises(kind):
        for block in (stream[:60], stream[60:]):
            for each in reader.feed(block):
                received.append(each)
    assert len(received) >= 4 and not reader.done


def test_stream_without_message_end_is_truncated():
    with pytest.raises(StreamTruncated):
        read_stream(encode_sse(*ANSWER[:-1]))


def test_last_frame_without_a_blank_line_is_read_at_finish():
    raw = encode_sse(*ANSWER).removesuffix(b"\n\ndata: [DONE]\n\n")
    assert assemble_response(read_stream(raw)) == read_whole(WHOLE)


def test_logprobs_are_read_in_openais_format():
    logprobs = {"token_ids": [1, 2], "text": "It", "logprobs": [-0.5, -0.25]}
    delta = {**content("delta", 0, text="It"), "logprobs": logprobs}
    streamed = assemble_response(read_stream(encode_sse(START, delta, event("message-end", finish_reason="COMPLETE"))))
    answer = read_whole({"message": {"content": [{"type": "text", "text": "It"}]}, "finish_reason": "COMPLETE", "logprobs": [logprobs]})
    assert streamed == answer and streamed.usage is None
    assert [json.loads(bytes(entry)) for entry in answer.choices[0].logprobs or ()] == [
        {"token": "It", "logprob": -0.75, "bytes": [73, 116], "top_logprobs": []}
    ]


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        ({"tokens": {"input_tokens": 7, "output_tokens": 5}}, Usage(7, 5)),
        ({"billed_units": {"input_tokens": 7, "output_tokens": 5}, "cached_tokens": 60}, Usage(7, 5)),
        ({**USAGE, "cached_tokens": 90}, replace(EXPECTED_USAGE, cached=70)),
        ({**USAGE, "billed_units": {"input_tokens": -1, "output_tokens": 5}}, replace(EXPECTED_USAGE, billed_input=None)),
        (None, None),
    ],
)
def test_usage_is_what_was_processed_and_billed_units_stand_beside_it(reported: dict[str, Any] | None, expected: Usage | None):
    assert read_whole({**WHOLE, "usage": reported}).usage == expected


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (401, "Incorrect API key provided: ***.", CredentialRefused),
        (404, "model 'command-r' was removed on September 15, 2025.", UpstreamNotFound),
        (400, "invalid request: response_format is not supported with RAG.", UpstreamRejected),
        (498, "invalid token", UpstreamRejected),
        (500, "internal server error", UpstreamFailed),
    ],
)
def test_cohere_error_maps_to_gateway_error(status: int, message: str, kind: type[UpstreamError]):
    error = Cohere("it", {}).read_error(status, {}, json.dumps({"id": "x", "message": message}).encode())
    assert type(error) is kind and message in error.message


def test_monthly_trial_limit_is_exhausted_and_per_minute_limit_is_overloaded():
    for message, kind in (("limited to 20 API calls / minute.", Overloaded), ("limited to 1000 API calls / month.", QuotaExhausted)):
        body = json.dumps({"id": "x", "message": f"You are using a Trial key, which is {message}"}).encode()
        error = Cohere("it", {}).read_error(429, {"retry-after": "7"}, body)
        assert (type(error), error.status, error.retry_after_s) == (kind, 429, 7)


def test_error_body_with_status_200_is_an_error():
    with pytest.raises(UpstreamFailed, match="broke"):
        read_whole({"id": "x", "message": "something broke"})
    with pytest.raises(InvalidUpstreamResponse):
        read_whole({"id": "x"})
