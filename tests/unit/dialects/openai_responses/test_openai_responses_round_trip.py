"""Responses round trips: requests, whole responses, streams, and the opaque state that it carries for other dialects."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace
from openai.types.responses import Response

from providers.canonical.chat import (
    ChatRequest,
    ChatResponse,
    Choice,
    HostTool,
    Inline,
    Message,
    Opaque,
    OpaqueState,
    Part,
    Reasoning,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Uploaded,
)
from providers.canonical.chat import Image as ImagePart
from providers.canonical.errors import Unsupported
from providers.canonical.events import Event, PartDelta, PartFinished, PartStarted, assemble_response, response_events
from providers.canonical.output_format import JsonSchema, Regex
from providers.canonical.raw_json import Body
from providers.dialect import ResponseMeta
from providers.dialects.openai_responses import OpenAIResponses, final_response, output_items, prepend_items
from providers.drop_policy import DropPolicy
from tests.support.strategies.chat_strategies import META, bounded
from tests.support.strategies.openai_responses_strategies import ORIGIN, chat_responses, raw_json, requests, with_tool_uses

DIALECT = OpenAIResponses()
SUMMARY_META = replace(META, request_body={"reasoning": Raw(b'{"summary":\n"auto"}')})


def make_drop_policy(*, dropping: bool = False) -> DropPolicy:
    return DropPolicy(lambda _: dropping, DIALECT.field_names, "a target")


def read_stream(answer: bytes) -> ChatResponse:
    reader = DIALECT.stream_reader()
    return assemble_response([*reader.feed(answer), *reader.finish()])


def write_stream(events: Sequence[Event], meta: ResponseMeta) -> bytes:
    writer = DIALECT.stream_writer(meta)
    return b"".join([writer.feed(event) for event in events]) + writer.finish()


@bounded
@given(requests)
def test_request_round_trips_through_openai_responses(chat: ChatRequest) -> None:
    raw = DIALECT.write_request(chat, make_drop_policy()).write()
    request = DIALECT.parse_request(raw)
    assert (request.model, request.stores_response, request.stream, request.output_tokens) == (chat.model, False, False, chat.max_tokens)
    assert DIALECT.read_request(Body.read(raw)) == chat  # parsing puts calls and their results in order: test_put_calls_in_order.py


@bounded
@given(requests)
def test_unsupported_fields_of_another_dialect_are_refused_or_reported(chat: ChatRequest) -> None:
    drop_policy = make_drop_policy(dropping=True)
    body = DIALECT.write_request(replace(chat, origin="openai_chat"), drop_policy)
    DIALECT.parse_request(body.write())
    left_out = {key for key, value in chat.extra.items() if value != Raw(b'""')}
    assert set(drop_policy.dropped) >= left_out
    demands = left_out - {"truncation", "max_tool_calls", "reasoning.context"}  # hints, which are reported without permission
    assert ("top_k" in drop_policy.dropped) == (chat.top_k is not None)
    if demands or chat.top_k is not None:
        with pytest.raises(Unsupported):
            DIALECT.write_request(replace(chat, origin="openai_chat"), make_drop_policy())


@bounded
@given(chat_responses)
def test_response_round_trips_and_validates_against_the_official_sdk(answer: ChatResponse) -> None:
    response_body = DIALECT.write_response(answer, META)
    assert DIALECT.read_response(response_body) == with_tool_uses(answer)
    Response.model_validate_json(response_body, strict=True)


@bounded
@given(chat_responses, st.sampled_from([META, SUMMARY_META]))
def test_stream_and_whole_response_agree(answer: ChatResponse, meta: ResponseMeta) -> None:
    out = write_stream(list(response_events(answer)), meta)
    assert read_stream(out) == with_tool_uses(answer)
    final = final_response(out)
    assert final is not None
    assert msgspec.json.decode(final) == msgspec.json.decode(DIALECT.write_response(answer, meta))


@bounded
@given(chat_responses, st.data())
def test_interleaved_events_read_back_as_the_same_response(answer: ChatResponse, data: st.DataObject) -> None:
    events = interleave_events(list(response_events(answer)), data)
    assert assemble_response(events) == answer
    assert read_stream(write_stream(events, META)) == with_tool_uses(answer)


def interleave_events(events: list[Event], data: st.DataObject) -> list[Event]:
    """Deltas come in pieces, and those of a text or a call may come after other parts have started."""
    out: list[Event] = []
    waiting: list[Event] = []
    thinks = False
    for event in events:
        match event:
            case PartDelta(text=text):
                cut = data.draw(st.integers(0, len(text)))
                waiting += [replace(event, text=text[:cut]), replace(event, text=text[cut:])]
            case PartFinished():
                waiting.append(event)
            case _:
                released = data.draw(st.integers(0, len(waiting))) if isinstance(event, PartStarted) and not thinks else len(waiting)
                out += [*waiting[:released], event]
                waiting = waiting[released:]
                thinks = isinstance(event, PartStarted) and isinstance(event.part, Reasoning)
    return out


FOREIGN_PARTS: list[tuple[Part, ...]] = [
    (Reasoning("a thought", OpaqueState("anthropic_messages", "c2lnbmVk")), Text("hello")),
    (Opaque("anthropic_messages", raw_json({"type": "redacted_thinking", "data": "xyz"})), Text("hello")),
    (ToolCall("call_1", "f", "{}", opaque_state=OpaqueState("gemini", "sig")), ToolCall("call_2", "g", "{}")),
    (Reasoning("unsealed"), Text("a"), ToolCall("call_1", "f", "{}", opaque_state=OpaqueState("gemini", "one"))),
    (Reasoning("", OpaqueState("anthropic_messages", "only sealed")), ToolCall("call_1", "f", "free text", custom=True)),
]


@pytest.mark.parametrize("parts", FOREIGN_PARTS)
def test_signatures_of_other_dialects_survive_a_client_round_trip(parts: tuple[Part, ...]) -> None:
    """A signature goes through a client, which sends the items back as they are, into the next request."""
    answer = ChatResponse((Choice(parts, "stop"),), "m")
    response_body = DIALECT.write_response(answer, META)
    Response.model_validate_json(response_body, strict=True)
    streamed = final_response(write_stream(list(response_events(answer)), META))
    assert streamed is not None and output_items(streamed) == output_items(response_body)
    body = Body.read(b'{"model": "m", "input": "go on"}')
    prepend_items(body, output_items(response_body))
    assert DIALECT.read_request(body).messages == (Message("assistant", parts), Message("user", (Text("go on"),)))
    assert b'"encrypted_content":"nx1.' not in streamed or response_body.count(b"nx1.") == streamed.rpartition(b"event: ")[2].count(b"nx1.")


def test_signatures_of_other_dialects_are_not_sent_upstream() -> None:
    parts = (
        Reasoning("a thought", OpaqueState("anthropic_messages", "x")),
        Text("hello"),
        ToolCall("c", "f", "{}", opaque_state=OpaqueState("gemini", "y")),
    )
    drop_policy = make_drop_policy()
    body = DIALECT.write_request(ChatRequest(ORIGIN, "m", (Message("assistant", parts),)), drop_policy)
    assert drop_policy.dropped == ["reasoning.encrypted_content"]
    assert b"anthropic" not in body.write() and b"nx1." not in body.write()
    assert [item["type"] for item in msgspec.json.decode(body.write())["input"]] == ["reasoning", "message", "function_call"]
    foreign_policy = make_drop_policy()
    DIALECT.write_request(ChatRequest("anthropic_messages", "m", (Message("assistant", parts),)), foreign_policy)
    assert foreign_policy.dropped == ["reasoning.encrypted_content", "reasoning"]


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"stop": ("x",)}, "stop"),
        ({"n": 2}, "n"),
        ({"top_k": 1}, "top_k"),
        ({"frequency_penalty": 0.5}, "frequency_penalty"),
        ({"logit_bias": Raw(b'{"7": 1}')}, "logit_bias"),
        ({"output": Regex("a+")}, "output"),
        ({"prompt": "once"}, "prompt"),
        ({"messages": (Message("user", (ImagePart(Inline("image/png", "iVBORw==")),), name="bob"),)}, "messages[0].name"),
        ({"messages": (Message("user", (Text("a", extra={"x_new": Raw(b"1")}),)),)}, "messages[0].content[0].x_new"),
        ({"messages": (Message("user", (ImagePart(Uploaded("anthropic_messages", "f")),)),)}, "messages[0].content[0]"),
        ({"extra": {"min_p": Raw(b"1")}}, "min_p"),
    ],
)
def test_unsupported_request_field_is_refused_by_path(more: dict[str, object], param: str) -> None:
    chat = msgspec.structs.replace(ChatRequest("openai_chat", "m", (Message("user", (Text("a"),)),)), **more)
    with pytest.raises(Unsupported) as refused:
        DIALECT.write_request(chat, DropPolicy(lambda _: False, {}, "a target"))
    assert refused.value.param == param


@pytest.mark.parametrize("choice", [ToolChoice("required"), ToolChoice("named", "f")])
def test_forced_tool_choice_without_a_usable_tool_is_refused(choice: ToolChoice) -> None:
    search = HostTool("anthropic_messages", "web_search_20250305", raw_json({"type": "web_search_20250305"}))
    for tools in ((), (search,)):
        chat = ChatRequest("anthropic_messages", "m", (Message("user", (Text("a"),)),), tools=tools, tool_choice=choice)
        drop_policy = DropPolicy(lambda field: field.startswith("tools"), {}, "a target")
        with pytest.raises(Unsupported) as refused:
            DIALECT.write_request(chat, drop_policy)
        assert refused.value.param == "tool_choice"
        assert "tool_choice" not in DIALECT.write_request(chat, make_drop_policy(dropping=True))


def test_adaptive_thinking_without_effort_is_dropped_and_reported() -> None:
    drop_policy = make_drop_policy()
    chat = ChatRequest("anthropic_messages", "m", (Message("user", (Text("a"),)),), thinking=Thinking(adaptive=True))
    assert "reasoning" not in DIALECT.write_request(chat, drop_policy)
    assert drop_policy.dropped == ["reasoning"]
    drop_policy = make_drop_policy()
    DIALECT.write_request(replace(chat, thinking=Thinking("low", adaptive=True)), drop_policy)
    assert drop_policy.dropped == []


def test_neutral_values_are_left_out_and_not_reported() -> None:
    chat = ChatRequest("openai_chat", "m", (Message("user", (Text("a"),)),), n=1, frequency_penalty=0, presence_penalty=0.0, logprobs=False)
    drop_policy = make_drop_policy()
    body = DIALECT.write_request(chat, drop_policy)
    assert drop_policy.dropped == []
    assert set(body) == {"model", "input", "store", "include"}


def test_encrypted_reasoning_is_sent_back_without_an_id() -> None:
    """OpenAI refuses encrypted reasoning under any id but the original one, which only its own callers know."""
    thought = Message("assistant", (Reasoning("in short", OpaqueState(ORIGIN, "sealed")), Text("hi")))
    chat = ChatRequest("openai_chat", "m", (thought,), extra={"prompt_cache_retention": raw_json("24h")})
    body = msgspec.json.decode(DIALECT.write_request(chat, make_drop_policy()).write())
    assert body["input"][0] == {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "in short"}],
        "encrypted_content": "sealed",
    }
    assert body["prompt_cache_retention"] == "24h"


def test_tool_call_without_an_id_gets_one() -> None:
    answer = DIALECT.read_response(b'{"output": [{"type": "function_call", "name": "f", "arguments": "{}"}]}')
    (call,) = answer.choices[0].parts
    assert isinstance(call, ToolCall) and call.id.startswith("call_") and len(call.id) == 29
    assert answer.choices[0].finish_reason == "tool_calls"


def test_anthropic_request_is_written_stateless_with_non_strict_tools() -> None:
    tool = Tool("f", parameters=None)
    chat = ChatRequest(
        "anthropic_messages",
        "m",
        (
            Message("system", (Text("be brief"),)),
            Message(
                "user",
                (ToolResult("c", (Text("ok"),), is_error=True), Text("and now?", extra={"cache_control": Raw(b'{"type":"ephemeral"}')})),
            ),
        ),
        tools=(tool,),
        output=JsonSchema(Raw(b"{}")),
        thinking=Thinking(budget_tokens=5000),
    )
    drop_policy = make_drop_policy()
    body = msgspec.json.decode(DIALECT.write_request(chat, drop_policy).write())
    assert body == {
        "model": "m",
        "instructions": "be brief",
        "input": [
            {"type": "function_call_output", "call_id": "c", "output": "ok"},
            {"type": "message", "role": "user", "content": "and now?"},
        ],
        "tools": [{"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}, "strict": False}],
        "text": {"format": {"type": "json_schema", "name": "answer", "strict": True, "schema": {}}},
        "reasoning": {"effort": "medium"},
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }
    assert drop_policy.dropped == [
        "messages[1].content[0].is_error",
        "messages[1].content[1].cache_control",
        "thinking.budget_tokens",
    ]


def test_unknown_fields_of_assistant_messages_are_dropped_and_reported() -> None:
    """Clients send back what they read, with the fields that their libraries add."""
    parsed = {"parsed": Raw(b"{}"), "index": Raw(b"1")}
    parts = (Text("a", extra=parsed), ToolCall("c", "f", "{}", extra={"parsed_arguments": Raw(b'{"a":1}')}))
    drop_policy = make_drop_policy()
    chat = ChatRequest("openai_chat", "m", (Message("assistant", parts, extra={"provider_specific_fields": Raw(b'{"b":2}')}),))
    DIALECT.write_request(chat, drop_policy)
    assert drop_policy.dropped == [
        "messages[0].provider_specific_fields",
        "messages[0].content[0].parsed",
        "messages[0].content[0].index",
        "messages[0].content[1].parsed_arguments",
    ]


def test_anthropic_prefill_is_reported_as_dropped() -> None:
    user, prefill = Message("user", (Text("a"),)), Message("assistant", (Text("{"),))
    called = Message("assistant", (Text("{"), ToolCall("c", "f", "{}")))
    for origin, messages, dropped in (
        ("anthropic_messages", (user, prefill), ["prefill"]),
        ("anthropic_messages", (user, called), []),
        ("anthropic_messages", (user, prefill, user), []),
        ("openai_chat", (user, prefill), []),
    ):
        drop_policy = make_drop_policy()
        DIALECT.write_request(ChatRequest(origin, "m", messages), drop_policy)
        assert drop_policy.dropped == dropped


def test_zero_top_logprobs_is_read_as_absent_and_client_metadata_is_a_hint() -> None:
    request = DIALECT.parse_request(b'{"model": "m", "input": "hi", "top_logprobs": 0, "client_metadata": {"a": "b"}}')
    chat = DIALECT.read_request(request.body)
    assert chat.top_logprobs is None
    drop_policy = DropPolicy(lambda _: False, DIALECT.field_names, "a target")
    DIALECT.write_request(replace(chat, origin="openai_chat"), drop_policy)
    assert drop_policy.dropped == ["client_metadata"]
