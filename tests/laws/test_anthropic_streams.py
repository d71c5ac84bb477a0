"""Laws of the byte edit of Anthropic's Messages: what an engine says comes through as it is, but for id, model and what is withheld."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.canonical.chat import Opaque, Reasoning, Text, ToolCall, Usage
from providers.canonical.errors import InvalidUpstreamResponse, Overloaded, StreamTruncated, UpstreamError, UpstreamFailed, UpstreamRejected
from providers.canonical.events import Event, assemble_response
from providers.dialect import StreamEditor
from providers.dialects.anthropic_count_tokens import AnthropicCountTokens
from providers.dialects.anthropic_messages import AnthropicMessages
from tests.laws.anthropics import STOP, block, end, event, plain, start, streams, text, told, wires
from tests.laws.chats import STAMP, bounded, cuts, unknown

DIALECT = AnthropicMessages()


def edited(blocks: list[bytes]) -> bytes:
    editor = DIALECT.stream_editor(STAMP)
    return b"".join([editor.feed(block) for block in blocks]) + editor.finish()


def read(blocks: list[bytes]) -> list[Event]:
    reader = DIALECT.stream_reader()
    return [event for block in blocks for event in reader.feed(block)] + list(reader.finish())


@bounded
@given(streams(), st.data())
def test_a_stream_passes_untouched_however_it_is_cut_and_framed(events: list[dict[str, Any]], data: st.DataObject) -> None:
    editor: StreamEditor = DIALECT.stream_editor(STAMP)
    before = b"".join([editor.feed(piece) for piece in data.draw(cuts(data.draw(wires(events))))])
    assert not any(each["type"] in ("message_delta", "message_stop") for each in told(before))
    first, *rest = told(before + editor.finish())
    assert first == {**events[0], "message": {**events[0]["message"], "id": "msg_" + STAMP.id, "model": STAMP.model}}
    assert rest == events[1:]
    assert editor.done


@bounded
@given(streams(), st.data())
def test_reader_and_editor_tell_the_same_story(events: list[dict[str, Any]], data: st.DataObject) -> None:
    editor = DIALECT.stream_editor(STAMP)
    wire = plain(events)
    out = editor.feed(wire) + editor.finish()
    direct, through = assemble_response(read(data.draw(cuts(wire)))), assemble_response(read([out]))
    assert through.choices == direct.choices
    assert through.usage == direct.usage == editor.usage
    assert direct.choices[0].finish_reason == editor.finish_reason


@bounded
@given(streams())
def test_a_stream_is_read_as_the_whole_answer_would_be(events: list[dict[str, Any]]) -> None:
    """The official SDK's way to put a message together, done plainly."""
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
    whole, streamed = DIALECT.read_response(json.dumps(message).encode()), assemble_response(read([plain(events)]))
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
@given(unknown, st.lists(st.sampled_from(["end_turn", "tool_use"]), max_size=1))
def test_a_whole_answer_keeps_all_but_id_and_model(more: dict[str, Any], reason: list[str]) -> None:
    body = {**start(**more)["message"], "content": [{"type": "text", "text": "Hi", **more}], "stop_reason": (reason or [None])[0]}
    edit = DIALECT.edit_response(json.dumps(body).encode(), STAMP)
    assert json.loads(edit.raw) == {**body, "id": "msg_" + STAMP.id, "model": STAMP.model}
    assert edit.usage == Usage(3, 1)
    assert edit.finish_reason == ({"end_turn": "stop", "tool_use": "tool_calls"}[reason[0]] if reason else None)


def test_what_the_official_sdk_needs_is_added_where_an_engine_leaves_it_out() -> None:
    """llm-d tells no type and no role of a message; others no usage, or no message_stop."""
    sparse = event("message_start", message={"id": "chatcmpl-1", "model": "theirs"})
    first, *_, before_last, last = told(
        edited([plain([sparse, *block(0, *text("Hi")), event("message_delta", delta={"stop_reason": "end_turn"})])])
    )
    assert first["message"] == {
        "id": "msg_" + STAMP.id,
        "model": STAMP.model,
        "type": "message",
        "role": "assistant",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }
    assert before_last["usage"] == {"output_tokens": 0}
    assert last == STOP
    whole = json.loads(DIALECT.edit_response(b'{"content":[],"id":"x","model":"theirs","stop_reason":"end_turn"}', STAMP).raw)
    assert (whole["type"], whole["role"], whole["usage"]) == ("message", "assistant", {"input_tokens": 0, "output_tokens": 0})


def test_counts_are_running_totals_and_may_come_at_the_end_alone() -> None:
    events = [start(usage={"input_tokens": 3, "output_tokens": 2}), end(cache_read_input_tokens=5), end(output_tokens=9)]
    for usage in (assemble_response(read([plain([*events, STOP])])).usage, counted(plain(events))):
        assert usage == Usage(8, 9, cached=5)


def counted(wire: bytes) -> Usage | None:
    editor = DIALECT.stream_editor(STAMP)
    editor.feed(wire)
    return editor.usage


@pytest.mark.parametrize("usage", [1, [], {"input_tokens": "3"}, {"input_tokens": -1, "output_tokens": 2**60}])
def test_usage_that_cannot_be_read_costs_no_answer(usage: Any) -> None:
    wire = plain([start(usage=usage), *block(0, *text("Hi")), event("message_delta", delta={"stop_reason": "end_turn"}, usage=usage), STOP])
    answer = assemble_response(read([wire]))
    assert answer.choices[0].parts == (Text("Hi"),)
    assert answer.usage in (None, Usage())
    assert told(edited([wire]))[-2]["usage"] == usage


def test_a_message_that_starts_twice_starts_once() -> None:
    wire = plain([start(), start(), *block(0, *text("Hi")), end(), STOP])
    assert [each["type"] for each in told(edited([wire]))].count("message_start") == 1
    assert assemble_response(read([wire])).choices[0].parts == (Text("Hi"),)


@pytest.mark.parametrize(
    ("given", "pieces", "arguments"),
    [
        ({}, [], "{}"),
        (None, [], "{}"),
        ({}, [""], "{}"),
        ({"a": 1}, [], '{"a": 1}'),
        ({}, ["", '{"a"', ": 1}"], '{"a": 1}'),
        ({"b": 2}, ['{"a": 1}'], '{"a": 1}'),
    ],
)
def test_input_is_what_was_streamed_or_else_what_the_block_began_with(given: Any, pieces: list[str], arguments: str) -> None:
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    call = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": given}
    answer = assemble_response(read([plain([start(), *block(0, call, *deltas), end("tool_use"), STOP])]))
    assert answer.choices[0].parts == (ToolCall("toolu_1", "f", arguments),)
    assert answer.choices[0].finish_reason == "tool_calls"


def test_a_call_without_an_id_is_given_one() -> None:
    call: dict[str, Any] = {"type": "tool_use", "name": "f", "input": {}}
    part = assemble_response(read([plain([start(), *block(0, call), end("tool_use"), STOP])])).choices[0].parts[0]
    assert isinstance(part, ToolCall)
    assert len(part.id.removeprefix("call_")) == 24


def test_citations_and_signatures_come_with_the_end_of_their_part() -> None:
    cited = {"type": "page_location", "cited_text": "so", "document_title": "A"}
    grown = [*text("Hi"), {"type": "citations_delta", "citation": cited}]
    thought = [{"type": "thinking", "thinking": "", "signature": ""}, {"type": "thinking_delta", "thinking": "hm"}]
    signed = [{"type": "signature_delta", "signature": "ab"}]
    answer = assemble_response(
        read([plain([start(), *block(0, thought[0], thought[1], *signed), *block(1, grown[0], *grown[1:]), end(), STOP])])
    )
    thinking, said = answer.choices[0].parts
    assert isinstance(thinking, Reasoning) and thinking.opaque_state is not None and isinstance(said, Text)
    assert (thinking.text, thinking.opaque_state.data) == ("hm", "ab")
    assert [(each.title, each.quote) for each in said.citations] == [("A", "so")]


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
def test_an_error_in_a_stream_is_its_failure(kind: str, error: type[UpstreamError]) -> None:
    wire = plain([start(), *block(0, *text("Hel"))[:2], event("error", error={"type": kind, "message": "Too much"})])
    editor = DIALECT.stream_editor(STAMP)
    assert [each["type"] for each in told(editor.feed(wire))] == ["message_start", "content_block_start", "content_block_delta"]
    assert editor.failure is not None
    assert (type(editor.failure), editor.failure.message) == (error, "Too much")
    events: list[Event] = []
    with pytest.raises(error):
        events.extend(DIALECT.stream_reader().feed(wire))
    assert len(events) == 4
    with pytest.raises(error):
        DIALECT.edit_response(json.dumps({"type": "error", "error": {"type": kind, "message": "Too much"}}).encode(), STAMP)


def test_a_stream_that_ends_early_is_cut_short() -> None:
    wire = plain([start(), *block(0, *text("Hel"))])
    with pytest.raises(StreamTruncated):
        edited([wire])
    with pytest.raises(StreamTruncated):
        read([wire])


def test_half_an_event_at_the_end_costs_no_whole_answer() -> None:
    wire = plain([start(), *block(0, *text("Hi")), end()]) + b'event: message_stop\ndata: {"type":"mess'
    assert [each["type"] for each in told(edited([wire]))][-2:] == ["message_delta", "message_stop"]
    assert assemble_response(read([wire])).choices[0].finish_reason == "stop"


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
def test_garbage_is_called_garbled(data: bytes) -> None:
    editor = DIALECT.stream_editor(STAMP)
    assert editor.feed(plain([start()]))
    assert not editor.feed(b"data: " + data + b"\n\n")
    assert isinstance(editor.failure, InvalidUpstreamResponse)


@bounded
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=30),
            st.sampled_from(
                [b"data: ", b"\n\n", b"\r", b"event: x\n", b'{"type":"message_stop"}', b'{"type":"content_block_delta"}', plain([start()])]
            ),
            st.sampled_from([event("content_block_start", index=0, content_block={"type": "tool_use", "input": []})]).map(
                lambda each: plain([each])
            ),
            st.sampled_from([*block(0, {"type": "text"}, {"type": "citations_delta", "citation": [1]}), end()]).map(
                lambda each: plain([each])
            ),
        ),
        max_size=8,
    )
)
def test_no_bytes_break_the_editor_or_the_reader(blocks: list[bytes]) -> None:
    with contextlib.suppress(UpstreamError):
        edited(blocks)
    with contextlib.suppress(UpstreamError):
        read(blocks)


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"{}", b'{"content":1}', b'{"content":[1]}', b'{"content":[{"type":"tool_use","input":1}]}'], ids=range(6)
)
def test_a_whole_answer_that_is_none_is_garbled(raw: bytes) -> None:
    with pytest.raises(InvalidUpstreamResponse):
        DIALECT.read_response(raw)


@pytest.mark.parametrize("raw", [b"", b"{}", b'{"input_tokens":"3"}', b"[3]"])
def test_a_count_that_is_none_is_garbled(raw: bytes) -> None:
    with pytest.raises(InvalidUpstreamResponse):
        AnthropicCountTokens().edit_response(raw, STAMP)


def test_half_a_surrogate_pair_is_mended() -> None:
    wire = plain([start(), *block(0, *text("ab")), end(), STOP]).replace(b'"ab"', b'"a\\ud83d"')
    assert assemble_response(read([wire])).choices[0].parts == (Text("a�"),)


@pytest.mark.parametrize(("pieces", "least", "most"), [([], 0, 0), (["word "] * 40, 40, 60), (["", "word " * 40], 40, 60)])
def test_what_was_written_is_estimated_however_much_comes_in_a_piece(pieces: list[str], least: int, most: int) -> None:
    editor = DIALECT.stream_editor(STAMP)
    editor.feed(plain([start(), *block(0, *text(*pieces))]))
    assert least <= editor.written_tokens <= most
