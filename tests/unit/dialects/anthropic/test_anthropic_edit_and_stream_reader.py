"""The byte edit of Anthropic Messages: an engine's response passes unchanged except for id, model and what is withheld."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.canonical.chat import Opaque, Reasoning, Text, ToolCall, Usage
from providers.canonical.errors import InvalidUpstreamResponse, Overloaded, StreamTruncated, UpstreamError, UpstreamFailed, UpstreamRejected
from providers.canonical.events import Event, assemble_response
from providers.canonical.finish_reasons import recorded_finish_reason
from providers.dialect import StreamEditor
from providers.dialects.anthropic_count_tokens import AnthropicCountTokens
from providers.dialects.anthropic_messages import AnthropicMessages
from tests.support.strategies.anthropic_strategies import (
    MESSAGE_STOP,
    block_events,
    encode_sse,
    event,
    message_delta,
    message_start,
    parse_sse_events,
    sse_encodings,
    streams,
    text_block,
)
from tests.support.strategies.chat_strategies import META, bounded, byte_splits, unknown_fields

DIALECT = AnthropicMessages()


def edit_stream(blocks: list[bytes]) -> bytes:
    editor = DIALECT.stream_editor(META)
    return b"".join([editor.feed(block) for block in blocks]) + editor.finish()


def read_stream(blocks: list[bytes]) -> list[Event]:
    reader = DIALECT.stream_reader()
    return [event for block in blocks for event in reader.feed(block)] + list(reader.finish())


@bounded
@given(streams(), st.data())
def test_stream_edit_changes_only_id_and_model_however_it_is_split_and_framed(events: list[dict[str, Any]], data: st.DataObject) -> None:
    editor: StreamEditor = DIALECT.stream_editor(META)
    before = b"".join([editor.feed(piece) for piece in data.draw(byte_splits(data.draw(sse_encodings(events))))])
    assert not any(each["type"] in ("message_delta", "message_stop") for each in parse_sse_events(before))
    first, *rest = parse_sse_events(before + editor.finish())
    assert first == {**events[0], "message": {**events[0]["message"], "id": "msg_" + META.id, "model": META.model}}
    assert rest == with_known_stop_reason(events)[1:]
    assert editor.done


def with_known_stop_reason(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the events with a stop reason that the official SDK knows in place of an unknown one."""
    calls = any(each.get("content_block", {}).get("type") == "tool_use" for each in events)
    *before, end, stop = events
    if end["delta"]["stop_reason"] == "something_new":
        end = {**end, "delta": {**end["delta"], "stop_reason": "tool_use" if calls else "end_turn"}}
    return [*before, end, stop]


@bounded
@given(streams(), st.data())
def test_stream_reader_and_stream_editor_agree(events: list[dict[str, Any]], data: st.DataObject) -> None:
    editor = DIALECT.stream_editor(META)
    wire = encode_sse(events)
    out = editor.feed(wire) + editor.finish()
    direct, through = assemble_response(read_stream(data.draw(byte_splits(wire)))), assemble_response(read_stream([out]))
    expected = assemble_response(read_stream([encode_sse(with_known_stop_reason(events))]))
    assert through.choices == expected.choices
    assert through.usage == direct.usage == editor.usage
    (choice,) = direct.choices
    assert recorded_finish_reason(choice.finish_reason, choice.upstream_finish_reason) == editor.finish_reason


@bounded
@given(streams())
def test_stream_is_read_like_the_equivalent_whole_response(events: list[dict[str, Any]]) -> None:
    """The message is assembled in the way of the official SDK, by plain code."""
    content: list[dict[str, Any]] = []
    for each in events:
        if each["type"] == "content_block_start":
            content.append({**each["content_block"], "written": ""})
        elif each["type"] == "content_block_delta":
            for key, into in (("text", "text"), ("thinking", "thinking"), ("signature", "signature"), ("partial_json", "written")):
                if key in each["delta"]:
                    content[-1][into] += each["delta"][key]
    for each in content:
        written = each.pop("written")
        if "input" in each:
            each["input"] = json.loads(written)
    message: dict[str, Any] = {**events[0]["message"], **events[-2]["delta"], "content": content}
    message["usage"] = {**message["usage"], **events[-2]["usage"]}
    whole, streamed = DIALECT.read_response(json.dumps(message).encode()), assemble_response(read_stream([encode_sse(events)]))
    assert [comparable(part) for part in streamed.choices[0].parts] == [comparable(part) for part in whole.choices[0].parts]
    assert streamed.choices[0].finish_reason == whole.choices[0].finish_reason
    assert (streamed.usage, streamed.model) == (whole.usage, whole.model)


def comparable(part: Any) -> Any:
    match part:
        case ToolCall():
            return part.id, part.name, json.loads(part.arguments)
        case Opaque():
            return json.loads(bytes(part.raw))
        case _:
            return part


@bounded
@given(unknown_fields, st.lists(st.sampled_from(["end_turn", "tool_use"]), max_size=1))
def test_response_edit_changes_only_id_and_model(more: dict[str, Any], reason: list[str]) -> None:
    body = {**message_start(**more)["message"], "content": [{"type": "text", "text": "Hi", **more}], "stop_reason": (reason or [None])[0]}
    edit = DIALECT.edit_response(json.dumps(body).encode(), META)
    # Content without a stop reason is complete, as in responses of all dialects.
    assert json.loads(edit.raw) == {**body, "id": "msg_" + META.id, "model": META.model, "stop_reason": (reason or ["end_turn"])[0]}
    assert edit.usage == Usage(3, 1)
    assert edit.finish_reason == ({"end_turn": "stop", "tool_use": "tool_calls"}[reason[0]] if reason else "stop")


def test_fields_the_official_sdk_requires_are_added_when_missing() -> None:
    """llm-d sends no type and no role of a message; others send no usage, or no message_stop."""
    sparse = event("message_start", message={"id": "chatcmpl-1", "model": "theirs"})
    first, *_, before_last, last = parse_sse_events(
        edit_stream([encode_sse([sparse, *block_events(0, *text_block("Hi")), event("message_delta", delta={"stop_reason": "end_turn"})])])
    )
    assert first["message"] == {
        "id": "msg_" + META.id,
        "model": META.model,
        "type": "message",
        "role": "assistant",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }
    assert before_last["usage"] == {"input_tokens": 0, "output_tokens": 1, "estimated": True}
    assert last == MESSAGE_STOP
    whole = json.loads(DIALECT.edit_response(b'{"content":[],"id":"x","model":"theirs","stop_reason":"max_tokens"}', META).raw)
    assert (whole["type"], whole["role"], whole["usage"]) == (
        "message",
        "assistant",
        {"input_tokens": 0, "output_tokens": 0, "estimated": True},
    )


def test_usage_counts_are_running_totals_and_may_come_only_at_the_end() -> None:
    events = [
        message_start(usage={"input_tokens": 3, "output_tokens": 2}),
        message_delta(cache_read_input_tokens=5),
        message_delta(output_tokens=9),
    ]
    for usage in (assemble_response(read_stream([encode_sse([*events, MESSAGE_STOP])])).usage, usage_after_edit(encode_sse(events))):
        assert usage == Usage(8, 9, cached=5)


def usage_after_edit(wire: bytes) -> Usage | None:
    editor = DIALECT.stream_editor(META)
    editor.feed(wire)
    return editor.usage


@pytest.mark.parametrize(
    ("usage", "read"),
    [(1, None), ([], None), ({"input_tokens": "3"}, Usage(input=3)), ({"input_tokens": -1, "output_tokens": 2**60}, None)],
    ids=range(4),
)
def test_unreadable_usage_does_not_fail_the_response(usage: Any, read: Usage | None) -> None:
    wire = encode_sse(
        [
            message_start(usage=usage),
            *block_events(0, *text_block("Hi")),
            event("message_delta", delta={"stop_reason": "end_turn"}, usage=usage),
            MESSAGE_STOP,
        ]
    )
    answer = assemble_response(read_stream([wire]))
    assert answer.choices[0].parts == (Text("Hi"),)
    assert answer.usage == read
    shown = parse_sse_events(edit_stream([wire]))[-2]["usage"]
    assert shown == (usage if read is not None else {"input_tokens": META.estimated_input, "output_tokens": 1, "estimated": True})


def test_repeated_message_start_is_sent_once() -> None:
    wire = encode_sse([message_start(), message_start(), *block_events(0, *text_block("Hi")), message_delta(), MESSAGE_STOP])
    assert [each["type"] for each in parse_sse_events(edit_stream([wire]))].count("message_start") == 1
    assert assemble_response(read_stream([wire])).choices[0].parts == (Text("Hi"),)


@pytest.mark.parametrize(
    ("initial_input", "pieces", "arguments"),
    [
        ({}, [], "{}"),
        (None, [], "{}"),
        ({}, [""], "{}"),
        ({"a": 1}, [], '{"a": 1}'),
        ({}, ["", '{"a"', ": 1}"], '{"a": 1}'),
        ({"b": 2}, ['{"a": 1}'], '{"a": 1}'),
    ],
)
def test_tool_input_is_the_streamed_json_or_else_the_blocks_initial_input(initial_input: Any, pieces: list[str], arguments: str) -> None:
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    call = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": initial_input}
    answer = assemble_response(
        read_stream([encode_sse([message_start(), *block_events(0, call, *deltas), message_delta("tool_use"), MESSAGE_STOP])])
    )
    assert answer.choices[0].parts == (ToolCall("toolu_1", "f", arguments),)
    assert answer.choices[0].finish_reason == "tool_calls"


def test_tool_call_without_an_id_gets_one() -> None:
    call: dict[str, Any] = {"type": "tool_use", "name": "f", "input": {}}
    stream = encode_sse([message_start(), *block_events(0, call), message_delta("tool_use"), MESSAGE_STOP])
    (part,) = assemble_response(read_stream([stream])).choices[0].parts
    assert isinstance(part, ToolCall)
    assert len(part.id.removeprefix("call_")) == 24


def test_citations_and_signatures_are_read_into_their_part() -> None:
    citation = {"type": "page_location", "cited_text": "so", "document_title": "A"}
    thinking_deltas = [{"type": "thinking_delta", "thinking": "hm"}, {"type": "signature_delta", "signature": "ab"}]
    events = [
        message_start(),
        *block_events(0, {"type": "thinking", "thinking": "", "signature": ""}, *thinking_deltas),
        *block_events(1, *text_block("Hi"), {"type": "citations_delta", "citation": citation}),
        message_delta(),
        MESSAGE_STOP,
    ]
    answer = assemble_response(read_stream([encode_sse(events)]))
    thinking, text_part = answer.choices[0].parts
    assert isinstance(thinking, Reasoning) and thinking.opaque_state is not None and isinstance(text_part, Text)
    assert (thinking.text, thinking.opaque_state.data) == ("hm", "ab")
    assert [(each.title, each.quote) for each in text_part.citations] == [("A", "so")]


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("overloaded_error", Overloaded),
        ("rate_limit_error", Overloaded),
        ("api_error", UpstreamFailed),
        ("invalid_request_error", UpstreamRejected),
        ("new", UpstreamFailed),
    ],
)
def test_anthropic_error_maps_to_the_matching_upstream_error_in_stream_and_body(kind: str, error: type[UpstreamError]) -> None:
    wire = encode_sse(
        [message_start(), *block_events(0, *text_block("Hel"))[:2], event("error", error={"type": kind, "message": "Too much"})]
    )
    editor = DIALECT.stream_editor(META)
    assert [each["type"] for each in parse_sse_events(editor.feed(wire))] == ["message_start", "content_block_start", "content_block_delta"]
    assert editor.failure is not None
    assert (type(editor.failure), editor.failure.message) == (error, "Too much")
    events: list[Event] = []
    with pytest.raises(error):
        events.extend(DIALECT.stream_reader().feed(wire))
    assert len(events) == 4
    with pytest.raises(error):
        DIALECT.edit_response(json.dumps({"type": "error", "error": {"type": kind, "message": "Too much"}}).encode(), META)


def test_stream_that_ends_early_raises_stream_truncated() -> None:
    wire = encode_sse([message_start(), *block_events(0, *text_block("Hel"))])
    with pytest.raises(StreamTruncated):
        edit_stream([wire])
    with pytest.raises(StreamTruncated):
        read_stream([wire])


def test_partial_event_after_message_delta_does_not_fail_the_response() -> None:
    wire = encode_sse([message_start(), *block_events(0, *text_block("Hi")), message_delta()]) + b'event: message_stop\ndata: {"type":"mess'
    assert [each["type"] for each in parse_sse_events(edit_stream([wire]))][-2:] == ["message_delta", "message_stop"]
    assert assemble_response(read_stream([wire])).choices[0].finish_reason == "stop"


@pytest.mark.parametrize(
    "data",
    [
        b"null",
        b"[]",
        b"{}",
        b"hello",
        b'{"type":1}',
        b'{"type":"message_start","message":[]}',
        b'{"type":"message_delta","delta":1}',
        b'{"type":"\xff"',
        b'{"deep":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
    ids=range(9),
)
def test_invalid_event_data_sets_an_invalid_upstream_response_failure(data: bytes) -> None:
    editor = DIALECT.stream_editor(META)
    assert editor.feed(encode_sse([message_start()]))
    assert not editor.feed(b"data: " + data + b"\n\n")
    assert isinstance(editor.failure, InvalidUpstreamResponse)


@bounded
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=30),
            st.sampled_from(
                [
                    b"data: ",
                    b"\n\n",
                    b"\r",
                    b"event: x\n",
                    b'{"type":"message_stop"}',
                    b'{"type":"content_block_delta"}',
                    encode_sse([message_start()]),
                ]
            ),
            st.sampled_from([event("content_block_start", index=0, content_block={"type": "tool_use", "input": []})]).map(
                lambda each: encode_sse([each])
            ),
            st.sampled_from([*block_events(0, {"type": "text"}, {"type": "citations_delta", "citation": [1]}), message_delta()]).map(
                lambda each: encode_sse([each])
            ),
        ),
        max_size=8,
    )
)
def test_arbitrary_bytes_never_break_the_editor_or_the_reader(blocks: list[bytes]) -> None:
    with contextlib.suppress(UpstreamError):
        edit_stream(blocks)
    with contextlib.suppress(UpstreamError):
        read_stream(blocks)


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"{}", b'{"content":1}', b'{"content":[1]}', b'{"content":[{"type":"tool_use","input":1}]}'], ids=range(6)
)
def test_invalid_whole_response_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidUpstreamResponse):
        DIALECT.read_response(raw)


@pytest.mark.parametrize("raw", [b"", b"{}", b'{"input_tokens":"3"}', b"[3]"])
def test_invalid_token_count_response_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidUpstreamResponse):
        AnthropicCountTokens().edit_response(raw, META)


def test_lone_surrogate_is_replaced() -> None:
    wire = encode_sse([message_start(), *block_events(0, *text_block("ab")), message_delta(), MESSAGE_STOP]).replace(b'"ab"', b'"a\\ud83d"')
    assert assemble_response(read_stream([wire])).choices[0].parts == (Text("a�"),)


@pytest.mark.parametrize(("pieces", "tokens"), [([], 0), (["word "] * 40, 50), (["", "word " * 40], 50), (list("word"), 1)])
def test_output_token_estimate_does_not_depend_on_chunk_size(pieces: list[str], tokens: int) -> None:
    editor = DIALECT.stream_editor(META)
    editor.feed(encode_sse([message_start(), *block_events(0, *text_block(*pieces))]))
    assert editor.written_tokens == tokens
