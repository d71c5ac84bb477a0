"""Anthropic Messages and the canonical model: what is written reads back unchanged, whole or streamed, and validates with the SDK."""

import json
from typing import Any

import pytest
from anthropic.types import Message as SDKMessage
from anthropic.types import RawMessageStreamEvent
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from pydantic import TypeAdapter

from providers.canonical.chat import (
    ChatRequest,
    ChatResponse,
    Choice,
    HostTool,
    Opaque,
    OpaqueState,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    Usage,
)
from providers.canonical.events import (
    ChoiceFinished,
    Event,
    Logprobs,
    PartDelta,
    PartFinished,
    PartStarted,
    ResponseStarted,
    UsageReported,
    assemble_response,
    response_events,
)
from providers.canonical.raw_json import Body
from providers.dialects.anthropic_messages import AnthropicMessages
from providers.drop_policy import DropPolicy
from tests.support.processes.cpu_time import cpu_time_growth
from tests.support.strategies.anthropic_strategies import chat_responses, parse_sse_events, raw_json, requests
from tests.support.strategies.chat_strategies import META, bounded, byte_splits

DIALECT = AnthropicMessages()
SDK_EVENTS: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)


def write_stream(events: list[Event]) -> bytes:
    writer = DIALECT.stream_writer(META)
    return b"".join([writer.feed(event) for event in events]) + writer.finish()


def read_stream(blocks: list[bytes]) -> list[Event]:
    reader = DIALECT.stream_reader()
    return [event for block in blocks for event in reader.feed(block)] + list(reader.finish())


def write_request(chat: ChatRequest) -> Body:
    """The request as an engine receives it; no field may be dropped."""
    drop_policy = DropPolicy(lambda _: False, DIALECT.field_names, "a host")
    body = DIALECT.write_request(chat, drop_policy)
    assert drop_policy.dropped == []
    return Body.read(body.write())


@bounded
@given(requests())
def test_anthropic_request_round_trips_through_the_canonical_chat(chat: ChatRequest) -> None:
    read = DIALECT.read_request(write_request(chat))
    # A web search beside functions is an offer, unless the choice names it.
    assert replace(read, tools=tuple(replace(each, optional=False) if isinstance(each, HostTool) else each for each in read.tools)) == chat


@bounded
@given(requests())
def test_written_request_is_a_valid_anthropic_request(chat: ChatRequest) -> None:
    unique = {getattr(tool, "name", "web_search"): tool for tool in chat.tools}
    tools = tuple(tool for tool in unique.values())
    budget = None if chat.thinking is None else chat.thinking.budget_tokens
    body = write_request(replace(chat, tools=tools, max_tokens=max(chat.max_tokens or 0, (budget or 0) + 1)))
    schema_free = {key: value for key, value in body.items() if key != "tools"}
    request = DIALECT.parse_request(Body(schema_free).write())
    assert (request.model, request.dialect) == (chat.model, chat.origin)


@bounded
@given(chat_responses())
def test_whole_response_round_trips(answer: ChatResponse) -> None:
    assert DIALECT.read_response(DIALECT.write_response(answer, META)) == answer


@bounded
@given(chat_responses(), st.data())
def test_stream_round_trips_however_it_is_split(answer: ChatResponse, data: st.DataObject) -> None:
    events = split_deltas(list(response_events(answer)), data)
    assert assemble_response(read_stream(data.draw(byte_splits(write_stream(events))))) == assemble_response(events) == answer


def split_deltas(events: list[Event], data: st.DataObject) -> list[Event]:
    """The same response with its texts in several deltas."""
    out: list[Event] = []
    for event in events:
        if isinstance(event, PartDelta):
            at = data.draw(st.integers(0, len(event.text)))
            out += [replace(event, text=text) for text in (event.text[:at], event.text[at:]) if text]
        else:
            out.append(event)
    return out


@bounded
@given(chat_responses(), st.data())
def test_interleaved_parts_are_streamed_one_after_another(answer: ChatResponse, data: st.DataObject) -> None:
    head, *rest = split_deltas(list(response_events(answer)), data)
    queues: dict[int, list[Event]] = {}
    final_events: list[Event] = []
    for event in rest:
        if isinstance(event, PartStarted | PartDelta | PartFinished):
            queues.setdefault(event.index, []).append(event)
        else:
            final_events.append(event)
    mixed: list[Event] = [head, *[queue.pop(0) for queue in queues.values()]]
    while queues := {index: queue for index, queue in queues.items() if queue}:
        mixed.append(queues[data.draw(st.sampled_from(sorted(queues)))].pop(0))
    events = parse_sse_events(write_stream(mixed + final_events))
    assert assemble_response(read_stream([write_stream(mixed + final_events)])) == answer
    indexes = [event["index"] for event in events if "index" in event]
    assert indexes == sorted(indexes)


@bounded
@given(chat_responses())
def test_written_responses_and_events_validate_with_the_official_sdk(answer: ChatResponse) -> None:
    """Blocks that only the SDK's beta knows and those invented here are left out: it has no types for them."""
    choice = answer.choices[0]
    sdk_answer = replace(answer, choices=(replace(choice, parts=tuple(part for part in choice.parts if not isinstance(part, Opaque))),))
    sdk_answer = without_page_citations(sdk_answer)
    message = SDKMessage.model_validate_json(DIALECT.write_response(sdk_answer, META))
    assert (message.id, message.model) == ("msg_" + META.id, META.model)
    events = [SDK_EVENTS.validate_python(event) for event in parse_sse_events(write_stream(list(response_events(sdk_answer))))]
    assert [events[0].type, events[-2].type, events[-1].type] == ["message_start", "message_delta", "message_stop"]
    assert events[-2].usage.output_tokens == message.usage.output_tokens
    assert events[-2].delta.stop_reason == message.stop_reason


def without_page_citations(answer: ChatResponse) -> ChatResponse:
    """The page citations generated here lack fields that the SDK requires."""
    choice = answer.choices[0]
    parts = [
        replace(part, citations=tuple(each for each in part.citations if each.origin != "anthropic_messages"))
        if isinstance(part, Text)
        else part
        for part in choice.parts
    ]
    return replace(answer, choices=(replace(choice, parts=tuple(parts)),))


@bounded
@given(chat_responses())
def test_message_delta_and_stop_are_withheld_until_finish(answer: ChatResponse) -> None:
    writer = DIALECT.stream_writer(META)
    before = b"".join([writer.feed(event) for event in response_events(answer)])
    assert not any(event["type"] in ("message_delta", "message_stop") for event in parse_sse_events(before))
    assert [event["type"] for event in parse_sse_events(writer.finish())] == ["message_delta", "message_stop"]


@bounded
@given(chat_responses())
def test_blocks_of_other_providers_round_trip_through_the_next_request(answer: ChatResponse) -> None:
    """A caller sends the response's blocks back as they came, and they read as the same parts."""
    blocks = json.loads(DIALECT.write_response(answer, META))["content"]
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": blocks}]}
    read_back = DIALECT.read_request(DIALECT.parse_request(json.dumps(body, ensure_ascii=False).encode()).body).messages[1].parts
    assert [comparable(part) for part in read_back] == [comparable(part) for part in answer.choices[0].parts]


def comparable(part: Any) -> Any:
    """Returns what is compared of a part, its raw JSON by value and not by its bytes."""
    match part:
        case Opaque():
            return part.origin, json.loads(bytes(part.raw))
        case Text():
            return part.text, [(each.origin, json.loads(bytes(each.raw)), each.url, each.start) for each in part.citations]
        case ToolCall():
            return part.id, part.name, json.loads(part.arguments), part.opaque_state
        case _:
            return part


def response_with(*parts: Any, reason: str = "stop", **more: Any) -> ChatResponse:
    return ChatResponse((Choice(parts, reason, **more),), "m")


@pytest.mark.parametrize(
    ("answer", "stop_reason"),
    [
        (response_with(Text("Hi")), "end_turn"),
        (response_with(ToolCall("c", "f", "{}")), "tool_use"),
        (response_with(ToolCall("c", "f", "{}"), reason="tool_calls"), "tool_use"),
        (response_with(ToolCall("c", "f", "{"), reason="length"), "max_tokens"),
        (response_with(Refusal("No."), reason="stop"), "refusal"),
        (response_with(Text(""), reason="content_filter"), "refusal"),
        (response_with(Text("Hi"), stop_sequence="END"), "stop_sequence"),
        (response_with(Text("Hi"), upstream_finish_reason="pause_turn"), "pause_turn"),
        (response_with(Text("Hi"), upstream_finish_reason="eos"), "end_turn"),
        (response_with(Text("Hi"), reason="function_call"), "tool_use"),
        (response_with(Text("Hi"), reason="something new"), "end_turn"),
    ],
)
def test_finish_reason_is_written_as_anthropic_stop_reason(answer: ChatResponse, stop_reason: str) -> None:
    assert json.loads(DIALECT.write_response(answer, META))["stop_reason"] == stop_reason
    delta = parse_sse_events(write_stream(list(response_events(answer))))[-2]["delta"]
    assert delta["stop_reason"] == stop_reason


@pytest.mark.parametrize(
    ("arguments", "input"),
    [
        ("", {}),
        (" ", {}),
        ('{"a": 1}', {"a": 1}),
        ("[1]", {"_unparsed": "[1]"}),
        ("Infinity", {"_unparsed": "Infinity"}),
        ('"', {"_unparsed": '"'}),
    ],
)
def test_non_object_arguments_are_written_as_unparsed_and_read_back(arguments: str, input: Any) -> None:
    answer = response_with(ToolCall("c", "f", arguments), reason="tool_calls")
    whole = json.loads(DIALECT.write_response(answer, META))["content"][0]
    assert whole["input"] == input
    events = parse_sse_events(write_stream(list(response_events(answer))))
    pieces = "".join(event["delta"]["partial_json"] for event in events if event["type"] == "content_block_delta")
    assert json.loads(pieces or "{}") == input
    for back in (
        DIALECT.read_response(DIALECT.write_response(answer, META)),
        assemble_response(read_stream([write_stream(list(response_events(answer)))])),
    ):
        call = back.choices[0].parts[0]
        assert isinstance(call, ToolCall)
        assert call.arguments == (arguments.strip() or "{}")


def test_truncated_arguments_are_streamed_unchanged() -> None:
    """Anthropic does so where a response hits max_tokens: what has been sent cannot be taken back."""
    events = parse_sse_events(write_stream(list(response_events(response_with(ToolCall("c", "f", '{"a": '), reason="length")))))
    assert [event["delta"]["partial_json"] for event in events if event["type"] == "content_block_delta"] == ['{"a": ']


def test_usage_known_before_the_first_part_is_in_message_start() -> None:
    events: list[Event] = [
        ResponseStarted("m"),
        UsageReported(Usage(9, 1, cached=4)),
        PartStarted(0, 0, Text("")),
        PartFinished(0, 0),
        ChoiceFinished(0, "stop"),
    ]
    start, *_, end, _ = parse_sse_events(write_stream([*events, UsageReported(Usage(9, 7, cached=4))]))
    assert start["message"]["usage"] == {"input_tokens": 5, "output_tokens": 1, "cache_read_input_tokens": 4}
    assert end["usage"] == {"input_tokens": 5, "output_tokens": 7, "cache_read_input_tokens": 4}


def test_only_the_first_choice_is_written_and_logprobs_are_not() -> None:
    first: list[Event] = [
        ResponseStarted("m"),
        PartStarted(0, 0, Text("")),
        PartDelta(0, 0, "Hi"),
        PartFinished(0, 0),
        ChoiceFinished(0, "stop"),
    ]
    second: list[Event] = [
        PartStarted(1, 0, Text("")),
        PartDelta(1, 0, "Ho"),
        Logprobs(0, (raw_json({}),)),
        PartFinished(1, 0),
        ChoiceFinished(1, "length"),
    ]
    assert write_stream([*first, *second]) == write_stream(first)


def test_foreign_opaque_reasoning_without_text_is_written_as_redacted_thinking() -> None:
    answer = response_with(Reasoning("", OpaqueState("openai_responses", "gAAA")), Reasoning("hm"))
    kinds = [block["type"] for block in json.loads(DIALECT.write_response(answer, META))["content"]]
    streamed = [
        event["content_block"]["type"]
        for event in parse_sse_events(write_stream(list(response_events(answer))))
        if event["type"] == "content_block_start"
    ]
    assert kinds == streamed == ["redacted_thinking", "thinking"]


# Sixteen times the input: sixteen times the time if it is linear, 256 times if it is quadratic.
LINEAR_GROWTH_LIMIT = 100


@pytest.mark.parametrize("piece", [" " * 99, "x" * 99, '{"a": ' * 20])
def test_buffering_long_tool_calls_takes_linear_time(piece: str) -> None:
    """Calls are buffered beside another open part, and where the arguments may turn out not to be an object."""

    def buffer(pieces: int) -> None:
        events: list[Event] = [
            ResponseStarted("m"),
            PartStarted(0, 0, Text("")),
            PartStarted(0, 1, ToolCall("c", "f", "")),
            PartStarted(0, 2, ToolCall("d", "f", "")),
        ]
        events += [PartDelta(0, at, piece) for _ in range(pieces) for at in (1, 2)]
        writer = DIALECT.stream_writer(META)
        out = b"".join([writer.feed(event) for event in [*events, PartFinished(0, 0), PartFinished(0, 1)]])
        out += b"".join([writer.feed(PartDelta(0, 2, piece)) for _ in range(pieces)]) + writer.feed(PartFinished(0, 2)) + writer.finish()
        assert out.count(b"content_block_stop\n") == 3

    assert cpu_time_growth(buffer, 2_500, 40_000) < LINEAR_GROWTH_LIMIT


def test_buffering_many_open_parts_takes_linear_time() -> None:
    def buffer(count: int) -> None:
        opened: list[Event] = [PartStarted(0, at, Text(str(at))) for at in range(count)]
        events = parse_sse_events(write_stream([ResponseStarted("m"), *opened, *[PartFinished(0, at) for at in range(count)]]))
        texts = [event["delta"]["text"] for event in events if event["type"] == "content_block_delta"]
        assert texts == [str(at) for at in range(count)]

    assert cpu_time_growth(buffer, 625, 10_000) < LINEAR_GROWTH_LIMIT
