"""Laws of OpenAI chat as meaning: what is read, written and read again is the same, whole or streamed."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace
from openai.lib.streaming._deltas import accumulate_delta

from app.gateway.response_translation.translate import ResponseStreamer, StreamAssembler
from providers.canonical.chat import ChatResponse, Choice, Content, Reasoning, Text, ToolCall, Usage
from providers.canonical.errors import InvalidUpstreamResponse, UpstreamRejected
from providers.canonical.events import Event, PartDelta, PartStarted, assemble_response, response_events
from providers.dialects.openai_chat import OpenAIChat
from tests.laws.chats import SILENT, STAMP, answers, bounded, chunk, cuts, piece, streams, told, usage, woven_answers

DIALECT = OpenAIChat()


def written(events: list[Event]) -> bytes:
    writer = DIALECT.stream_writer(STAMP)
    return b"".join([writer.feed(event) for event in events]) + writer.finish()


def read(blocks: list[bytes]) -> list[Event]:
    reader = DIALECT.stream_reader()
    return [*(event for block in blocks for event in reader.feed(block)), *reader.finish()]


@bounded
@given(answers)
def test_what_is_unfolded_folds_back(answer: ChatResponse) -> None:
    assert assemble_response(response_events(answer)) == answer


@bounded
@given(answers)
def test_a_whole_answer_is_read_as_it_was_written(answer: ChatResponse) -> None:
    assert DIALECT.read_response(DIALECT.write_response(answer, STAMP)) == answer


@bounded
@given(woven_answers)
def test_what_chat_has_no_place_for_is_put_together_again(answer: ChatResponse) -> None:
    read_back = DIALECT.read_response(DIALECT.write_response(answer, STAMP))
    assert [meant(each.parts) for each in read_back.choices] == [meant(each.parts) for each in answer.choices]
    assert read_back.usage == answer.usage


def meant(parts: tuple[Content, ...]) -> list[Content]:
    """Without how a citation was written: that tells its place in the whole content, not in its part."""
    return [
        replace(part, citations=tuple(replace(each, raw=Raw(b"")) for each in part.citations)) if isinstance(part, Text) else part
        for part in parts
    ]


@bounded
@given(woven_answers)
def test_a_client_that_gives_a_streamed_answer_back_gives_all_its_parts(answer: ChatResponse) -> None:
    """As the official client puts deltas together."""
    frames = told(written(list(response_events(answer))))
    for index, choice in enumerate(answer.choices):
        deltas = [each["delta"] for frame in frames for each in frame["choices"] if each["index"] == index]
        message: dict[object, object] = {}
        for delta in deltas:
            message = accumulate_delta(message, delta)
        asked = json.dumps({"model": "m", "messages": [message]}).encode()
        (given,) = DIALECT.read_request(DIALECT.parse_request(asked).body).messages
        assert meant(given.parts) == meant(choice.parts)


@bounded
@given(answers, st.data())
def test_a_stream_is_read_as_it_was_written(answer: ChatResponse, data: st.DataObject) -> None:
    events = shuffled(list(response_events(answer)), data)
    assert assemble_response(read(data.draw(cuts(written(events))))) == assemble_response(events) == answer


def shuffled(events: list[Event], data: st.DataObject) -> list[Event]:
    """The same answer, its choices growing beside each other and its texts in more than one piece."""
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
@given(answers)
def test_a_stream_folded_equals_the_whole_answer(answer: ChatResponse) -> None:
    folding = StreamAssembler(DIALECT, DIALECT, STAMP)
    folding.feed(written(list(response_events(answer))))
    assert DIALECT.read_response(folding.finish().raw) == answer


@bounded
@given(answers)
def test_a_whole_answer_streamed_equals_itself(answer: ChatResponse) -> None:
    unfolding = ResponseStreamer(DIALECT, DIALECT, STAMP)
    # Pretty-printed, as OpenAI writes whole answers: no line end of it may break a frame.
    whole = json.dumps(json.loads(DIALECT.write_response(answer, STAMP)), indent=2, ensure_ascii=False).encode()
    out = unfolding.feed(whole) + unfolding.finish()
    told(out)
    assert flat(assemble_response(read([out]))) == flat(answer)
    assert (unfolding.usage, unfolding.finish_reason) == (answer.usage, answer.choices[0].finish_reason)


def flat(answer: ChatResponse) -> ChatResponse:
    """With logprobs compared as JSON, not as bytes."""
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
def test_reader_and_editor_tell_the_same_story(chunks: list[dict[str, Any]]) -> None:
    wire = b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in chunks)
    editor = DIALECT.stream_editor(STAMP)
    direct = assemble_response(read([wire]))
    through = assemble_response(read([editor.feed(wire) + editor.finish()]))
    assert through.choices == direct.choices
    assert through.usage == direct.usage == editor.usage
    assert direct.choices[0].finish_reason == editor.finish_reason


@bounded
@given(answers)
def test_a_written_stream_tells_usage_once_and_only_to_who_asked(answer: ChatResponse) -> None:
    for stamp in (STAMP, SILENT):
        writer = DIALECT.stream_writer(stamp)
        frames = told(b"".join([writer.feed(event) for event in response_events(answer)]) + writer.finish())
        assert ["usage" in each for each in frames].count(True) == (answer.usage is not None and stamp.wants_usage)


@bounded
@given(answers)
def test_every_choice_says_its_role_first_and_its_reason_last(answer: ChatResponse) -> None:
    frames = told(written(list(response_events(answer))))
    for index in range(len(answer.choices)):
        mine = [choice for each in frames for choice in each["choices"] if choice["index"] == index]
        assert [choice["delta"].get("role") for choice in mine] == ["assistant", *[None] * (len(mine) - 1)]
        assert [choice["finish_reason"] for choice in mine] == [*[None] * (len(mine) - 1), answer.choices[index].finish_reason]


def test_counts_that_come_before_the_end_are_told_at_it() -> None:
    events = list(response_events(ChatResponse((Choice((Text("Hi"),), "stop"),), "m", usage=Usage(1, 2))))
    frames = told(written([events[0], events[-1], *events[1:-1]]))
    assert [each.get("usage") for each in frames] == [None, {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}]


def test_a_call_that_begins_without_arguments_and_grows_beside_another() -> None:
    """vLLM's first delta of a call has no `arguments`; fragments of parallel calls may alternate."""

    def call(index: int, id: str | None = None, /, **function: str) -> dict[str, Any]:
        return piece(content=None, tool_calls=[{"index": index, **({"id": id, "type": "function"} if id else {}), "function": function}])

    calls = [
        call(0, "a", name="book"),
        call(0, arguments='{"to":'),
        call(1, "b", name="pay"),
        call(1, arguments="{}"),
        call(0, arguments="1}"),
    ]
    chunks = [chunk([piece(role="assistant", content="")]), *[chunk([each]) for each in calls], chunk([piece(0, "tool_calls")])]
    wire = b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in chunks)
    (choice,) = assemble_response(read([wire])).choices
    assert choice == Choice((ToolCall("a", "book", '{"to":1}'), ToolCall("b", "pay", "{}")), "tool_calls")


def test_parts_keep_the_order_in_which_they_came() -> None:
    deltas = [{"content": "a"}, {"reasoning": "b"}, {"reasoning": "c"}, {"content": "d"}]
    chunks = [*[chunk([piece(**each)]) for each in deltas], chunk([piece(0, "stop")])]
    wire = b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in chunks)
    (choice,) = assemble_response(read([wire])).choices
    assert choice.parts == (Text("a"), Reasoning("bc"), Text("d"))


def test_a_call_may_begin_with_all_its_arguments() -> None:
    events: list[Event] = [
        PartStarted(0, 0, ToolCall("a", "f", "{}")),
        *list(response_events(ChatResponse((Choice((), "tool_calls"),), "")))[1:],
    ]
    assert assemble_response(read([written(events)])).choices[0].parts == (ToolCall("a", "f", "{}"),)


@pytest.mark.parametrize("content", ['"\\ud83d"', '"\\ude00 and \\ud83d"', '"\\\\\\ud83d"'])
def test_half_a_character_is_read_as_the_replacement_character(content: str) -> None:
    raw = f'{{"choices":[{{"index":0,"message":{{"role":"assistant","content":{content}}},"finish_reason":"stop"}}]}}'.encode()
    (part,) = DIALECT.read_response(raw).choices[0].parts
    assert isinstance(part, Text)
    assert part.text == json.loads(content).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def test_bytes_that_are_no_utf8_are_read_as_the_replacement_character() -> None:
    raw = b'{"choices":[{"index":0,"message":{"role":"assistant","content":"a\xffb"},"finish_reason":"stop"}]}'
    assert DIALECT.read_response(raw).choices[0].parts == (Text("a\ufffdb"),)


# Whole answers, edited.
@bounded
@given(answers, st.sampled_from([None, 2]))
def test_an_edit_touches_our_keys_alone(answer: ChatResponse, indent: int | None) -> None:
    theirs = json.loads(DIALECT.write_response(answer, replace(STAMP, id="theirs", model="theirs", episode_id="theirs")))
    theirs["timings"] = {"ms": 1.50, "big": 12345678901234567890}
    edited = DIALECT.edit_response(json.dumps(theirs, indent=indent).encode(), STAMP)
    assert json.loads(edited.raw) == {**theirs, "id": STAMP.id, "model": STAMP.model, "episode_id": STAMP.episode_id}
    assert (edited.usage, edited.finish_reason) == (answer.usage, answer.choices[0].finish_reason)
    assert flat(DIALECT.read_response(edited.raw)) == flat(answer)


def test_the_documented_keys_are_there_whatever_the_engine_leaves_out() -> None:
    edited = json.loads(DIALECT.edit_response(b'{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}', STAMP).raw)
    assert edited == {
        "id": STAMP.id,
        "object": "chat.completion",
        "created": STAMP.created,
        "model": STAMP.model,
        "episode_id": STAMP.episode_id,
        "choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}],
        "system_fingerprint": "",
        "service_tier": "",
    }


def test_the_first_choice_is_the_one_recorded_wherever_it_stands() -> None:
    choices: list[Any] = [{"index": 1, "message": {}, "finish_reason": "length"}, {"index": 0, "message": {}, "finish_reason": "stop"}]
    raw = json.dumps({"choices": choices, "usage": usage()}).encode()
    assert DIALECT.edit_response(raw, STAMP).finish_reason == "stop"
    assert DIALECT.read_response(raw).choices[0].finish_reason == "stop"


def test_reasoning_of_a_whole_answer_is_told_under_its_documented_name() -> None:
    raw = b'{"choices":[{"message":{"content":null,"reasoning":"hm","x":1.50}}]}'
    assert b'{"content":null,"reasoning_content":"hm","x":1.50}' in DIALECT.edit_response(raw, STAMP).raw


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
def test_an_answer_that_is_none_is_garbled(raw: bytes) -> None:
    with pytest.raises(InvalidUpstreamResponse):
        DIALECT.edit_response(raw, STAMP)


@bounded
@given(st.one_of(st.binary(max_size=60), st.binary(max_size=20).map(lambda tail: b'{"choices":[{"message":{"content":"' + tail + b'"}}]}')))
def test_no_bytes_break_what_reads_whole_answers(raw: bytes) -> None:
    for reading in (lambda: DIALECT.edit_response(raw, STAMP), lambda: DIALECT.read_response(raw)):
        with contextlib.suppress(InvalidUpstreamResponse):
            reading()


@pytest.mark.parametrize("reading", [lambda raw: DIALECT.edit_response(raw, STAMP), DIALECT.read_response], ids=["edit", "read"])  # pyright: ignore
def test_an_error_told_with_200_is_an_error(reading: Any) -> None:
    with pytest.raises(UpstreamRejected, match="too long"):
        reading(b'{"object":"error","message":"too long","type":"BadRequestError","param":null,"code":400}')


@pytest.mark.parametrize("count", [-1, 2**41, 10**30])
def test_a_count_that_cannot_be_is_none_and_costs_neither_the_answer_nor_the_others(count: int) -> None:
    raw = json.dumps({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}], "usage": usage(count, 4)}).encode()
    assert DIALECT.edit_response(raw, STAMP).usage == Usage(None, 4)
    assert DIALECT.read_response(raw).usage == Usage(None, 4)
