"""OpenAI chat responses and the canonical model: what is read, written and read again is the same, whole or streamed."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace
from openai.lib.streaming._deltas import accumulate_delta

from app.gateway.response_translation.response_streamer import ResponseStreamer
from app.gateway.response_translation.stream_assembler import StreamAssembler
from providers.canonical.chat import ChatResponse, Choice, Content, Reasoning, Text, ToolCall, Usage
from providers.canonical.errors import InvalidUpstreamResponse, UpstreamRejected
from providers.canonical.events import Event, PartDelta, PartStarted, assemble_response, response_events
from providers.dialects.openai_chat import OpenAIChat
from tests.support.strategies.chat_strategies import (
    META,
    META_WITHOUT_USAGE,
    bounded,
    byte_splits,
    chat_responses,
    chunk,
    chunk_choice,
    encode_sse_chunks,
    interleaved_responses,
    parse_sse_chunks,
    streams,
    usage,
)

DIALECT = OpenAIChat()


def write_stream(events: list[Event]) -> bytes:
    writer = DIALECT.stream_writer(META)
    return b"".join([writer.feed(event) for event in events]) + writer.finish()


def read_stream(blocks: list[bytes]) -> list[Event]:
    reader = DIALECT.stream_reader()
    return [*(event for block in blocks for event in reader.feed(block)), *reader.finish()]


@bounded
@given(chat_responses)
def test_response_split_into_events_assembles_unchanged(answer: ChatResponse) -> None:
    assert assemble_response(response_events(answer)) == answer


@bounded
@given(chat_responses)
def test_written_response_reads_back_unchanged(answer: ChatResponse) -> None:
    assert DIALECT.read_response(DIALECT.write_response(answer, META)) == answer


@bounded
@given(interleaved_responses)
def test_interleaved_parts_survive_a_response_round_trip(answer: ChatResponse) -> None:
    read_back = DIALECT.read_response(DIALECT.write_response(answer, META))
    assert [without_raw_citations(each.parts) for each in read_back.choices] == [
        without_raw_citations(each.parts) for each in answer.choices
    ]
    assert read_back.usage == answer.usage


def without_raw_citations(parts: tuple[Content, ...]) -> list[Content]:
    """Returns the parts without the raw JSON of citations, whose offsets count from the whole content's start."""
    return [
        replace(part, citations=tuple(replace(each, raw=Raw(b"")) for each in part.citations)) if isinstance(part, Text) else part
        for part in parts
    ]


@bounded
@given(interleaved_responses)
def test_streamed_response_sent_back_by_the_official_client_keeps_all_parts(answer: ChatResponse) -> None:
    """The official client assembles the deltas into the message that it sends back."""
    frames = parse_sse_chunks(write_stream(list(response_events(answer))))
    for index, choice in enumerate(answer.choices):
        deltas = [each["delta"] for frame in frames for each in frame["choices"] if each["index"] == index]
        message: dict[object, object] = {}
        for delta in deltas:
            message = accumulate_delta(message, delta)
        request_body = json.dumps({"model": "m", "messages": [message]}).encode()
        (sent_back,) = DIALECT.read_request(DIALECT.parse_request(request_body).body).messages
        assert without_raw_citations(sent_back.parts) == without_raw_citations(choice.parts)


@bounded
@given(chat_responses, st.data())
def test_written_stream_reads_back_unchanged(answer: ChatResponse, data: st.DataObject) -> None:
    events = interleave_events(list(response_events(answer)), data)
    assert assemble_response(read_stream(data.draw(byte_splits(write_stream(events))))) == assemble_response(events) == answer


def interleave_events(events: list[Event], data: st.DataObject) -> list[Event]:
    """The same response with its choices interleaved and its texts in several deltas."""
    split: list[Event] = []
    for event in events:
        if isinstance(event, PartDelta):
            at = data.draw(st.integers(0, len(event.text)))
            split += [replace(event, text=text) for text in (event.text[:at], event.text[at:]) if text]
        else:
            split.append(event)
    queues: dict[int, list[Event]] = {}
    for event in split[1:]:
        queues.setdefault(getattr(event, "choice", -1), []).append(event)
    last = queues.pop(-1, [])
    mixed: list[Event] = [split[0]]
    while queues:
        index = data.draw(st.sampled_from(sorted(queues)))
        mixed.append(queues[index].pop(0))
        if not queues[index]:
            del queues[index]
    return mixed + last


@bounded
@given(chat_responses)
def test_assembled_stream_equals_the_whole_response(answer: ChatResponse) -> None:
    assembler = StreamAssembler(DIALECT, DIALECT, META)
    assembler.feed(write_stream(list(response_events(answer))))
    assert reported(DIALECT.read_response(assembler.finish().raw), answer) == answer


@bounded
@given(chat_responses)
def test_streamed_whole_response_equals_the_original(answer: ChatResponse) -> None:
    streamer = ResponseStreamer(DIALECT, DIALECT, META)
    # Pretty-printed, as OpenAI writes whole responses: its line ends must not break a frame.
    response_body = json.dumps(json.loads(DIALECT.write_response(answer, META)), indent=2, ensure_ascii=False).encode()
    out = streamer.feed(response_body) + streamer.finish()
    parse_sse_chunks(out)
    assert with_decoded_logprobs(reported(assemble_response(read_stream([out])), answer)) == with_decoded_logprobs(answer)
    assert (streamer.usage, streamer.finish_reason) == (answer.usage, answer.choices[0].finish_reason)


def reported(response: ChatResponse, answer: ChatResponse) -> ChatResponse:
    """Returns the response without the estimate that the gateway gives in place of usage that was not reported."""
    return replace(response, usage=None) if answer.usage is None else response


def with_decoded_logprobs(answer: ChatResponse) -> ChatResponse:
    """Returns the answer with logprobs that compare as JSON, not as bytes."""
    choices = [
        replace(
            each,
            logprobs=None
            if each.logprobs is None
            else tuple(Raw(json.dumps(json.loads(bytes(entry))).encode()) for entry in each.logprobs),
        )
        for each in answer.choices
    ]
    return replace(answer, choices=tuple(choices))


@bounded
@given(streams())
def test_reader_and_editor_agree_on_the_same_stream(chunks: list[dict[str, Any]]) -> None:
    wire = encode_sse_chunks(chunks)
    editor = DIALECT.stream_editor(META)
    direct = assemble_response(read_stream([wire]))
    through = assemble_response(read_stream([editor.feed(wire) + editor.finish()]))
    assert through.choices == direct.choices
    assert through.usage == direct.usage == editor.usage
    assert direct.choices[0].finish_reason == editor.finish_reason


@bounded
@given(chat_responses)
def test_written_stream_reports_usage_once_and_only_if_requested(answer: ChatResponse) -> None:
    for meta in (META, META_WITHOUT_USAGE):
        writer = DIALECT.stream_writer(meta)
        frames = parse_sse_chunks(b"".join([writer.feed(event) for event in response_events(answer)]) + writer.finish())
        assert ["usage" in each for each in frames].count(True) == (answer.usage is not None and meta.wants_usage)


@bounded
@given(chat_responses)
def test_every_choice_starts_with_its_role_and_ends_with_its_finish_reason(answer: ChatResponse) -> None:
    frames = parse_sse_chunks(write_stream(list(response_events(answer))))
    for index in range(len(answer.choices)):
        own_choices = [choice for each in frames for choice in each["choices"] if choice["index"] == index]
        assert [choice["delta"].get("role") for choice in own_choices] == ["assistant", *[None] * (len(own_choices) - 1)]
        assert [choice["finish_reason"] for choice in own_choices] == [
            *[None] * (len(own_choices) - 1),
            answer.choices[index].finish_reason,
        ]


def test_usage_received_early_is_reported_in_the_last_chunk() -> None:
    events = list(response_events(ChatResponse((Choice((Text("Hi"),), "stop"),), "m", usage=Usage(1, 2))))
    frames = parse_sse_chunks(write_stream([events[0], events[-1], *events[1:-1]]))
    assert [each.get("usage") for each in frames] == [None, {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}]


def test_interleaved_tool_call_fragments_are_reassembled() -> None:
    """vLLM's first delta of a call has no `arguments`; fragments of parallel calls may alternate."""

    def call(index: int, id: str | None = None, /, **function: str) -> dict[str, Any]:
        return chunk_choice(
            content=None, tool_calls=[{"index": index, **({"id": id, "type": "function"} if id else {}), "function": function}]
        )

    calls = [
        call(0, "a", name="book"),
        call(0, arguments='{"to":'),
        call(1, "b", name="pay"),
        call(1, arguments="{}"),
        call(0, arguments="1}"),
    ]
    chunks = [
        chunk([chunk_choice(role="assistant", content="")]),
        *[chunk([each]) for each in calls],
        chunk([chunk_choice(0, "tool_calls")]),
    ]
    wire = encode_sse_chunks(chunks)
    (choice,) = assemble_response(read_stream([wire])).choices
    assert choice == Choice((ToolCall("a", "book", '{"to":1}'), ToolCall("b", "pay", "{}")), "tool_calls")


def test_parts_keep_their_arrival_order() -> None:
    deltas = [{"content": "a"}, {"reasoning": "b"}, {"reasoning": "c"}, {"content": "d"}]
    chunks = [*[chunk([chunk_choice(**each)]) for each in deltas], chunk([chunk_choice(0, "stop")])]
    wire = encode_sse_chunks(chunks)
    (choice,) = assemble_response(read_stream([wire])).choices
    assert choice.parts == (Text("a"), Reasoning("bc"), Text("d"))


def test_tool_call_may_open_with_complete_arguments() -> None:
    events: list[Event] = [
        PartStarted(0, 0, ToolCall("a", "f", "{}")),
        *list(response_events(ChatResponse((Choice((), "tool_calls"),), "")))[1:],
    ]
    assert assemble_response(read_stream([write_stream(events)])).choices[0].parts == (ToolCall("a", "f", "{}"),)


@pytest.mark.parametrize("content", ['"\\ud83d"', '"\\ude00 and \\ud83d"', '"\\\\\\ud83d"'])
def test_lone_surrogate_is_read_as_the_replacement_character(content: str) -> None:
    raw = f'{{"choices":[{{"index":0,"message":{{"role":"assistant","content":{content}}},"finish_reason":"stop"}}]}}'.encode()
    (part,) = DIALECT.read_response(raw).choices[0].parts
    assert isinstance(part, Text)
    assert part.text == json.loads(content).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def test_invalid_utf8_is_read_as_the_replacement_character() -> None:
    raw = b'{"choices":[{"index":0,"message":{"role":"assistant","content":"a\xffb"},"finish_reason":"stop"}]}'
    assert DIALECT.read_response(raw).choices[0].parts == (Text("a\ufffdb"),)


# Edits of whole responses.
@bounded
@given(chat_responses, st.sampled_from([None, 2]))
def test_edit_changes_only_id_model_and_episode_id(answer: ChatResponse, indent: int | None) -> None:
    upstream = json.loads(DIALECT.write_response(answer, replace(META, id="theirs", model="theirs", episode_id="theirs")))
    upstream["timings"] = {"ms": 1.50, "big": 12345678901234567890}
    edited = DIALECT.edit_response(json.dumps(upstream, indent=indent).encode(), META)
    body = json.loads(edited.raw)
    if answer.usage is None:
        assert body.pop("usage")["estimated"] is True
    assert body == {**upstream, "id": META.id, "model": META.model, "episode_id": META.episode_id}
    assert (edited.usage, edited.finish_reason) == (answer.usage, answer.choices[0].finish_reason)
    assert with_decoded_logprobs(reported(DIALECT.read_response(edited.raw), answer)) == with_decoded_logprobs(answer)


def test_edit_adds_documented_keys_that_the_engine_omits() -> None:
    edited = json.loads(DIALECT.edit_response(b'{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}', META).raw)
    assert edited == {
        "id": META.id,
        "object": "chat.completion",
        "created": META.created,
        "model": META.model,
        "episode_id": META.episode_id,
        "choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}],
        "system_fingerprint": "",
        "service_tier": None,
        "usage": {"prompt_tokens": 0, "completion_tokens": 1, "total_tokens": 1, "estimated": True},
    }


def test_choice_with_index_0_decides_the_recorded_finish_reason() -> None:
    choices: list[Any] = [{"index": 1, "message": {}, "finish_reason": "length"}, {"index": 0, "message": {}, "finish_reason": "stop"}]
    raw = json.dumps({"choices": choices, "usage": usage()}).encode()
    assert DIALECT.edit_response(raw, META).finish_reason == "stop"
    assert DIALECT.read_response(raw).choices[0].finish_reason == "stop"


def test_edit_renames_reasoning_to_reasoning_content() -> None:
    raw = b'{"choices":[{"message":{"content":null,"reasoning":"hm","x":1.50}}]}'
    assert b'{"content":null,"reasoning_content":"hm","x":1.50}' in DIALECT.edit_response(raw, META).raw


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"<html>",
        b"{}",
        b'{"choices":[]}',
        b'{"choices":null}',
        b'{"choices":[{"message":["reasoning"]}]}',
        b'{"choices":[{"finish_reason":"\xff"}]}',
        b'{"choices":[{"message":{}}],"deep":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
    ids=range(9),
)
def test_edit_rejects_an_invalid_response(raw: bytes) -> None:
    with pytest.raises(InvalidUpstreamResponse):
        DIALECT.edit_response(raw, META)


@bounded
@given(st.one_of(st.binary(max_size=60), st.binary(max_size=20).map(lambda tail: b'{"choices":[{"message":{"content":"' + tail + b'"}}]}')))
def test_arbitrary_bytes_raise_only_invalid_upstream_response(raw: bytes) -> None:
    for read in (lambda: DIALECT.edit_response(raw, META), lambda: DIALECT.read_response(raw)):
        with contextlib.suppress(InvalidUpstreamResponse):
            read()


@pytest.mark.parametrize("read", [lambda raw: DIALECT.edit_response(raw, META), DIALECT.read_response], ids=["edit", "read"])  # pyright: ignore
def test_error_body_with_status_200_raises_an_error(read: Any) -> None:
    with pytest.raises(UpstreamRejected, match="too long"):
        read(b'{"object":"error","message":"too long","type":"BadRequestError","param":null,"code":400}')


@pytest.mark.parametrize("count", [-1, 2**41, 10**30])
def test_impossible_token_count_is_unknown_and_other_counts_are_kept(count: int) -> None:
    raw = json.dumps({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}], "usage": usage(count, 4)}).encode()
    assert DIALECT.edit_response(raw, META).usage == Usage(None, 4)
    assert DIALECT.read_response(raw).usage == Usage(None, 4)
