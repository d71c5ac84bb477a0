"""Responses says again what it has said: requests, whole answers, streams, and what it carries for others."""

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
from providers.canonical.raw_json import Body
from providers.dialect import DropPolicy, ResponseMeta
from providers.dialects.openai_responses import OpenAIResponses, final_response, output_items, prepend_items
from providers.structured_output import JsonSchema, Regex
from tests.laws.chats import STAMP, bounded
from tests.laws.responses import ORIGIN, answers, raw, requests

DIALECT = OpenAIResponses()
SUMMARISED = replace(STAMP, request_body={"reasoning": Raw(b'{"summary":\n"auto"}')})


def concessions(*, dropping: bool = False) -> DropPolicy:
    return DropPolicy(lambda _: dropping, DIALECT.field_names, "a target")


def read(answer: bytes) -> ChatResponse:
    reader = DIALECT.stream_reader()
    return assemble_response([*reader.feed(answer), *reader.finish()])


def written(events: Sequence[Event], stamp: ResponseMeta) -> bytes:
    writer = DIALECT.stream_writer(stamp)
    return b"".join([writer.feed(event) for event in events]) + writer.finish()


@bounded
@given(requests)
def test_a_request_is_said_again(chat: ChatRequest) -> None:
    body = DIALECT.write_request(chat, concessions())
    ask = DIALECT.parse_request(body.write())
    assert (ask.model, ask.stores_response, ask.stream, ask.output_tokens) == (chat.model, False, False, chat.max_tokens)
    assert DIALECT.read_request(ask.body) == chat


@bounded
@given(requests)
def test_of_another_dialects_request_what_cannot_be_said_is_refused_or_reported(chat: ChatRequest) -> None:
    asked = concessions(dropping=True)
    body = DIALECT.write_request(replace(chat, origin="openai_chat"), asked)
    DIALECT.parse_request(body.write())
    demands = {key for key, value in chat.extra.items() if value != Raw(b'""')}
    assert set(asked.dropped) >= demands
    assert ("top_k" in asked.dropped) == (chat.top_k is not None)
    if demands or chat.top_k is not None:
        with pytest.raises(Unsupported):
            DIALECT.write_request(replace(chat, origin="openai_chat"), concessions())


@bounded
@given(answers)
def test_a_whole_answer_is_said_again(answer: ChatResponse) -> None:
    said = DIALECT.write_response(answer, STAMP)
    assert DIALECT.read_response(said) == answer
    Response.model_validate_json(said, strict=True)


@bounded
@given(answers, st.sampled_from([STAMP, SUMMARISED]))
def test_a_stream_says_what_the_whole_answer_does(answer: ChatResponse, stamp: ResponseMeta) -> None:
    out = written(list(response_events(answer)), stamp)
    assert read(out) == answer
    final = final_response(out)
    assert final is not None
    assert msgspec.json.decode(final) == msgspec.json.decode(DIALECT.write_response(answer, stamp))


@bounded
@given(answers, st.data())
def test_parts_may_be_written_in_turns(answer: ChatResponse, data: st.DataObject) -> None:
    events = in_turns(list(response_events(answer)), data)
    assert read(written(events, STAMP)) == assemble_response(events) == answer


def in_turns(events: list[Event], data: st.DataObject) -> list[Event]:
    """What follows the beginning of a text or a call may wait until others have begun; deltas come in pieces."""
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
                given = data.draw(st.integers(0, len(waiting))) if isinstance(event, PartStarted) and not thinks else len(waiting)
                out += [*waiting[:given], event]
                waiting = waiting[given:]
                thinks = isinstance(event, PartStarted) and isinstance(event.part, Reasoning)
    return out


FOREIGN: list[tuple[Part, ...]] = [
    (Reasoning("a thought", OpaqueState("anthropic_messages", "c2lnbmVk")), Text("hello")),
    (Opaque("anthropic_messages", raw({"type": "redacted_thinking", "data": "xyz"})), Text("hello")),
    (ToolCall("call_1", "f", "{}", opaque_state=OpaqueState("gemini", "sig")), ToolCall("call_2", "g", "{}")),
    (Reasoning("unsealed"), Text("a"), ToolCall("call_1", "f", "{}", opaque_state=OpaqueState("gemini", "one"))),
    (Reasoning("", OpaqueState("anthropic_messages", "only sealed")), ToolCall("call_1", "f", "free text", custom=True)),
]


@pytest.mark.parametrize("parts", FOREIGN)
def test_what_others_minted_comes_back_to_them(parts: tuple[Part, ...]) -> None:
    """Through an answer, a client that sends the items back as they are, and a request."""
    answer = ChatResponse((Choice(parts, "stop"),), "m")
    said = DIALECT.write_response(answer, STAMP)
    Response.model_validate_json(said, strict=True)
    streamed = final_response(written(list(response_events(answer)), STAMP))
    assert streamed is not None and output_items(streamed) == output_items(said)
    body = Body.read(b'{"model": "m", "input": "go on"}')
    prepend_items(body, output_items(said))
    assert DIALECT.read_request(body).messages == (Message("assistant", parts), Message("user", (Text("go on"),)))
    assert b'"encrypted_content":"nx1.' not in streamed or said.count(b"nx1.") == streamed.rpartition(b"event: ")[2].count(b"nx1.")


def test_what_others_minted_is_left_out_of_what_an_engine_is_asked() -> None:
    parts = (
        Reasoning("a thought", OpaqueState("anthropic_messages", "x")),
        Text("hello"),
        ToolCall("c", "f", "{}", opaque_state=OpaqueState("gemini", "y")),
    )
    asked = concessions()
    body = DIALECT.write_request(ChatRequest(ORIGIN, "m", (Message("assistant", parts),)), asked)
    assert asked.dropped == ["reasoning.encrypted_content"]
    assert b"anthropic" not in body.write() and b"nx1." not in body.write()
    assert [item["type"] for item in msgspec.json.decode(body.write())["input"]] == ["reasoning", "message", "function_call"]
    foreign = concessions()
    DIALECT.write_request(ChatRequest("anthropic_messages", "m", (Message("assistant", parts),)), foreign)
    assert foreign.dropped == ["reasoning.encrypted_content", "reasoning"]


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"stop": ("x",)}, "stop"),
        ({"n": 2}, "n"),
        ({"seed": 1}, "seed"),
        ({"top_k": 1}, "top_k"),
        ({"frequency_penalty": 0.5}, "frequency_penalty"),
        ({"logit_bias": Raw(b"{}")}, "logit_bias"),
        ({"output": Regex("a+")}, "output"),
        ({"prompt": "once"}, "prompt"),
        ({"messages": (Message("user", (Text("a"),), name="bob"),)}, "messages[0].name"),
        ({"messages": (Message("user", (Text("a", extra={"x_new": Raw(b"1")}),)),)}, "messages[0].content[0].x_new"),
        ({"messages": (Message("user", (ImagePart(Uploaded("anthropic_messages", "f")),)),)}, "messages[0].content[0]"),
        ({"extra": {"min_p": Raw(b"1")}}, "min_p"),
    ],
)
def test_what_responses_cannot_say_is_refused_by_name(more: dict[str, object], param: str) -> None:
    chat = msgspec.structs.replace(ChatRequest("openai_chat", "m", (Message("user", (Text("a"),)),)), **more)
    with pytest.raises(Unsupported) as refused:
        DIALECT.write_request(chat, DropPolicy(lambda _: False, {}, "a target"))
    assert refused.value.param == param


@pytest.mark.parametrize("choice", [ToolChoice("required"), ToolChoice("named", "f")])
def test_a_call_of_a_tool_that_is_not_there_cannot_be_demanded(choice: ToolChoice) -> None:
    search = HostTool("anthropic_messages", "web_search_20250305", raw({"type": "web_search_20250305"}))
    for tools in ((), (search,)):
        chat = ChatRequest("anthropic_messages", "m", (Message("user", (Text("a"),)),), tools=tools, tool_choice=choice)
        asked = DropPolicy(lambda field: field.startswith("tools"), {}, "a target")
        with pytest.raises(Unsupported) as refused:
            DIALECT.write_request(chat, asked)
        assert refused.value.param == "tool_choice"
        assert "tool_choice" not in DIALECT.write_request(chat, concessions(dropping=True))


def test_how_much_to_think_cannot_be_left_to_the_model() -> None:
    asked = concessions()
    chat = ChatRequest("anthropic_messages", "m", (Message("user", (Text("a"),)),), thinking=Thinking(adaptive=True))
    assert "reasoning" not in DIALECT.write_request(chat, asked)
    assert asked.dropped == ["reasoning"]
    asked = concessions()
    DIALECT.write_request(replace(chat, thinking=Thinking("low", adaptive=True)), asked)
    assert asked.dropped == []


def test_no_demand_is_refused_for() -> None:
    chat = ChatRequest("openai_chat", "m", (Message("user", (Text("a"),)),), n=1, frequency_penalty=0, presence_penalty=0.0, logprobs=False)
    asked = concessions()
    body = DIALECT.write_request(chat, asked)
    assert asked.dropped == []
    assert set(body) == {"model", "input", "store", "include"}


def test_sealed_reasoning_goes_back_under_no_id_of_ours() -> None:
    """OpenAI refuses what it sealed under another id than its own, which nobody but its own callers know."""
    thought = Message("assistant", (Reasoning("in short", OpaqueState(ORIGIN, "sealed")), Text("hi")))
    chat = ChatRequest("openai_chat", "m", (thought,), extra={"prompt_cache_retention": raw("24h")})
    body = msgspec.json.decode(DIALECT.write_request(chat, concessions()).write())
    assert body["input"][0] == {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "in short"}],
        "encrypted_content": "sealed",
    }
    assert body["prompt_cache_retention"] == "24h"


def test_a_call_without_an_id_gets_one() -> None:
    answer = DIALECT.read_response(b'{"output": [{"type": "function_call", "name": "f", "arguments": "{}"}]}')
    (call,) = answer.choices[0].parts
    assert isinstance(call, ToolCall) and call.id.startswith("call_") and len(call.id) == 29
    assert answer.choices[0].finish_reason == "tool_calls"


def test_a_foreign_request_is_stateless_and_as_lax_as_its_own_api() -> None:
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
    asked = concessions()
    body = msgspec.json.decode(DIALECT.write_request(chat, asked).write())
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
    assert asked.dropped == [
        "messages[1].content[0].is_error",
        "messages[1].content[1].cache_control",
        "thinking.budget_tokens",
    ]


def test_what_an_assistant_said_is_no_demand() -> None:
    """Clients give back what they read, with whatever their libraries made of it."""
    parsed = {"parsed": Raw(b"{}"), "index": Raw(b"1")}
    said = (Text("a", extra=parsed), ToolCall("c", "f", "{}", extra={"parsed_arguments": Raw(b'{"a":1}')}))
    asked = concessions()
    chat = ChatRequest("openai_chat", "m", (Message("assistant", said, extra={"provider_specific_fields": Raw(b'{"b":2}')}),))
    DIALECT.write_request(chat, asked)
    assert asked.dropped == [
        "messages[0].provider_specific_fields",
        "messages[0].content[0].parsed",
        "messages[0].content[0].index",
        "messages[0].content[1].parsed_arguments",
    ]


def test_an_answer_that_was_begun_for_the_engine_is_reported() -> None:
    user, begun = Message("user", (Text("a"),)), Message("assistant", (Text("{"),))
    called = Message("assistant", (Text("{"), ToolCall("c", "f", "{}")))
    for origin, messages, dropped in (
        ("anthropic_messages", (user, begun), ["prefill"]),
        ("anthropic_messages", (user, called), []),
        ("anthropic_messages", (user, begun, user), []),
        ("openai_chat", (user, begun), []),
    ):
        asked = concessions()
        DIALECT.write_request(ChatRequest(origin, "m", messages), asked)
        assert asked.dropped == dropped


def test_what_asks_for_nothing_means_nothing() -> None:
    ask = DIALECT.parse_request(b'{"model": "m", "input": "hi", "top_logprobs": 0, "client_metadata": {"a": "b"}}')
    chat = DIALECT.read_request(ask.body)
    assert chat.top_logprobs is None
    asked = DropPolicy(lambda _: False, DIALECT.field_names, "a target")
    DIALECT.write_request(replace(chat, origin="openai_chat"), asked)
    assert asked.dropped == ["client_metadata"]
