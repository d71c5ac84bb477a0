"""Laws of the answers of Bedrock's Converse: whole and streamed alike, cut anywhere; nothing that it minted is lost."""

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
from providers.dialect import DropPolicy
from providers.dialects.bedrock_converse import BedrockConverse
from providers.dialects.catalogue import CHAT_DIALECTS
from providers.hosted.bedrock.event_stream import invoke_stream_unwrapper
from tests.exchanges.hosts.aws_frames import event, exception
from tests.laws import aws_frames as frames
from tests.laws.chats import STAMP, bounded
from tests.laws.engine_fields import HI

CONVERSE = BedrockConverse()
CITED = {"title": "facts", "sourceContent": [{"text": "Ruby."}], "location": {"web": {"url": "https://a.example/"}}}
COUNTS = {"inputTokens": 5, "outputTokens": 7, "totalTokens": 32, "cacheReadInputTokens": 12, "cacheWriteInputTokens": 8}
CONTENT: list[dict[str, Any]] = [
    {"reasoningContent": {"reasoningText": {"text": "Hm. Well.", "signature": "c2ln"}}},
    {"reasoningContent": {"redactedContent": "aGlkZGVu"}},
    {"text": "Grüße, "},
    {"citationsContent": {"content": [{"text": "Ruby is old."}], "citations": [CITED]}},
    {"toolUse": {"toolUseId": "t0", "name": "run", "input": {"code": "1+1"}, "type": "server_tool_use"}},
    {"toolResult": {"toolUseId": "t0", "content": [{"json": {"out": 2}}], "status": "success"}},
    {"toolUse": {"toolUseId": "t1", "name": "now", "input": {"city": "Köln"}}},
    {"toolUse": {"toolUseId": "t2", "name": "here", "input": {}}},
]


def whole(content: list[dict[str, Any]], reason: str = "tool_use", **more: Any) -> ChatResponse:
    told = {"output": {"message": {"role": "assistant", "content": content}}, "stopReason": reason, "usage": COUNTS, **more}
    return CONVERSE.read_response(json.dumps(told, ensure_ascii=False).encode())


def events(content: list[dict[str, Any]], reason: str = "tool_use", **more: Any) -> Iterable[bytes]:
    yield event("messageStart", {"role": "assistant", "p": "ab"})
    for at, block in enumerate(content):
        start, deltas = pieces(block)
        if start:
            yield event("contentBlockStart", {"contentBlockIndex": at, "start": start})
        for delta in deltas:
            yield event("contentBlockDelta", {"contentBlockIndex": at, "delta": delta, "p": "abc"})
        yield event("contentBlockStop", {"contentBlockIndex": at})
    yield event("messageStop", {"stopReason": reason})
    yield event("metadata", {"usage": COUNTS, "metrics": {"latencyMs": 5}, **more})


def pieces(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match block:
        case {"text": text}:
            return {}, [{"text": text[:3]}, {"text": ""}, {"text": text[3:]}]
        case {"reasoningContent": {"reasoningText": {"text": text, "signature": signature}}}:
            told = [{"text": text[:3]}, {"text": text[3:]}, {"signature": signature}]
            return {}, [{"reasoningContent": each} for each in told]
        case {"reasoningContent": said}:
            return {}, [{"reasoningContent": said}]
        case {"citationsContent": said}:
            return {}, [{"text": said["content"][0]["text"]}, {"citation": said["citations"][0]}]
        case {"toolUse": call}:
            written = json.dumps(call["input"], ensure_ascii=False, separators=(",", ":")) if call["input"] else ""
            start = {key: value for key, value in call.items() if key != "input"}
            return {"toolUse": start}, [{"toolUse": {"input": each}} for each in (written[:4], written[4:])]
        case {"toolResult": result}:
            start = {key: value for key, value in result.items() if key != "content"}
            return {"toolResult": start}, [{"toolResult": result["content"]}]
        case _:
            raise AssertionError(block)


def read(raw: bytes, cuts: Iterable[int] = ()) -> ChatResponse:
    reader = CONVERSE.stream_reader()
    places = [0, *sorted(cut % (len(raw) + 1) for cut in cuts), len(raw)]
    told: list[Event] = []
    for start, end in itertools.pairwise(places):
        told += reader.feed(raw[start:end])
    told += reader.finish()
    return assemble_response(told)


def alike(answer: ChatResponse) -> Any:
    """Arguments by what they mean: whole answers spell them their own way."""
    choice = answer.choices[0]
    return [plain(part) for part in choice.parts], choice.finish_reason, choice.upstream_finish_reason, answer.usage


def plain(part: Part) -> Any:
    match part:
        case ToolCall():
            return part.id, part.name, json.loads(part.arguments)
        case Opaque():
            return part.origin, json.loads(bytes(part.raw))
        case Text():
            return part.text, [json.loads(bytes(each.raw)) for each in part.citations]
        case _:
            return part


def test_a_whole_answer_is_read_in_full():
    answer = whole(CONTENT)
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
def test_a_stream_means_the_same_however_it_is_cut(cuts: list[int]):
    assert alike(read(b"".join(events(CONTENT)), cuts)) == alike(whole(CONTENT))


@pytest.mark.parametrize(
    ("word", "finish", "told"),
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
def test_its_words_for_an_end_are_openais_or_told_beside_them(word: str, finish: str, told: str | None):
    content = [{"text": "Hi."}]
    for answer in (whole(content, word), read(b"".join(events(content, word)))):
        assert (answer.choices[0].finish_reason, answer.choices[0].upstream_finish_reason) == (finish, told)


def test_an_end_with_calls_is_one_although_it_is_called_another():
    assert whole(CONTENT[-1:], "end_turn").choices[0].finish_reason == "tool_calls"


@pytest.mark.parametrize("word", ["malformed_tool_use", "malformed_model_output"])
def test_what_the_host_could_not_read_is_a_failure_and_what_came_before_it_is_given(word: str):
    with pytest.raises(UnparsableModelOutput):
        whole([{"text": "Hi."}], word)
    told: list[Event] = []
    reader = CONVERSE.stream_reader()
    with pytest.raises(UnparsableModelOutput):
        for each in reader.feed(b"".join(events([{"text": "Hi."}], word))):
            told.append(each)
    assert assemble_response(told).choices[0].parts == (Text("Hi."),) and not reader.done


def test_a_block_whose_end_was_not_told_ends_where_the_next_begins():
    begun = [event("contentBlockStart", {"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": id, "name": "now"}}}) for id in "ab"]
    answer = read(b"".join([*begun, event("messageStop", {"stopReason": "tool_use"})]))
    assert answer.choices[0].parts == (ToolCall("a", "now", "{}"), ToolCall("b", "now", "{}"))


def test_it_is_done_once_its_counts_have_come_and_not_before():
    reader = CONVERSE.stream_reader()
    *before, counts = events([{"text": "Hi."}], "end_turn")
    list(reader.feed(b"".join(before)))
    assert not reader.done
    list(reader.feed(counts))
    assert reader.done and not list(reader.finish())


def test_a_stream_that_ends_without_its_counts_has_none_and_one_without_an_end_is_cut_short():
    *before, end, _ = events([{"text": "Hi."}], "end_turn")
    assert read(b"".join([*before, end])).usage is None
    with pytest.raises(StreamTruncated):
        read(b"".join(before))


def test_what_an_hour_of_cache_took_and_a_tier_are_told():
    more = {"cacheDetails": [{"ttl": "1h", "inputTokens": 3}, {"ttl": "5m", "inputTokens": 5}]}
    answer = whole([{"text": "Hi."}], "end_turn", usage={**COUNTS, **more}, serviceTier={"type": "flex"})
    assert answer.usage is not None and (answer.usage.cache_written_hour, answer.usage.tier) == (3, "flex")
    assert answer.service_tier == "flex"
    assert whole([], "end_turn", usage={"inputTokens": -1, "outputTokens": "x"}).usage is None


@pytest.mark.parametrize(
    ("kind", "error", "status"),
    [
        ("throttlingException", Overloaded, 429),
        ("modelStreamErrorException", UpstreamFailed, 502),
        ("internalServerException", UpstreamFailed, 502),
        ("serviceUnavailableException", Overloaded, 503),
        ("validationException", UpstreamRejected, 400),
    ],
)
def test_an_exception_in_a_stream_is_raised_once_all_before_it_was_given(kind: str, error: type[UpstreamError], status: int):
    begun = list(events([{"text": "Hi, you."}]))[:3]
    told: list[Event] = []
    with pytest.raises(error) as raised:
        for each in CONVERSE.stream_reader().feed(b"".join([*begun, exception(kind, "Too much.")])):
            told.append(each)
    assert assemble_response(told).choices[0].parts == (Text("Hi,"),)
    assert (raised.value.upstream_code, raised.value.status) == (kind, status) and "Too much." in raised.value.message


@pytest.mark.parametrize("raw", [b"{", b"[]", b"{}", b'{"output":{}}', b'{"output":{"message":{"content":[{"text":1}]}}}'])
def test_what_is_no_answer_is_garbled(raw: bytes):
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
def test_what_is_no_event_is_garbled(raw: bytes):
    with pytest.raises(InvalidUpstreamResponse):
        read(raw)


@pytest.mark.parametrize("caller", ["openai_chat", "openai_responses", "anthropic_messages"])
@pytest.mark.parametrize("streamed", [False, True])
def test_what_it_minted_comes_back_to_it_through_every_caller(caller: str, streamed: bool):
    """An answer told to a caller, given back by it, and said to Bedrock again: signature, hidden reasoning, and its own tool's blocks."""
    ours = CHAT_DIALECTS[caller]
    content = [*CONTENT[:3], *CONTENT[4:6], CONTENT[6]]
    answer = read(b"".join(events(content))) if streamed else whole(content)
    (message,) = given_back(caller, ours.write_response(answer, STAMP))
    concessions = DropPolicy(lambda _: False, {}, "bedrock")
    ask = ChatRequest(origin=caller, model="anthropic.claude-opus-4-6-v1", messages=(Message("user", (Text("Hi!"),)), message))
    told = json.loads(CONVERSE.write_request(ask, concessions).write())["messages"][1]["content"]
    assert sorted(told, key=json.dumps) == sorted(content, key=json.dumps)
    assert told[:2] == content[:2]


def given_back(caller: str, raw: bytes) -> list[Message]:
    said = json.loads(raw)
    match caller:
        case "openai_chat":
            body: dict[str, Any] = {"messages": [*HI, said["choices"][0]["message"]]}
        case "openai_responses":
            body = {"input": [*HI, *said["output"]]}
        case _:
            body = {"messages": [*HI, {"role": "assistant", "content": said["content"]}], "max_tokens": 5}
    ours = CHAT_DIALECTS[caller]
    ask = ours.parse_request(json.dumps({"model": "m", **body}).encode())
    messages = ours.read_request(ask.body).messages[1:]
    return [Message("assistant", tuple(part for message in messages for part in message.parts))]


@bounded
@given(st.lists(st.integers(0, 2_000), max_size=8))
def test_claudes_own_events_are_taken_out_of_awss_frames_however_they_are_cut(cuts: list[int]):
    told: list[dict[str, Any]] = [{"type": "message_start", "message": {"usage": {}}}, {"type": "ping"}, {"no": "type"}]
    wrapped = [{"bytes": base64.b64encode(json.dumps(each).encode()).decode(), "p": "ab"} for each in told]
    raw = b"".join(event("chunk", each) for each in wrapped) + event("something", {"new": 1})
    unwrapper, places = invoke_stream_unwrapper(), [0, *sorted(cut % (len(raw) + 1) for cut in cuts), len(raw)]
    inner = b"".join(unwrapper.feed(raw[start:end]) for start, end in itertools.pairwise(places))
    lines = inner.decode().split("\n\n")[:-1]
    assert [json.loads(each.partition("data: ")[2]) for each in lines] == told
    assert lines[0].startswith("event: message_start\n") and lines[2].startswith("data: ")


def test_an_exception_around_claudes_events_is_raised_after_them():
    unwrapper = invoke_stream_unwrapper()
    chunk = {"bytes": base64.b64encode(b'{"type":"ping"}').decode()}
    assert unwrapper.feed(event("chunk", chunk) + exception("modelTimeoutException", "Too slow.")).startswith(b"event: ping")
    with pytest.raises(TimedOut):
        unwrapper.feed(b"")
    with pytest.raises(InvalidUpstreamResponse):
        invoke_stream_unwrapper().feed(event("chunk", {"bytes": "§"}))


def test_citations_of_its_own_go_back_and_those_of_others_are_reported():
    mine = Citation("bedrock_converse", Raw(json.dumps(CITED).encode()))
    theirs = Citation("gemini", Raw(b"{}"))
    ask = ChatRequest("openai_chat", "m", (Message("user", (Text("Hi!"),)), Message("assistant", (Text("Old.", (mine, theirs)),))))
    concessions = DropPolicy(lambda _: False, {}, "bedrock")
    told = json.loads(CONVERSE.write_request(ask, concessions).write())["messages"][1]["content"]
    assert told == [{"citationsContent": {"content": [{"text": "Old."}], "citations": [CITED]}}]
    assert concessions.dropped == ["messages[1].content[0].citations"]
