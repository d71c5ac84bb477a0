"""Bedrock Converse responses: whole and streamed they read alike, however they are split, and nothing that Bedrock minted is lost."""

import base64
import itertools
import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from providers.canonical.chat import (
    ChatRequest,
    ChatResponse,
    Citation,
    Message,
    Opaque,
    OpaqueState,
    Part,
    Reasoning,
    Text,
    ToolCall,
    Usage,
)
from providers.canonical.errors import (
    InvalidUpstreamResponse,
    Overloaded,
    StreamTruncated,
    TimedOut,
    UnparsableModelOutput,
    UpstreamError,
    UpstreamFailed,
    UpstreamRejected,
)
from providers.canonical.events import Event, assemble_response
from providers.dialects.bedrock_converse import BedrockConverse
from providers.dialects.catalogue import CHAT_DIALECTS
from providers.drop_policy import DropPolicy
from providers.hosted.bedrock.event_stream import invoke_stream_unwrapper
from tests.replay.hosts.aws_event_stream import event, exception
from tests.support.field_handling import HI
from tests.support.strategies import aws_event_frames as frames
from tests.support.strategies.chat_strategies import META, bounded

CONVERSE = BedrockConverse()
CITATION = {"title": "facts", "sourceContent": [{"text": "Ruby."}], "location": {"web": {"url": "https://a.example/"}}}
USAGE = {"inputTokens": 5, "outputTokens": 7, "totalTokens": 32, "cacheReadInputTokens": 12, "cacheWriteInputTokens": 8}
CONTENT: list[dict[str, Any]] = [
    {"reasoningContent": {"reasoningText": {"text": "Hm. Well.", "signature": "c2ln"}}},
    {"reasoningContent": {"redactedContent": "aGlkZGVu"}},
    {"text": "Grüße, "},
    {"citationsContent": {"content": [{"text": "Ruby is old."}], "citations": [CITATION]}},
    {"toolUse": {"toolUseId": "t0", "name": "run", "input": {"code": "1+1"}, "type": "server_tool_use"}},
    {"toolResult": {"toolUseId": "t0", "content": [{"json": {"out": 2}}], "status": "success"}},
    {"toolUse": {"toolUseId": "t1", "name": "now", "input": {"city": "Köln"}}},
    {"toolUse": {"toolUseId": "t2", "name": "here", "input": {}}},
]


def read_whole(content: list[dict[str, Any]], reason: str = "tool_use", **more: Any) -> ChatResponse:
    body = {"output": {"message": {"role": "assistant", "content": content}}, "stopReason": reason, "usage": USAGE, **more}
    return CONVERSE.read_response(json.dumps(body, ensure_ascii=False).encode())


def stream_events(content: list[dict[str, Any]], reason: str = "tool_use", **more: Any) -> Iterable[bytes]:
    yield event("messageStart", {"role": "assistant", "p": "ab"})
    for index, block in enumerate(content):
        start, deltas = block_deltas(block)
        if start:
            yield event("contentBlockStart", {"contentBlockIndex": index, "start": start})
        for delta in deltas:
            yield event("contentBlockDelta", {"contentBlockIndex": index, "delta": delta, "p": "abc"})
        yield event("contentBlockStop", {"contentBlockIndex": index})
    yield event("messageStop", {"stopReason": reason})
    yield event("metadata", {"usage": USAGE, "metrics": {"latencyMs": 5}, **more})


def block_deltas(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match block:
        case {"text": text}:
            return {}, [{"text": text[:3]}, {"text": ""}, {"text": text[3:]}]
        case {"reasoningContent": {"reasoningText": {"text": text, "signature": signature}}}:
            deltas = [{"text": text[:3]}, {"text": text[3:]}, {"signature": signature}]
            return {}, [{"reasoningContent": each} for each in deltas]
        case {"reasoningContent": content}:
            return {}, [{"reasoningContent": content}]
        case {"citationsContent": content}:
            return {}, [{"text": content["content"][0]["text"]}, {"citation": content["citations"][0]}]
        case {"toolUse": call}:
            written = json.dumps(call["input"], ensure_ascii=False, separators=(",", ":")) if call["input"] else ""
            start = {key: value for key, value in call.items() if key != "input"}
            return {"toolUse": start}, [{"toolUse": {"input": each}} for each in (written[:4], written[4:])]
        case {"toolResult": result}:
            start = {key: value for key, value in result.items() if key != "content"}
            return {"toolResult": start}, [{"toolResult": result["content"]}]
        case _:
            raise AssertionError(block)


def read_stream(raw: bytes, cuts: Iterable[int] = ()) -> ChatResponse:
    reader = CONVERSE.stream_reader()
    positions = [0, *sorted(cut % (len(raw) + 1) for cut in cuts), len(raw)]
    received: list[Event] = []
    for start, end in itertools.pairwise(positions):
        received += reader.feed(raw[start:end])
    received += reader.finish()
    return assemble_response(received)


def comparable(answer: ChatResponse) -> Any:
    """Returns what is compared, with arguments by value: whole responses spell them differently."""
    choice = answer.choices[0]
    return [comparable_part(part) for part in choice.parts], choice.finish_reason, choice.upstream_finish_reason, answer.usage


def comparable_part(part: Part) -> Any:
    match part:
        case ToolCall():
            return part.id, part.name, json.loads(part.arguments)
        case Opaque():
            return part.origin, json.loads(bytes(part.raw))
        case Text():
            return part.text, [json.loads(bytes(each.raw)) for each in part.citations]
        case _:
            return part


def test_whole_response_is_read_with_every_part():
    answer = read_whole(CONTENT)
    assert answer.usage == Usage(input=25, output=7, cached=12, cache_written=8)
    reasoning, hidden, text, cited, ran, ran_result, call, bare = answer.choices[0].parts
    assert reasoning == Reasoning("Hm. Well.", OpaqueState("bedrock_converse", "c2ln"))
    assert isinstance(hidden, Opaque) and json.loads(bytes(hidden.raw)) == {"type": "redacted_thinking", "data": "aGlkZGVu"}
    assert text == Text("Grüße, ") and isinstance(cited, Text) and cited.text == "Ruby is old."
    (citation,) = cited.citations
    assert (citation.url, citation.title, citation.quote, citation.start) == ("https://a.example/", "facts", "Ruby.", None)
    assert isinstance(ran, Opaque) and isinstance(ran_result, Opaque)
    assert isinstance(call, ToolCall) and json.loads(call.arguments) == {"city": "Köln"} and isinstance(bare, ToolCall)


@bounded
@given(st.lists(st.integers(0, 10_000), max_size=12))
def test_stream_reads_like_the_whole_response_however_it_is_split(cuts: list[int]):
    assert comparable(read_stream(b"".join(stream_events(CONTENT)), cuts)) == comparable(read_whole(CONTENT))


@pytest.mark.parametrize(
    ("stop_reason", "finish", "upstream_reason"),
    [
        ("end_turn", "stop", None),
        ("stop_sequence", "stop", "stop_sequence"),
        ("max_tokens", "length", None),
        ("model_context_window_exceeded", "length", "model_context_window_exceeded"),
        ("guardrail_intervened", "content_filter", "guardrail_intervened"),
        ("content_filtered", "content_filter", "content_filtered"),
        ("a_new_word", "stop", "a_new_word"),
    ],
)
def test_stop_reason_maps_to_a_finish_reason_and_keeps_the_upstream_one(stop_reason: str, finish: str, upstream_reason: str | None):
    content = [{"text": "Hi."}]
    for answer in (read_whole(content, stop_reason), read_stream(b"".join(stream_events(content, stop_reason)))):
        assert (answer.choices[0].finish_reason, answer.choices[0].upstream_finish_reason) == (finish, upstream_reason)


def test_response_with_tool_calls_finishes_with_tool_calls_despite_end_turn():
    assert read_whole(CONTENT[-1:], "end_turn").choices[0].finish_reason == "tool_calls"


@pytest.mark.parametrize("stop_reason", ["malformed_tool_use", "malformed_model_output"])
def test_malformed_output_stop_reason_fails_after_earlier_parts_are_delivered(stop_reason: str):
    with pytest.raises(UnparsableModelOutput):
        read_whole([{"text": "Hi."}], stop_reason)
    received: list[Event] = []
    reader = CONVERSE.stream_reader()
    with pytest.raises(UnparsableModelOutput):
        for each in reader.feed(b"".join(stream_events([{"text": "Hi."}], stop_reason))):
            received.append(each)
    assert assemble_response(received).choices[0].parts == (Text("Hi."),) and not reader.done


def test_block_without_a_stop_event_ends_where_the_next_begins():
    starts = [event("contentBlockStart", {"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": id, "name": "now"}}}) for id in "ab"]
    answer = read_stream(b"".join([*starts, event("messageStop", {"stopReason": "tool_use"})]))
    assert answer.choices[0].parts == (ToolCall("a", "now", "{}"), ToolCall("b", "now", "{}"))


def test_reader_is_done_only_after_the_metadata_event():
    reader = CONVERSE.stream_reader()
    *before, metadata = stream_events([{"text": "Hi."}], "end_turn")
    list(reader.feed(b"".join(before)))
    assert not reader.done
    list(reader.feed(metadata))
    assert reader.done and not list(reader.finish())


def test_stream_without_metadata_has_no_usage_and_without_a_stop_is_truncated():
    *before, end, _ = stream_events([{"text": "Hi."}], "end_turn")
    assert read_stream(b"".join([*before, end])).usage is None
    with pytest.raises(StreamTruncated):
        read_stream(b"".join(before))


def test_one_hour_cache_tokens_and_service_tier_are_read():
    more = {"cacheDetails": [{"ttl": "1h", "inputTokens": 3}, {"ttl": "5m", "inputTokens": 5}]}
    answer = read_whole([{"text": "Hi."}], "end_turn", usage={**USAGE, **more}, serviceTier={"type": "flex"})
    assert answer.usage is not None and (answer.usage.cache_written_hour, answer.usage.tier) == (3, "flex")
    assert answer.service_tier == "flex"
    assert read_whole([], "end_turn", usage={"inputTokens": "3", "outputTokens": 2.0}).usage == Usage(input=3, output=2)
    assert read_whole([], "end_turn", usage={"inputTokens": -1, "outputTokens": "x"}).usage is None  # which is estimated
    assert read_whole([], "end_turn", usage=["x"]).usage is None


@pytest.mark.parametrize(
    ("kind", "error", "status"),
    [
        ("throttlingException", Overloaded, 429),
        ("modelStreamErrorException", UpstreamFailed, 502),
        ("internalServerException", UpstreamFailed, 500),
        ("serviceUnavailableException", Overloaded, 503),
        ("validationException", UpstreamRejected, 400),
    ],
)
def test_stream_exception_is_raised_after_earlier_events_are_delivered(kind: str, error: type[UpstreamError], status: int):
    first_events = list(stream_events([{"text": "Hi, you."}]))[:3]
    received: list[Event] = []
    with pytest.raises(error) as raised:
        for each in CONVERSE.stream_reader().feed(b"".join([*first_events, exception(kind, "Too much.")])):
            received.append(each)
    assert assemble_response(received).choices[0].parts == (Text("Hi,"),)
    assert (raised.value.upstream_code, raised.value.status) == (kind, status) and "Too much." in raised.value.message


@pytest.mark.parametrize("raw", [b"{", b"[]", b"{}", b'{"output":{}}', b'{"output":{"message":{"content":[{"text":1}]}}}'])
def test_invalid_whole_response_is_refused(raw: bytes):
    with pytest.raises(InvalidUpstreamResponse):
        CONVERSE.read_response(raw)


@pytest.mark.parametrize(
    "raw",
    [
        frames.event("contentBlockDelta", b"{"),
        event("contentBlockDelta", {"contentBlockIndex": 0}),
        event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"citation": 1}}),
        event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"toolUse": {"input": "{}"}}}),
        event("messageStart", {})[:-1] + b"\x00",
    ],
)
def test_invalid_stream_event_is_refused(raw: bytes):
    with pytest.raises(InvalidUpstreamResponse):
        read_stream(raw)


@pytest.mark.parametrize("caller", ["openai_chat", "openai_responses", "anthropic_messages"])
@pytest.mark.parametrize("streamed", [False, True])
def test_opaque_blocks_round_trip_through_every_caller_dialect(caller: str, streamed: bool):
    """A response goes to a caller, comes back, and goes to Bedrock: with signature, hidden reasoning and its own tool's blocks."""
    caller_dialect = CHAT_DIALECTS[caller]
    content = [*CONTENT[:3], *CONTENT[4:6], CONTENT[6]]
    answer = read_stream(b"".join(stream_events(content))) if streamed else read_whole(content)
    (message,) = read_back(caller, caller_dialect.write_response(answer, META))
    drop_policy = DropPolicy(lambda _: False, {}, "bedrock")
    request = ChatRequest(origin=caller, model="anthropic.claude-opus-4-6-v1", messages=(Message("user", (Text("Hi!"),)), message))
    sent_content = json.loads(CONVERSE.write_request(request, drop_policy).write())["messages"][1]["content"]
    assert sorted(sent_content, key=json.dumps) == sorted(content, key=json.dumps)
    assert sent_content[:2] == content[:2]


def read_back(caller: str, raw: bytes) -> list[Message]:
    response = json.loads(raw)
    match caller:
        case "openai_chat":
            body: dict[str, Any] = {"messages": [*HI, response["choices"][0]["message"]]}
        case "openai_responses":
            body = {"input": [*HI, *response["output"]]}
        case _:
            body = {"messages": [*HI, {"role": "assistant", "content": response["content"]}], "max_tokens": 5}
    caller_dialect = CHAT_DIALECTS[caller]
    request = caller_dialect.parse_request(json.dumps({"model": "m", **body}).encode())
    messages = caller_dialect.read_request(request.body).messages[1:]
    return [Message("assistant", tuple(part for message in messages for part in message.parts))]


@bounded
@given(st.lists(st.integers(0, 2_000), max_size=8))
def test_claude_events_are_unwrapped_from_aws_frames_however_they_are_split(cuts: list[int]):
    inner_events: list[dict[str, Any]] = [{"type": "message_start", "message": {"usage": {}}}, {"type": "ping"}, {"no": "type"}]
    wrapped = [{"bytes": base64.b64encode(json.dumps(each).encode()).decode(), "p": "ab"} for each in inner_events]
    raw = b"".join(event("chunk", each) for each in wrapped) + event("something", {"new": 1})
    unwrapper, positions = invoke_stream_unwrapper(), [0, *sorted(cut % (len(raw) + 1) for cut in cuts), len(raw)]
    inner = b"".join(unwrapper.feed(raw[start:end]) for start, end in itertools.pairwise(positions))
    lines = inner.decode().split("\n\n")[:-1]
    assert [json.loads(each.partition("data: ")[2]) for each in lines] == inner_events
    assert lines[0].startswith("event: message_start\n") and lines[2].startswith("data: ")


def test_aws_exception_is_raised_after_the_claude_events_before_it():
    unwrapper = invoke_stream_unwrapper()
    chunk = {"bytes": base64.b64encode(b'{"type":"ping"}').decode()}
    assert unwrapper.feed(event("chunk", chunk) + exception("modelTimeoutException", "Too slow.")).startswith(b"event: ping")
    with pytest.raises(TimedOut):
        unwrapper.feed(b"")
    with pytest.raises(InvalidUpstreamResponse):
        invoke_stream_unwrapper().feed(event("chunk", {"bytes": "§"}))


def test_own_citations_are_sent_back_and_foreign_ones_are_reported():
    own_citation = Citation("bedrock_converse", Raw(json.dumps(CITATION).encode()))
    foreign_citation = Citation("gemini", Raw(b"{}"))
    request = ChatRequest(
        "openai_chat", "m", (Message("user", (Text("Hi!"),)), Message("assistant", (Text("Old.", (own_citation, foreign_citation)),)))
    )
    drop_policy = DropPolicy(lambda _: False, {}, "bedrock")
    sent_content = json.loads(CONVERSE.write_request(request, drop_policy).write())["messages"][1]["content"]
    assert sent_content == [{"citationsContent": {"content": [{"text": "Old."}], "citations": [CITATION]}}]
    assert drop_policy.dropped == ["messages[1].content[0].citations"]
