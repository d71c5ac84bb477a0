"""Streams of Responses: what the official SDK makes of ours, and the edit of an engine's."""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, assert_never, get_args

import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace
from openai.types.responses import Response, ResponseErrorEvent, ResponseStreamEvent

from providers.canonical.chat import ChatResponse, Choice, Opaque, Part, Reasoning, Refusal, Text, ToolCall, Usage
from providers.canonical.errors import (
    InvalidUpstreamResponse,
    Overloaded,
    StreamTruncated,
    Unsupported,
    UpstreamError,
    UpstreamFailed,
    UpstreamRejected,
)
from providers.canonical.events import (
    ChoiceFinished,
    PartDelta,
    PartStarted,
    ResponseStarted,
    UsageReported,
    assemble_response,
    response_events,
)
from providers.dialect import ResponseMeta
from providers.dialects.openai_responses import OpenAIResponses, final_response
from tests.laws.chats import STAMP, bounded, cuts
from tests.laws.responses import answers

DIALECT = OpenAIResponses()
EVENTS: Mapping[str, Any] = {get_args(each.model_fields["type"].annotation)[0]: each for each in get_args(get_args(ResponseStreamEvent)[0])}
ASKED: dict[str, Any] = {
    "instructions": Raw(b'"be\\nbrief"'),
    "temperature": Raw(b"0.5"),
    "tools": Raw(b'[\n{"type": "function",\r\n "name": "f", "parameters": {}, "strict": null}]'),
    "tool_choice": Raw(b'{"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]}'),
    "metadata": Raw(b'{"a": "b"}'),
    "previous_response_id": Raw(b'"resp_before"'),
    "store": Raw(b"false"),
    "reasoning": Raw(b'{"effort": "low"}'),
    "truncation": Raw(b"null"),
}
ASKING = replace(STAMP, request_body=ASKED)


def echo(request: httpx2.Request) -> httpx2.Response:
    """The stream that the client sent as its input."""
    out = base64.b64decode(json.loads(request.content)["input"])
    return httpx2.Response(200, content=out, headers={"content-type": "text/event-stream"})


CLIENT = openai.OpenAI(api_key="none", base_url="http://127.0.0.1:9", http_client=httpx2.Client(transport=httpx2.MockTransport(echo)))


def written(answer: ChatResponse, stamp: ResponseMeta) -> bytes:
    writer = DIALECT.stream_writer(stamp)
    return b"".join([writer.feed(event) for event in response_events(answer)]) + writer.finish()


def told(out: bytes) -> list[dict[str, Any]]:
    """The events that a caller got, each framed as OpenAI frames them."""
    *frames, rest = out.split(b"\n\n")
    assert rest == b""
    events = [json.loads(frame.partition(b"\ndata: ")[2]) for frame in frames]
    assert [frame.partition(b"\n")[0] for frame in frames] == [b"event: " + event["type"].encode() for event in events]
    return events


def framed(events: Sequence[dict[str, Any]]) -> bytes:
    return b"".join(b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\n\n" for event in events)


def read(answer: bytes) -> ChatResponse:
    reader = DIALECT.stream_reader()
    return assemble_response([*reader.feed(answer), *reader.finish()])


@bounded
@given(answers, st.sampled_from([STAMP, ASKING]))
def test_every_event_is_one_of_the_official_sdks(answer: ChatResponse, stamp: ResponseMeta) -> None:
    events = told(written(answer, stamp))
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    for event in events:
        EVENTS[event["type"]].model_validate_json(json.dumps(event), strict=True)
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    begun = [event["item"]["id"] for event in events if event["type"] == "response.output_item.added"]
    ended = [event["item"]["id"] for event in events if event["type"] == "response.output_item.done"]
    assert begun == ended == [item["id"] for item in events[-1]["response"]["output"]]


@bounded
@given(answers)
def test_the_official_sdk_puts_the_answer_together(answer: ChatResponse) -> None:
    out = written(answer, STAMP)
    complete = answer.choices[0].finish_reason in ("stop", "tool_calls")
    with CLIENT.responses.stream(model="m", input=base64.b64encode(out).decode()) as stream:
        seen = list(stream)
        texts = [part.text for part in answer.choices[0].parts if isinstance(part, Text)]
        assert [event.text for event in seen if event.type == "response.output_text.done"] == texts
        if complete:
            final = stream.get_final_response()
            whole = Response.model_validate_json(DIALECT.write_response(answer, STAMP))
            assert final.output_text == "".join(texts) == whole.output_text
            assert [item.type for item in final.output] == [item.type for item in whole.output]
    assert seen[-1].type == ("response.completed" if complete else "response.incomplete")


def test_a_response_repeats_what_was_asked() -> None:
    answer = ChatResponse((Choice((Text("hi"),), "stop"),), "theirs", usage=Usage(1, 2))
    for response in (json.loads(DIALECT.write_response(answer, ASKING)), told(written(answer, ASKING))[-1]["response"]):
        assert response["id"] == f"resp_{STAMP.id}"
        assert response["model"] == STAMP.model
        assert response["created_at"] == STAMP.created
        for key in ASKED.keys() - {"truncation"}:
            assert response[key] == json.loads(bytes(ASKED[key]))
        assert (response["truncation"], response["top_p"], response["parallel_tool_calls"]) == ("disabled", 1.0, True)
        assert response["usage"]["total_tokens"] == 3
        Response.model_validate_json(json.dumps(response), strict=True)


def test_what_ends_a_stream_is_withheld() -> None:
    writer = DIALECT.stream_writer(STAMP)
    events = [
        ResponseStarted("m"),
        PartStarted(0, 0, Text("")),
        PartDelta(0, 0, "hi"),
        ChoiceFinished(0, "length"),
        UsageReported(Usage(1, 2)),
    ]
    before = b"".join([writer.feed(event) for event in events])
    assert told(before)[-1]["type"] == "response.output_item.done"
    assert told(before)[-1]["item"]["status"] == "incomplete"
    (last,) = told(writer.finish())
    assert last["type"] == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert last["response"]["usage"]["output_tokens"] == 2


def test_of_several_answers_the_first_is_written() -> None:
    answer = ChatResponse((Choice((Text("one"),), "stop"), Choice((Text("two"),), "stop")), "m", 1)
    assert read(written(answer, STAMP)).choices == (Choice((Text("one"),), "stop"),)


@bounded
@given(answers, st.data())
def test_an_engines_stream_becomes_the_callers(answer: ChatResponse, data: st.DataObject) -> None:
    """However it is cut: ours is replaced, and the rest is the engine's own."""
    out = written(answer, replace(STAMP, id="01990000-0000-7000-8000-0000000000ff", model="theirs"))
    editor = DIALECT.stream_editor(ASKING)
    *blocks, last = data.draw(cuts(out + b"data: [DONE]\n\n"))
    before = b"".join([editor.feed(block) for block in [*blocks, last]])
    end = editor.finish()
    assert editor.done and editor.failure is None
    assert (editor.usage, editor.finish_reason) == (answer.usage, answer.choices[0].finish_reason)
    assert editor.written_tokens >= out.count(b".delta\n")
    theirs, ours = told(out), told(before + end)
    assert len(told(end)) == 1
    assert [event for event in ours if "response" not in event] == [event for event in theirs if "response" not in event]
    for event, original in zip(ours, theirs, strict=True):
        if "response" in event:
            changed = {key for key, value in event["response"].items() if value != original["response"][key]}
            assert changed == {"id", "model", "previous_response_id", "store", "metadata"}
            assert event["response"]["id"] == f"resp_{STAMP.id}"
            assert event["response"]["previous_response_id"] == "resp_before"
    assert read(before + end).choices == answer.choices


def bare(answer: ChatResponse) -> list[dict[str, Any]]:
    """A stream as llama.cpp sends it: no numbers, no indexes, a time with a fraction, and little in the Response."""
    events = told(written(answer, STAMP))
    for event in events:
        for key in ("sequence_number", "output_index", "content_index"):
            event.pop(key, None)
        if "response" in event:
            told_of = ("id", "object", "status", "model", "output", "usage", "incomplete_details")
            event["response"] = {"created_at": 1_790_000_001.5, **{key: event["response"][key] for key in told_of}}
    return events


@bounded
@given(answers.filter(lambda answer: sum(isinstance(part, Text) for part in answer.choices[0].parts) == 1))
def test_what_an_engine_leaves_out_is_filled_in(answer: ChatResponse) -> None:
    editor = DIALECT.stream_editor(ASKING)
    events = told(editor.feed(framed(bare(answer))) + editor.finish())
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    for event in events:
        if "response" in event:
            Response.model_validate_json(json.dumps(event["response"]), strict=True)
            assert event["response"]["created_at"] == 1_790_000_001
            assert event["response"]["tools"] == json.loads(bytes(ASKED["tools"]))


# What a Response is understood without, as long as something tells of each item.
LACKING = (
    "created",
    "in_progress",
    ".added",
    "part.added",
    ".delta",
    "text.done",
    "refusal.done",
    "arguments.done",
    "input.done",
    "part.done",
)


def lacking(answer: ChatResponse, kinds: frozenset[str], fields: str) -> list[dict[str, Any]]:
    events = [event for event in told(written(answer, STAMP)) if not event["type"].endswith(tuple(kinds))]
    for number, event in enumerate(events):
        event["sequence_number"] = number
        for key in {"numbers": ["sequence_number"], "places": ["output_index"], "ids": ["item_id"]}.get(fields, []):
            event.pop(key, None)
        if fields == "ids":
            for item in (event.get("item", {}), *event.get("response", {}).get("output", ())):
                item.pop("id", None)
    return events


@bounded
@given(answers, st.frozensets(st.sampled_from(LACKING)), st.sampled_from(["", "numbers", "places", "ids"]))
def test_the_official_sdk_puts_together_what_an_engine_tells_by_halves(answer: ChatResponse, kinds: frozenset[str], fields: str) -> None:
    editor = DIALECT.stream_editor(STAMP)
    out = editor.feed(framed(lacking(answer, kinds, fields))) + editor.finish()
    events = told(out)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    said: dict[tuple[int, int], str] = {}
    for event in events:
        if event["type"].endswith(("output_text.delta", "refusal.delta")):
            place = (event["output_index"], event["content_index"])
            said[place] = said.get(place, "") + event["delta"]
    final = events[-1]["response"]
    for at, item in enumerate(final["output"]):
        assert item["id"]
        for within, part in enumerate(item.get("content", ()) if item["type"] == "message" else ()):
            assert said.get((at, within), "") == part.get("text", part.get("refusal"))
    with CLIENT.responses.stream(model="m", input=base64.b64encode(out).decode()) as stream:
        last: Any = list(stream)[-1]
    assert [item.type for item in last.response.output] == [item["type"] for item in final["output"]]
    assert spoken(read(out)) == spoken(answer)


def test_texts_that_tell_of_no_item_are_one() -> None:
    deltas = [{"type": "response.output_text.delta", "delta": text} for text in ("Hel", "lo.")]
    message: dict[str, Any] = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Hello.", "annotations": []}],
    }
    final: dict[str, Any] = {"type": "response.completed", "response": {"status": "completed", "output": [message]}}
    editor = DIALECT.stream_editor(STAMP)
    out = editor.feed(framed([*deltas, final])) + editor.finish()
    assert read(out).choices[0].parts == (Text("Hello."),)
    kinds = [event["type"].removeprefix("response.") for event in told(out)]
    begun = ["created", "in_progress", "output_item.added", "content_part.added"]
    assert kinds == [*begun, "output_text.delta", "output_text.delta", "completed"]
    with CLIENT.responses.stream(model="m", input=base64.b64encode(out).decode()) as stream:
        assert stream.get_final_response().output_text == "Hello."


def spoken(answer: ChatResponse) -> list[tuple[str, ...]]:
    """Without parts that say nothing: of which kind they are, perhaps nobody told."""
    told = map(_spoken, answer.choices[0].parts)
    return [each for each in told if each[0] == "call" or each[1]]


def _spoken(part: Part) -> tuple[str, ...]:
    """Without what is written anew where an item gets an id."""
    match part:
        case Text(text=text) | Refusal(text=text) | Reasoning(text=text):
            return (type(part).__name__, text)
        case ToolCall():
            return ("call", part.id, part.name, part.arguments)
        case Opaque():
            return ("opaque", part.origin)
        case _:
            assert_never(part)


BARE: list[tuple[dict[str, Any], str]] = [
    ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
    ({"incomplete_details": {"reason": "content_filter"}}, "content_filter"),
    ({"status": "completed"}, "stop"),
    ({}, "stop"),
]


@pytest.mark.parametrize(("ending", "reason"), BARE)
def test_a_whole_answer_of_which_an_engine_tells_little_is_filled_in(ending: dict[str, Any], reason: str) -> None:
    """As llm-d documents it."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"}
    output: list[dict[str, Any]] = [{**message, "content": [{"type": "output_text", "text": "Hello!", "annotations": []}]}]
    usage = {"input_tokens": 9, "output_tokens": 10, "total_tokens": 19}
    engines: dict[str, Any] = {"id": "resp_x", "created_at": 5.5, "model": "theirs", "output": output, "usage": usage, **ending}
    edited = DIALECT.edit_response(json.dumps(engines).encode(), ASKING)
    told = Response.model_validate_json(edited.raw, strict=True)
    assert (edited.usage, edited.finish_reason) == (Usage(9, 10), reason)
    assert (told.output_text, told.id, told.model) == ("Hello!", f"resp_{STAMP.id}", STAMP.model)
    assert told.status == ("completed" if reason == "stop" else "incomplete")
    assert (told.metadata, told.previous_response_id, told.instructions) == ({"a": "b"}, "resp_before", "be\nbrief")


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"status": "failed", "error": {"code": "server_error", "message": "oh"}, "output": []}', UpstreamFailed),
        (b'{"status": "cancelled", "output": []}', UpstreamFailed),
        (b'{"error": {"message": "queue is full", "code": 503}}', Overloaded),
        (b'{"status": "in_progress", "output": []}', InvalidUpstreamResponse),
        (b'{"output": [1]}', InvalidUpstreamResponse),
        (b"[]", InvalidUpstreamResponse),
    ],
)
def test_a_whole_answer_that_is_none_is_an_error(body: bytes, error: type[UpstreamError]) -> None:
    with pytest.raises(error):
        DIALECT.edit_response(body, STAMP)
    with pytest.raises(error):
        DIALECT.read_response(body)


CREATED: dict[str, Any] = {
    "type": "response.created",
    "sequence_number": 0,
    "response": {"id": "r", "output": [], "model": "m", "status": "in_progress"},
}
DELTA: dict[str, Any] = {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "item_id": "m", "delta": "x"}
COMPLETED: dict[str, Any] = {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": [], "usage": None}}


@pytest.mark.parametrize(
    ("event", "error"),
    [
        ({"type": "error", "code": "rate_limit_exceeded", "message": "slow down", "param": None}, Overloaded),
        ({"type": "error", "code": "server_error", "message": "oh", "param": None}, UpstreamFailed),
        ({"type": "error", "error": {"type": "invalid_request_error", "code": None, "message": "too long"}}, UpstreamRejected),
        ({"type": "response.failed", "response": {"status": "failed", "error": {"code": "server_error", "message": "oh"}}}, UpstreamFailed),
        (
            {"type": "response.failed", "response": {"status": "failed", "error": {"code": "invalid_prompt", "message": "oh"}}},
            UpstreamRejected,
        ),
        ({"type": "response.failed", "response": {"status": "failed", "error": None}}, UpstreamFailed),
        ({"error": {"message": "queue is full", "code": 503}}, Overloaded),
        ({"object": "error", "message": "no", "code": 400}, UpstreamRejected),
        ({"delta": "no type"}, InvalidUpstreamResponse),
    ],
)
def test_an_engines_error_is_told_and_what_came_before_it_is_the_callers(event: dict[str, Any], error: type[UpstreamError]) -> None:
    stream = framed([CREATED, DELTA, event, COMPLETED])
    editor = DIALECT.stream_editor(STAMP)
    before = [each["type"] for each in told(editor.feed(stream))]
    assert (before[0], before[-1]) == ("response.created", "response.output_text.delta")
    assert type(editor.failure) is error
    with pytest.raises(error):
        editor.finish()
    events = iter(DIALECT.stream_reader().feed(stream))
    assert [type(next(events)) for _ in range(3)] == [ResponseStarted, PartStarted, PartDelta]
    with pytest.raises(error):
        next(events)


@pytest.mark.parametrize("rest", [[], [{"type": "response.output_text.delta", "delta": "more", "output_index": 0}]])
def test_a_stream_that_ends_midway_is_cut_short(rest: list[dict[str, Any]]) -> None:
    stream = framed([CREATED, DELTA, *rest]) + b"data: [DONE]\n\n"
    editor = DIALECT.stream_editor(STAMP)
    editor.feed(stream)
    with pytest.raises(StreamTruncated):
        editor.finish()
    reader = DIALECT.stream_reader()
    list(reader.feed(stream))
    with pytest.raises(StreamTruncated):
        list(reader.finish())


def test_an_engine_that_tells_its_answer_in_the_last_event_alone_is_read() -> None:
    whole = json.loads(DIALECT.write_response(ChatResponse((Choice((Text("hi"),), "stop"),), "m", 1, Usage(1, 2, 0, 0, 0)), STAMP))
    answer = read(framed([CREATED, {"type": "response.completed", "response": whole}]))
    assert answer.choices == (Choice((Text("hi"),), "stop"),)
    assert answer.usage == Usage(1, 2, 0, 0, 0)


def events_without_deltas(answer: ChatResponse) -> Iterator[dict[str, Any]]:
    for event in told(written(answer, STAMP)):
        if not event["type"].endswith(".delta"):
            yield event


@bounded
@given(answers)
def test_an_engine_that_sends_no_deltas_is_read_all_the_same(answer: ChatResponse) -> None:
    assert read(framed(list(events_without_deltas(answer)))).choices == answer.choices


@pytest.mark.parametrize("place", [{"content_index": 300_000}, {"content_index": -1}, {"output_index": 300_000}, {"output_index": -1}])
def test_a_place_far_from_all_others_is_garbled(place: dict[str, int]) -> None:
    editor = DIALECT.stream_editor(STAMP)
    begun = editor.feed(framed([CREATED, DELTA]))
    assert editor.feed(framed([{**DELTA, **place}, COMPLETED])) == b""
    assert isinstance(editor.failure, InvalidUpstreamResponse) and told(begun)[-1]["type"] == "response.output_text.delta"


def test_parts_that_an_engine_skipped_are_begun() -> None:
    editor = DIALECT.stream_editor(STAMP)
    out = editor.feed(framed([CREATED, {**DELTA, "output_index": 2, "content_index": 3}]))
    assert [event["content_index"] for event in told(out) if event["type"] == "response.content_part.added"] == [0, 1, 2, 3]


@bounded
@given(answers, st.booleans())
def test_only_what_is_complete_says_when_it_was(answer: ChatResponse, streamed: bool) -> None:
    response = told(written(answer, STAMP))[-1]["response"] if streamed else json.loads(DIALECT.write_response(answer, STAMP))
    assert response["completed_at"] == (response["created_at"] if response["status"] == "completed" else None)


def test_half_a_surrogate_pair_costs_one_character() -> None:
    stream = (
        framed([CREATED]) + b'data: {"type":"response.output_text.delta","output_index":0,"delta":"\\ud83d!"}\n\n' + framed([COMPLETED])
    )
    assert read(stream).choices[0].parts == (Text("\ufffd!"),)
    editor = DIALECT.stream_editor(STAMP)
    assert b"\\ufffd!" in editor.feed(stream)
    editor.finish()


def test_events_nobody_knows_pass_and_mean_nothing() -> None:
    odd = {"type": "response.x_new", "delta": {"not": "text"}, "output_index": 0}
    stream = framed([CREATED, odd, DELTA, COMPLETED])
    assert read(stream).choices[0].parts == (Text("x"),)
    editor = DIALECT.stream_editor(STAMP)
    assert {**odd, "sequence_number": 2} in told(editor.feed(stream))


def test_an_error_frame_is_the_sdks() -> None:
    (event,) = told(DIALECT.write_error_frame(Unsupported("no", param="x")))
    assert ResponseErrorEvent.model_validate(event, strict=True).message == "no"
    assert (event["code"], event["param"]) == ("unsupported", "x")


def test_a_stream_that_did_not_end_with_a_response_has_no_final_one() -> None:
    assert final_response(DIALECT.write_error_frame(Unsupported("no"))) is None
    assert final_response(framed([CREATED])) is None
