"""Responses streams: the official SDK assembles ours, and an engine's stream is edited only in the gateway's own fields."""

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

from providers.canonical.chat import ChatResponse, Choice, Opaque, OpaqueState, Part, Reasoning, Refusal, Text, ToolCall, Usage
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
from tests.support.strategies.chat_strategies import META, bounded, byte_splits
from tests.support.strategies.openai_responses_strategies import answered_responses, with_tool_uses

DIALECT = OpenAIResponses()
EVENTS: Mapping[str, Any] = {get_args(each.model_fields["type"].annotation)[0]: each for each in get_args(get_args(ResponseStreamEvent)[0])}
REQUEST_FIELDS: dict[str, Any] = {
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
REQUEST_META = replace(META, request_body=REQUEST_FIELDS)


def echo(request: httpx2.Request) -> httpx2.Response:
    """The stream that the client sent as its input."""
    out = base64.b64decode(json.loads(request.content)["input"])
    return httpx2.Response(200, content=out, headers={"content-type": "text/event-stream"})


CLIENT = openai.OpenAI(api_key="none", base_url="http://127.0.0.1:9", http_client=httpx2.Client(transport=httpx2.MockTransport(echo)))


def write_stream(answer: ChatResponse, meta: ResponseMeta) -> bytes:
    writer = DIALECT.stream_writer(meta)
    return b"".join([writer.feed(event) for event in response_events(answer)]) + writer.finish()


def parse_events(out: bytes) -> list[dict[str, Any]]:
    """The events that a caller received. Each must be framed as OpenAI frames it."""
    *frames, rest = out.split(b"\n\n")
    assert rest == b""
    events = [json.loads(frame.partition(b"\ndata: ")[2]) for frame in frames]
    assert [frame.partition(b"\n")[0] for frame in frames] == [b"event: " + event["type"].encode() for event in events]
    return events


def encode_sse(events: Sequence[dict[str, Any]]) -> bytes:
    return b"".join(b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\n\n" for event in events)


def read_stream(answer: bytes) -> ChatResponse:
    reader = DIALECT.stream_reader()
    return assemble_response([*reader.feed(answer), *reader.finish()])


@bounded
@given(answered_responses, st.sampled_from([META, REQUEST_META]))
def test_every_written_event_validates_against_the_official_sdk(answer: ChatResponse, meta: ResponseMeta) -> None:
    events = parse_events(write_stream(answer, meta))
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    for event in events:
        EVENTS[event["type"]].model_validate_json(json.dumps(event), strict=True)
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    begun = [event["item"]["id"] for event in events if event["type"] == "response.output_item.added"]
    ended = [event["item"]["id"] for event in events if event["type"] == "response.output_item.done"]
    assert begun == ended == [item["id"] for item in events[-1]["response"]["output"]]


@bounded
@given(answered_responses)
def test_official_sdk_assembles_the_response(answer: ChatResponse) -> None:
    out = write_stream(answer, META)
    complete = answer.choices[0].finish_reason in ("stop", "tool_calls")
    with CLIENT.responses.stream(model="m", input=base64.b64encode(out).decode()) as stream:
        seen = list(stream)
        texts = [part.text for part in answer.choices[0].parts if isinstance(part, Text)]
        assert [event.text for event in seen if event.type == "response.output_text.done"] == texts
        if complete:
            final = stream.get_final_response()
            whole = Response.model_validate_json(DIALECT.write_response(answer, META))
            assert final.output_text == "".join(texts) == whole.output_text
            assert [item.type for item in final.output] == [item.type for item in whole.output]
    assert seen[-1].type == ("response.completed" if complete else "response.incomplete")


@pytest.mark.parametrize("finish_reason", ["length", "content_filter"])
@pytest.mark.parametrize(
    ("parts", "statuses"),
    [
        ((Text("One"),), ["incomplete"]),
        ((Refusal("No"),), ["incomplete"]),
        ((Reasoning("Hm"),), ["incomplete"]),
        ((Reasoning("Hm"), Text("One")), ["completed", "incomplete"]),
        ((Text("One"), ToolCall("1", "f", "{")), ["completed", "incomplete"]),
        ((ToolCall("1", "f", "{}"), ToolCall("2", "f", "{")), ["completed", "incomplete"]),
        ((ToolCall("1", "f", "{}"), ToolCall("2", "g", "x", custom=True)), ["completed", "incomplete"]),
        ((ToolCall("1", "f", "{}"), Text("One")), ["completed", "incomplete"]),
        ((Text("One"), Reasoning("Hm", OpaqueState("gemini", "signed"))), ["completed", "completed"]),
        ((), []),
    ],
)
def test_item_in_which_a_response_was_cut_off_is_incomplete(parts: tuple[Part, ...], statuses: list[str], finish_reason: str) -> None:
    """The last item alone is incomplete, unless a host signed it: then it is complete."""
    answer = ChatResponse((Choice(parts, finish_reason),), "theirs", usage=Usage(1, 2))
    whole, events = json.loads(DIALECT.write_response(answer, META)), parse_events(write_stream(answer, META))
    done = {event["output_index"]: event["item"]["status"] for event in events if event["type"] == "response.output_item.done"}
    reason = {"length": "max_output_tokens", "content_filter": "content_filter"}[finish_reason]
    assert [done[at] for at in sorted(done)] == statuses
    assert events[-1]["type"] == "response.incomplete"
    for response in (whole, events[-1]["response"]):
        assert [item["status"] for item in response["output"]] == statuses
        assert (response["status"], response["incomplete_details"], response["completed_at"]) == ("incomplete", {"reason": reason}, None)
        Response.model_validate_json(json.dumps(response), strict=True)


def test_first_of_interleaved_calls_is_complete_where_the_second_is_cut_off() -> None:
    writer = DIALECT.stream_writer(META)
    calls = [PartStarted(0, at, ToolCall(f"call_{at}", "f", "")) for at in (0, 1)]
    deltas = [PartDelta(0, 0, "{}"), PartDelta(0, 1, '{"a')]
    out = b"".join([writer.feed(event) for event in [*calls, *deltas, ChoiceFinished(0, "length")]]) + writer.finish()
    events = parse_events(out)
    assert [each["sequence_number"] for each in events] == list(range(len(events)))
    assert [item["status"] for item in events[-1]["response"]["output"]] == ["completed", "incomplete"]


def test_response_echoes_the_request_fields() -> None:
    answer = ChatResponse((Choice((Text("hi"),), "stop"),), "theirs", usage=Usage(1, 2))
    for response in (
        json.loads(DIALECT.write_response(answer, REQUEST_META)),
        parse_events(write_stream(answer, REQUEST_META))[-1]["response"],
    ):
        assert response["id"] == f"resp_{META.id}"
        assert response["model"] == META.model
        assert response["created_at"] == META.created
        for key in REQUEST_FIELDS.keys() - {"truncation"}:
            assert response[key] == json.loads(bytes(REQUEST_FIELDS[key]))
        assert (response["truncation"], response["top_p"], response["parallel_tool_calls"]) == ("disabled", 1.0, True)
        assert response["usage"]["total_tokens"] == 3
        Response.model_validate_json(json.dumps(response), strict=True)


def test_final_event_is_withheld_until_the_stream_finishes() -> None:
    writer = DIALECT.stream_writer(META)
    events = [
        ResponseStarted("m"),
        PartStarted(0, 0, Text("")),
        PartDelta(0, 0, "hi"),
        ChoiceFinished(0, "length"),
        UsageReported(Usage(1, 2)),
    ]
    before = b"".join([writer.feed(event) for event in events])
    assert parse_events(before)[-1]["type"] == "response.output_item.done"
    assert parse_events(before)[-1]["item"]["status"] == "incomplete"
    (last,) = parse_events(writer.finish())
    assert last["type"] == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert last["response"]["usage"]["output_tokens"] == 2


def test_only_the_first_choice_is_written() -> None:
    answer = ChatResponse((Choice((Text("one"),), "stop"), Choice((Text("two"),), "stop")), "m", 1)
    assert read_stream(write_stream(answer, META)).choices == (Choice((Text("one"),), "stop"),)


@bounded
@given(answered_responses, st.data())
def test_engine_stream_is_edited_only_in_gateway_owned_fields(answer: ChatResponse, data: st.DataObject) -> None:
    """The gateway's fields are replaced, and the rest is the engine's own, however the stream is split."""
    out = write_stream(answer, replace(META, id="01990000-0000-7000-8000-0000000000ff", model="theirs"))
    editor = DIALECT.stream_editor(REQUEST_META)
    *blocks, last = data.draw(byte_splits(out + b"data: [DONE]\n\n"))
    before = b"".join([editor.feed(block) for block in [*blocks, last]])
    end = editor.finish()
    assert editor.done and editor.failure is None
    assert (editor.usage, editor.finish_reason) == (with_tool_uses(answer).usage, answer.choices[0].finish_reason)
    upstream_events, caller_events = parse_events(out), parse_events(before + end)
    assert len(parse_events(end)) == 1
    assert [event for event in caller_events if "response" not in event] == [event for event in upstream_events if "response" not in event]
    for event, original in zip(caller_events, upstream_events, strict=True):
        if "response" in event:
            changed = {key for key, value in event["response"].items() if value != original["response"][key]}
            counted = {"usage"} if answer.usage is None and event["type"] in ("response.completed", "response.incomplete") else set[str]()
            assert changed == {"id", "model", "previous_response_id", "store", "metadata"} | counted
            assert event["response"]["id"] == f"resp_{META.id}"
            assert event["response"]["previous_response_id"] == "resp_before"
    assert read_stream(before + end).choices == answer.choices


def minimal_events(answer: ChatResponse) -> list[dict[str, Any]]:
    """A stream as llama.cpp sends it: no numbers, no indexes, a time with a fraction, and little in the Response."""
    events = parse_events(write_stream(answer, META))
    for event in events:
        for key in ("sequence_number", "output_index", "content_index"):
            event.pop(key, None)
        if "response" in event:
            kept_keys = ("id", "object", "status", "model", "output", "usage", "incomplete_details")
            event["response"] = {"created_at": 1_790_000_001.5, **{key: event["response"][key] for key in kept_keys}}
    return events


@bounded
@given(answered_responses.filter(lambda answer: sum(isinstance(part, Text) for part in answer.choices[0].parts) == 1))
def test_fields_an_engine_omits_are_filled_in(answer: ChatResponse) -> None:
    editor = DIALECT.stream_editor(REQUEST_META)
    events = parse_events(editor.feed(encode_sse(minimal_events(answer))) + editor.finish())
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    for event in events:
        if "response" in event:
            Response.model_validate_json(json.dumps(event["response"]), strict=True)
            assert event["response"]["created_at"] == 1_790_000_001
            assert event["response"]["tools"] == json.loads(bytes(REQUEST_FIELDS["tools"]))


# Events that a stream may lack, as long as another event announces each item.
OMITTABLE_EVENTS = (
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


def incomplete_events(answer: ChatResponse, kinds: frozenset[str], fields: str) -> list[dict[str, Any]]:
    if kinds >= {"part.added", ".delta"}:
        kinds |= {"annotation.added"}  # it would begin a part, and with it those before, whose type nobody has named yet
    if kinds >= {".delta", "part.done"} and kinds & {".added", "part.added"} and kinds & {"text.done", "refusal.done"}:
        kinds |= {"text.done", "refusal.done"}  # so would the first of these
    events = [event for event in parse_events(write_stream(answer, META)) if not event["type"].endswith(tuple(kinds))]
    for number, event in enumerate(events):
        event["sequence_number"] = number
        for key in {"numbers": ["sequence_number"], "indexes": ["output_index"], "ids": ["item_id"]}.get(fields, []):
            event.pop(key, None)
        if fields == "ids":
            for item in (event.get("item", {}), *event.get("response", {}).get("output", ())):
                item.pop("id", None)
    return events


@bounded
@given(answered_responses, st.frozensets(st.sampled_from(OMITTABLE_EVENTS)), st.sampled_from(["", "numbers", "indexes", "ids"]))
def test_official_sdk_assembles_an_incomplete_engine_stream(answer: ChatResponse, kinds: frozenset[str], fields: str) -> None:
    editor = DIALECT.stream_editor(META)
    out = editor.feed(encode_sse(incomplete_events(answer, kinds, fields))) + editor.finish()
    events = parse_events(out)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    texts: dict[tuple[int, int], str] = {}
    for event in events:
        if event["type"].endswith(("output_text.delta", "refusal.delta")):
            position = (event["output_index"], event["content_index"])
            texts[position] = texts.get(position, "") + event["delta"]
    final = events[-1]["response"]
    for at, item in enumerate(final["output"]):
        assert item["id"]
        for within, part in enumerate(item.get("content", ()) if item["type"] == "message" else ()):
            assert texts.get((at, within), "") == part.get("text", part.get("refusal"))
    with CLIENT.responses.stream(model="m", input=base64.b64encode(out).decode()) as stream:
        last: Any = list(stream)[-1]
    assert [item.type for item in last.response.output] == [item["type"] for item in final["output"]]
    assert visible_parts(read_stream(out)) == visible_parts(answer)


def test_text_deltas_without_item_events_form_one_message() -> None:
    deltas = [{"type": "response.output_text.delta", "delta": text} for text in ("Hel", "lo.")]
    message: dict[str, Any] = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Hello.", "annotations": []}],
    }
    final: dict[str, Any] = {"type": "response.completed", "response": {"status": "completed", "output": [message]}}
    editor = DIALECT.stream_editor(META)
    out = editor.feed(encode_sse([*deltas, final])) + editor.finish()
    assert read_stream(out).choices[0].parts == (Text("Hello."),)
    kinds = [event["type"].removeprefix("response.") for event in parse_events(out)]
    begun = ["created", "in_progress", "output_item.added", "content_part.added"]
    assert kinds == [*begun, "output_text.delta", "output_text.delta", "completed"]
    with CLIENT.responses.stream(model="m", input=base64.b64encode(out).decode()) as stream:
        assert stream.get_final_response().output_text == "Hello."


def visible_parts(answer: ChatResponse) -> list[tuple[str, ...]]:
    """Returns the contents of an answer without empty parts: the stream may never have stated their kind."""
    contents = map(_part_content, answer.choices[0].parts)
    return [each for each in contents if each[0] == "call" or each[1]]


def _part_content(part: Part) -> tuple[str, ...]:
    """Returns the content of a part without fields that are rewritten when an item gets an id."""
    match part:
        case Text(text=text) | Refusal(text=text) | Reasoning(text=text):
            return (type(part).__name__, text)
        case ToolCall():
            return ("call", part.id, part.name, part.arguments)
        case Opaque():
            return ("opaque", part.origin)
        case _:
            assert_never(part)


MINIMAL_ENDINGS: list[tuple[dict[str, Any], str]] = [
    ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
    ({"incomplete_details": {"reason": "content_filter"}}, "content_filter"),
    ({"status": "completed"}, "stop"),
    ({}, "stop"),
]


@pytest.mark.parametrize(("ending", "reason"), MINIMAL_ENDINGS)
def test_minimal_whole_response_is_filled_in(ending: dict[str, Any], reason: str) -> None:
    """The engine's response has no more than the fields that llm-d documents."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"}
    output: list[dict[str, Any]] = [{**message, "content": [{"type": "output_text", "text": "Hello!", "annotations": []}]}]
    usage = {"input_tokens": 9, "output_tokens": 10, "total_tokens": 19}
    engine_response: dict[str, Any] = {"id": "resp_x", "created_at": 5.5, "model": "theirs", "output": output, "usage": usage, **ending}
    edited = DIALECT.edit_response(json.dumps(engine_response).encode(), REQUEST_META)
    response = Response.model_validate_json(edited.raw, strict=True)
    assert (edited.usage, edited.finish_reason) == (Usage(9, 10), reason)
    assert (response.output_text, response.id, response.model) == ("Hello!", f"resp_{META.id}", META.model)
    assert response.status == ("completed" if reason == "stop" else "incomplete")
    assert (response.metadata, response.previous_response_id, response.instructions) == ({"a": "b"}, "resp_before", "be\nbrief")


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
def test_failed_or_invalid_whole_response_is_an_error(body: bytes, error: type[UpstreamError]) -> None:
    with pytest.raises(error):
        DIALECT.edit_response(body, META)
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
        ({"type": "error", "code": "server_is_overloaded", "message": "later", "param": None}, Overloaded),
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
def test_engine_error_keeps_the_events_before_it(event: dict[str, Any], error: type[UpstreamError]) -> None:
    stream = encode_sse([CREATED, DELTA, event, COMPLETED])
    editor = DIALECT.stream_editor(META)
    before = [each["type"] for each in parse_events(editor.feed(stream))]
    assert (before[0], before[-1]) == ("response.created", "response.output_text.delta")
    assert type(editor.failure) is error
    with pytest.raises(error):
        editor.finish()
    events = iter(DIALECT.stream_reader().feed(stream))
    assert [type(next(events)) for _ in range(3)] == [ResponseStarted, PartStarted, PartDelta]
    with pytest.raises(error):
        next(events)


@pytest.mark.parametrize("rest", [[], [{"type": "response.output_text.delta", "delta": "more", "output_index": 0}]])
def test_stream_without_a_final_event_is_truncated(rest: list[dict[str, Any]]) -> None:
    stream = encode_sse([CREATED, DELTA, *rest]) + b"data: [DONE]\n\n"
    editor = DIALECT.stream_editor(META)
    editor.feed(stream)
    with pytest.raises(StreamTruncated):
        editor.finish()
    reader = DIALECT.stream_reader()
    list(reader.feed(stream))
    with pytest.raises(StreamTruncated):
        list(reader.finish())


def test_output_only_in_the_final_event_is_read() -> None:
    whole = json.loads(DIALECT.write_response(ChatResponse((Choice((Text("hi"),), "stop"),), "m", 1, Usage(1, 2, 0, 0, 0)), META))
    answer = read_stream(encode_sse([CREATED, {"type": "response.completed", "response": whole}]))
    assert answer.choices == (Choice((Text("hi"),), "stop"),)
    assert answer.usage == Usage(1, 2, 0, 0, 0)


def events_without_deltas(answer: ChatResponse) -> Iterator[dict[str, Any]]:
    for event in parse_events(write_stream(answer, META)):
        if not event["type"].endswith(".delta"):
            yield event


@bounded
@given(answered_responses)
def test_stream_without_deltas_is_read(answer: ChatResponse) -> None:
    assert read_stream(encode_sse(list(events_without_deltas(answer)))).choices == answer.choices


@pytest.mark.parametrize("index", [{"content_index": 300_000}, {"content_index": -1}, {"output_index": 300_000}, {"output_index": -1}])
def test_out_of_range_index_is_an_invalid_response(index: dict[str, int]) -> None:
    editor = DIALECT.stream_editor(META)
    begun = editor.feed(encode_sse([CREATED, DELTA]))
    assert editor.feed(encode_sse([{**DELTA, **index}, COMPLETED])) == b""
    assert isinstance(editor.failure, InvalidUpstreamResponse) and parse_events(begun)[-1]["type"] == "response.output_text.delta"


def test_skipped_content_parts_are_opened() -> None:
    editor = DIALECT.stream_editor(META)
    out = editor.feed(encode_sse([CREATED, {**DELTA, "output_index": 2, "content_index": 3}]))
    assert [event["content_index"] for event in parse_events(out) if event["type"] == "response.content_part.added"] == [0, 1, 2, 3]


@bounded
@given(answered_responses, st.booleans())
def test_completed_at_is_set_only_for_completed_responses(answer: ChatResponse, streamed: bool) -> None:
    response = parse_events(write_stream(answer, META))[-1]["response"] if streamed else json.loads(DIALECT.write_response(answer, META))
    assert response["completed_at"] == (response["created_at"] if response["status"] == "completed" else None)


def test_lone_surrogate_becomes_one_replacement_character() -> None:
    stream = (
        encode_sse([CREATED])
        + b'data: {"type":"response.output_text.delta","output_index":0,"delta":"\\ud83d!"}\n\n'
        + encode_sse([COMPLETED])
    )
    assert read_stream(stream).choices[0].parts == (Text("\ufffd!"),)
    editor = DIALECT.stream_editor(META)
    assert b"\\ufffd!" in editor.feed(stream)
    editor.finish()


def test_unknown_events_pass_through_and_are_not_read_as_content() -> None:
    unknown_event = {"type": "response.x_new", "delta": {"not": "text"}, "output_index": 0}
    stream = encode_sse([CREATED, unknown_event, DELTA, COMPLETED])
    assert read_stream(stream).choices[0].parts == (Text("x"),)
    editor = DIALECT.stream_editor(META)
    assert {**unknown_event, "sequence_number": 2} in parse_events(editor.feed(stream))


def test_error_frame_validates_against_the_official_sdk() -> None:
    (event,) = parse_events(DIALECT.write_error_frame(Unsupported("no", param="x")))
    assert ResponseErrorEvent.model_validate(event, strict=True).message == "no"
    assert (event["code"], event["param"]) == ("unsupported", "x")


def test_stream_without_a_final_event_has_no_final_response() -> None:
    assert final_response(DIALECT.write_error_frame(Unsupported("no"))) is None
    assert final_response(encode_sse([CREATED])) is None
