"""Laws of Anthropic's Messages as meaning: what is written is read back the same, whole or streamed, and is what its SDK knows."""

import json
import time
from typing import Any

import pytest
from anthropic.types import Message as SDKMessage
from anthropic.types import RawMessageStreamEvent
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from pydantic import TypeAdapter

from providers.canonical.chat import ChatRequest, ChatResponse, Choice, Opaque, OpaqueState, Reasoning, Refusal, Text, ToolCall, Usage
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
from providers.dialect import DropPolicy
from providers.dialects.anthropic_messages import AnthropicMessages
from tests.laws.anthropics import answers, raw, requests, told
from tests.laws.chats import STAMP, bounded, cuts

DIALECT = AnthropicMessages()
EVENTS: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)


def written(events: list[Event]) -> bytes:
    writer = DIALECT.stream_writer(STAMP)
    return b"".join([writer.feed(event) for event in events]) + writer.finish()


def read(blocks: list[bytes]) -> list[Event]:
    reader = DIALECT.stream_reader()
    return [event for block in blocks for event in reader.feed(block)] + list(reader.finish())


def asked(chat: ChatRequest) -> Body:
    """The request as an engine gets it; nothing may be let go."""
    concessions = DropPolicy(lambda _: False, DIALECT.field_names, "a host")
    body = DIALECT.write_request(chat, concessions)
    assert concessions.dropped == []
    return Body.read(body.write())


@bounded
@given(requests())
def test_anthropic_can_repeat_what_it_can_say(chat: ChatRequest) -> None:
    assert DIALECT.read_request(asked(chat)) == chat


@bounded
@given(requests())
def test_what_is_written_is_an_ask(chat: ChatRequest) -> None:
    unique = {getattr(tool, "name", "web_search"): tool for tool in chat.tools}
    tools = tuple(tool for tool in unique.values())
    budget = None if chat.thinking is None else chat.thinking.budget_tokens
    sent = asked(replace(chat, tools=tools, max_tokens=max(chat.max_tokens or 0, (budget or 0) + 1)))
    schema_free = {key: value for key, value in sent.items() if key != "tools"}
    ask = DIALECT.parse_request(Body(schema_free).write())
    assert (ask.model, ask.dialect) == (chat.model, chat.origin)


@bounded
@given(answers())
def test_a_whole_answer_is_read_as_it_was_written(answer: ChatResponse) -> None:
    assert DIALECT.read_response(DIALECT.write_response(answer, STAMP)) == answer


@bounded
@given(answers(), st.data())
def test_a_stream_is_read_as_it_was_written(answer: ChatResponse, data: st.DataObject) -> None:
    events = split(list(response_events(answer)), data)
    assert assemble_response(read(data.draw(cuts(written(events))))) == assemble_response(events) == answer


def split(events: list[Event], data: st.DataObject) -> list[Event]:
    """The same answer, its texts in more than one piece."""
    out: list[Event] = []
    for event in events:
        if isinstance(event, PartDelta):
            at = data.draw(st.integers(0, len(event.text)))
            out += [replace(event, text=text) for text in (event.text[:at], event.text[at:]) if text]
        else:
            out.append(event)
    return out


@bounded
@given(answers(), st.data())
def test_parts_that_grow_beside_each_other_are_told_one_after_another(answer: ChatResponse, data: st.DataObject) -> None:
    head, *rest = split(list(response_events(answer)), data)
    queues: dict[int, list[Event]] = {}
    last: list[Event] = []
    for event in rest:
        queues.setdefault(event.index, []).append(event) if isinstance(event, PartStarted | PartDelta | PartFinished) else last.append(
            event
        )
    mixed: list[Event] = [head, *[queue.pop(0) for queue in queues.values()]]
    while queues := {index: queue for index, queue in queues.items() if queue}:
        mixed.append(queues[data.draw(st.sampled_from(sorted(queues)))].pop(0))
    events = told(written(mixed + last))
    assert assemble_response(read([written(mixed + last)])) == answer
    indexes = [event["index"] for event in events if "index" in event]
    assert indexes == sorted(indexes)


@bounded
@given(answers())
def test_what_is_written_is_what_the_official_sdk_knows(answer: ChatResponse) -> None:
    """Its types, checked strictly; of blocks that only its beta knows, and those that are made up here, it has none."""
    choice = answer.choices[0]
    known = replace(answer, choices=(replace(choice, parts=tuple(part for part in choice.parts if not isinstance(part, Opaque))),))
    known = without_pages(known)
    message = SDKMessage.model_validate_json(DIALECT.write_response(known, STAMP))
    assert (message.id, message.model) == ("msg_" + STAMP.id, STAMP.model)
    events = [EVENTS.validate_python(event) for event in told(written(list(response_events(known))))]
    assert [events[0].type, events[-2].type, events[-1].type] == ["message_start", "message_delta", "message_stop"]
    assert events[-2].usage.output_tokens == message.usage.output_tokens
    assert events[-2].delta.stop_reason == message.stop_reason


def without_pages(answer: ChatResponse) -> ChatResponse:
    """The citations of a document here lack fields that the SDK's have."""
    choice = answer.choices[0]
    parts = [
        replace(part, citations=tuple(each for each in part.citations if each.origin != "anthropic_messages"))
        if isinstance(part, Text)
        else part
        for part in choice.parts
    ]
    return replace(answer, choices=(replace(choice, parts=tuple(parts)),))


@bounded
@given(answers())
def test_the_end_is_withheld_until_it_is_asked_for(answer: ChatResponse) -> None:
    writer = DIALECT.stream_writer(STAMP)
    before = b"".join([writer.feed(event) for event in response_events(answer)])
    assert not any(event["type"] in ("message_delta", "message_stop") for event in told(before))
    assert [event["type"] for event in told(writer.finish())] == ["message_delta", "message_stop"]


@bounded
@given(answers())
def test_what_others_minted_comes_back_in_the_next_ask(answer: ChatResponse) -> None:
    """A caller sends the answer's blocks back as they came, and their parts are read as they were."""
    blocks = json.loads(DIALECT.write_response(answer, STAMP))["content"]
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": blocks}]}
    back = DIALECT.read_request(DIALECT.parse_request(json.dumps(body, ensure_ascii=False).encode()).body).messages[1].parts
    assert [comparable(part) for part in back] == [comparable(part) for part in answer.choices[0].parts]


def comparable(part: Any) -> Any:
    """Raw JSON by what it says, not by its bytes."""
    match part:
        case Opaque():
            return part.origin, json.loads(bytes(part.raw))
        case Text():
            return part.text, [(each.origin, json.loads(bytes(each.raw)), each.url, each.start) for each in part.citations]
        case ToolCall():
            return part.id, part.name, json.loads(part.arguments), part.opaque_state
        case _:
            return part


def one(*parts: Any, reason: str = "stop", **more: Any) -> ChatResponse:
    return ChatResponse((Choice(parts, reason, **more),), "m")


@pytest.mark.parametrize(
    ("answer", "stop_reason"),
    [
        (one(Text("Hi")), "end_turn"),
        (one(ToolCall("c", "f", "{}")), "tool_use"),
        (one(ToolCall("c", "f", "{}"), reason="tool_calls"), "tool_use"),
        (one(ToolCall("c", "f", "{"), reason="length"), "max_tokens"),
        (one(Refusal("No."), reason="stop"), "refusal"),
        (one(Text(""), reason="content_filter"), "refusal"),
        (one(Text("Hi"), stop_sequence="END"), "stop_sequence"),
        (one(Text("Hi"), upstream_finish_reason="pause_turn"), "pause_turn"),
        (one(Text("Hi"), upstream_finish_reason="eos"), "end_turn"),
        (one(Text("Hi"), reason="function_call"), "tool_use"),
        (one(Text("Hi"), reason="something new"), "end_turn"),
    ],
)
def test_why_it_ended_is_told_in_anthropics_words(answer: ChatResponse, stop_reason: str) -> None:
    assert json.loads(DIALECT.write_response(answer, STAMP))["stop_reason"] == stop_reason
    delta = told(written(list(response_events(answer))))[-2]["delta"]
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
def test_arguments_that_are_no_object_are_told_as_they_are_and_come_back(arguments: str, input: Any) -> None:
    answer = one(ToolCall("c", "f", arguments), reason="tool_calls")
    whole = json.loads(DIALECT.write_response(answer, STAMP))["content"][0]
    assert whole["input"] == input
    events = told(written(list(response_events(answer))))
    pieces = "".join(event["delta"]["partial_json"] for event in events if event["type"] == "content_block_delta")
    assert json.loads(pieces or "{}") == input
    for back in (
        DIALECT.read_response(DIALECT.write_response(answer, STAMP)),
        assemble_response(read([written(list(response_events(answer)))])),
    ):
        call = back.choices[0].parts[0]
        assert isinstance(call, ToolCall)
        assert call.arguments == (arguments.strip() or "{}")


def test_half_an_object_is_streamed_as_it_was_written() -> None:
    """As Anthropic does where an answer hits max_tokens: what has gone out cannot be taken back."""
    events = told(written(list(response_events(one(ToolCall("c", "f", '{"a": '), reason="length")))))
    assert [event["delta"]["partial_json"] for event in events if event["type"] == "content_block_delta"] == ['{"a": ']


def test_tokens_counted_before_the_first_part_are_told_at_the_start() -> None:
    events: list[Event] = [
        ResponseStarted("m"),
        UsageReported(Usage(9, 1, cached=4)),
        PartStarted(0, 0, Text("")),
        PartFinished(0, 0),
        ChoiceFinished(0, "stop"),
    ]
    start, *_, end, _ = told(written([*events, UsageReported(Usage(9, 7, cached=4))]))
    assert start["message"]["usage"] == {"input_tokens": 5, "output_tokens": 1, "cache_read_input_tokens": 4}
    assert end["usage"] == {"input_tokens": 5, "output_tokens": 7, "cache_read_input_tokens": 4}


def test_other_choices_and_logprobs_are_not_told() -> None:
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
        Logprobs(0, (raw({}),)),
        PartFinished(1, 0),
        ChoiceFinished(1, "length"),
    ]
    assert written([*first, *second]) == written(first)


def test_reasoning_that_is_only_a_seal_of_others_is_told_as_redacted() -> None:
    answer = one(Reasoning("", OpaqueState("openai_responses", "gAAA")), Reasoning("hm"))
    kinds = [block["type"] for block in json.loads(DIALECT.write_response(answer, STAMP))["content"]]
    streamed = [
        event["content_block"]["type"] for event in told(written(list(response_events(answer)))) if event["type"] == "content_block_start"
    ]
    assert kinds == streamed == ["redacted_thinking", "thinking"]


@pytest.mark.parametrize("piece", [" " * 99, "x" * 99, '{"a": ' * 20])
def test_calls_that_wait_are_gathered_in_no_time(piece: str) -> None:
    """Beside another part, and where what comes is not known to be an object."""
    pieces = 40_000
    events: list[Event] = [
        ResponseStarted("m"),
        PartStarted(0, 0, Text("")),
        PartStarted(0, 1, ToolCall("c", "f", "")),
        PartStarted(0, 2, ToolCall("d", "f", "")),
    ]
    events += [PartDelta(0, at, piece) for _ in range(pieces) for at in (1, 2)]
    begun = time.process_time()
    writer = DIALECT.stream_writer(STAMP)
    out = b"".join([writer.feed(event) for event in [*events, PartFinished(0, 0), PartFinished(0, 1)]])
    out += b"".join([writer.feed(PartDelta(0, 2, piece)) for _ in range(pieces)]) + writer.feed(PartFinished(0, 2)) + writer.finish()
    assert time.process_time() - begun < 1
    assert out.count(b"content_block_stop\n") == 3


def test_parts_without_number_that_wait_are_told_in_no_time() -> None:
    count = 20_000
    opened: list[Event] = [PartStarted(0, at, Text(str(at))) for at in range(count)]
    begun = time.process_time()
    events = told(written([ResponseStarted("m"), *opened, *[PartFinished(0, at) for at in range(count)]]))
    assert time.process_time() - begun < 4
    texts = [event["delta"]["text"] for event in events if event["type"] == "content_block_delta"]
    assert texts == [str(at) for at in range(count)]
