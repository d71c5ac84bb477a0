"""Parsing Responses requests: what is valid, which path is at fault if it is not, and which conversation a request continues."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace
from openai.pagination import SyncCursorPage
from openai.types.responses import ResponseItem

from providers.canonical.chat import Audio, ChatRequest, ChatResponse, Message, Opaque, Reasoning, Text, ToolCall, ToolResult
from providers.canonical.errors import InvalidRequest, NarthexError, Unsupported
from providers.canonical.raw_json import Body
from providers.dialect import InboundRequest
from providers.dialects.openai_responses import (
    OpenAIResponses,
    list_input_items,
    make_stateless,
    output_items,
    prepend_items,
    referenced_item_id,
    write_input_items,
)
from providers.dialects.openai_responses.input_item_listing import input_item_id
from providers.drop_policy import DropPolicy
from tests.support.strategies.chat_strategies import META, bounded
from tests.support.strategies.openai_responses_strategies import chat_responses, requests

DIALECT = OpenAIResponses()
REFUSE_ALL = DropPolicy(lambda _: False, DIALECT.field_names, "a target")
IMAGE = "data:image/png;base64," + "A" * 30_000


def parse(**fields: Any) -> InboundRequest:
    return DIALECT.parse_request(json.dumps({"model": "m", "input": "hi", **fields}).encode())


INVALID_FIELDS: list[tuple[dict[str, Any], type[NarthexError], str]] = [
    ({"model": 1}, InvalidRequest, "model"),
    ({"input": None}, InvalidRequest, "input"),
    ({"input": 5}, InvalidRequest, "input"),
    ({"input": [{"role": "user"}]}, InvalidRequest, "input[0].content"),
    ({"input": [{"role": "robot", "content": "x"}]}, InvalidRequest, "input[0].role"),
    ({"input": [{"content": "x"}]}, InvalidRequest, "input[0].role"),
    ({"input": [{"role": "user", "content": [{"text": "x"}]}]}, InvalidRequest, "input[0].content[0].type"),
    ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, InvalidRequest, "input[0].content[0].text"),
    (
        {
            "input": [
                {"role": "user", "content": "x"},
                {"role": "user", "content": [{"type": "input_image", "image_url": {"url": "x"}}]},
            ]
        },
        InvalidRequest,
        "input[1].content[0].image_url",
    ),
    ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, InvalidRequest, "input[0].content[0].image_url"),
    ({"input": [{"type": "function_call", "name": "f", "arguments": "{}"}]}, InvalidRequest, "input[0].call_id"),
    ({"input": [{"type": "function_call_output", "call_id": "c"}]}, InvalidRequest, "input[0].output"),
    ({"input": [{"type": "function_call_output", "call_id": "c", "output": {}}]}, InvalidRequest, "input[0].output"),
    ({"input": [{"type": "custom_tool_call_output", "call_id": "c", "output": [{}]}]}, InvalidRequest, "input[0].output[0].type"),
    ({"input": [{"type": "item_reference"}]}, InvalidRequest, "input[0].id"),
    ({"tools": [{"type": "function", "function": {"name": "f"}}]}, InvalidRequest, "tools[0].name"),
    ({"tools": [{"type": "custom", "name": "sql", "format": 7}]}, InvalidRequest, "tools[0].format"),
    ({"tools": [{"type": "custom", "name": "sql", "format": [[]]}]}, InvalidRequest, "tools[0].format"),
    ({"tools": [{"type": "custom", "name": "sql", "format": True}]}, InvalidRequest, "tools[0].format"),
    ({"tools": [{"type": "custom", "name": "sql", "format": 1.5}]}, InvalidRequest, "tools[0].format"),
    ({"tools": [{"type": "custom", "name": "sql", "format": {}}]}, InvalidRequest, "tools[0].format"),
    ({"tools": [{"type": "function", "name": "f", "parameters": []}]}, InvalidRequest, "tools[0].parameters"),
    ({"top_k": "many"}, InvalidRequest, "top_k"),
    ({"presence_penalty": []}, InvalidRequest, "presence_penalty"),
    ({"tool_choice": "maybe"}, InvalidRequest, "tool_choice"),
    ({"max_output_tokens": 0}, InvalidRequest, "max_output_tokens"),
    ({"temperature": 3}, InvalidRequest, "temperature"),
    ({"truncation": "some"}, InvalidRequest, "truncation"),
    ({"stream_options": {"include_obfuscation": False}}, InvalidRequest, "stream_options"),
    ({"background": True}, Unsupported, "background"),
    ({"conversation": "conv_1"}, Unsupported, "conversation"),
    ({"prompt": {"id": "pmpt_1"}}, Unsupported, "prompt"),
    ({"conversation": {"id": "conv_1"}, "previous_response_id": "resp_1"}, InvalidRequest, "previous_response_id"),
    ({"previous_response_id": ""}, InvalidRequest, "previous_response_id"),
    ({"episode_id": ""}, InvalidRequest, "episode_id"),
]


@pytest.mark.parametrize(("fields", "error", "param"), INVALID_FIELDS)
def test_invalid_or_unsupported_field_is_refused_by_path(fields: dict[str, Any], error: type[NarthexError], param: str) -> None:
    with pytest.raises(error) as refused:
        parse(**fields)
    assert refused.value.param == param


@pytest.mark.parametrize(
    "item",
    [
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}},
        {
            "type": "shell_call_output",
            "call_id": "c",
            "output": [{"stdout": "", "stderr": "", "outcome": {"type": "timeout"}}],
        },
        {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot", "image_url": "https://example.com"}},
        {"type": "tool_search_call", "arguments": {"any": "thing"}},
        {"type": "mcp_call", "id": "m", "arguments": "{}", "name": "f", "server_label": "s", "output": "x"},
        {"type": "program", "id": "p", "call_id": "c", "code": "1", "fingerprint": "f"},
        {"type": "x_new", "input": {"of": "any kind"}, "call_id": None},
    ],
)
def test_dialect_specific_items_are_kept_as_opaque_parts(item: dict[str, Any]) -> None:
    request = parse(input=[item])
    (message,) = DIALECT.read_request(request.body).messages
    (part,) = message.parts
    assert isinstance(part, Opaque)
    assert json.loads(bytes(part.raw)) == item


def test_parsed_request_exposes_what_the_gateway_needs() -> None:
    request = parse(
        stream=True,
        max_output_tokens=5,
        user="u",
        metadata={"a": "b"},
        previous_response_id="resp_1",
        store=False,
        episode_id="e",
        include=["message.output_text.logprobs"],
    )
    assert (request.dialect, request.model, request.stream, request.wants_usage, request.choices) == (
        "openai_responses",
        "m",
        True,
        True,
        1,
    )
    assert (request.output_tokens, request.end_user, request.tags, request.episode_id) == (5, "u", {"a": "b"}, "e")
    assert (request.previous_response_id, request.stores_response) == ("resp_1", False)
    assert not request.references_items
    for item in ({"type": "item_reference", "id": "msg_1"}, {"id": "msg_1"}, {"type": None, "id": "msg_1"}):
        assert parse(input=[{"role": "user", "content": "hi"}, item]).references_items
        assert referenced_item_id(Raw(json.dumps(item).encode())) == "msg_1"
    assert parse().stores_response and parse(store=None).stores_response and parse().previous_response_id is None


def test_image_tokens_are_not_estimated_from_the_base64_length() -> None:
    in_message = [{"role": "user", "content": [{"type": "input_image", "image_url": IMAGE}]}]
    in_result = [{"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image", "image_url": IMAGE}]}]
    assert 1_600 <= parse(input=in_message).input_tokens < 1_700
    assert 1_600 <= parse(input=in_result).input_tokens < 1_700
    assert parse(input=IMAGE).input_tokens > 10_000


def test_adjacent_items_of_one_role_become_one_message() -> None:
    request = parse(
        instructions="be brief",
        input=[
            {"role": "user", "content": "hi"},
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}]},
            {"role": "assistant", "content": "calling"},
            {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}", "status": "completed"},
            {"type": "custom_tool_call", "call_id": "c2", "name": "g", "input": "x"},
            {"type": "function_call_output", "call_id": "c1", "output": "one"},
            {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "two"}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "and?"}]},
            {"role": "developer", "content": "go on"},
        ],
    )
    chat = DIALECT.read_request(request.body)
    assert chat.messages == (
        Message("system", (Text("be brief"),)),
        Message("user", (Text("hi"),)),
        Message(
            "assistant",
            (Reasoning("a\n\nb"), Text("calling"), ToolCall("c1", "f", "{}"), ToolCall("c2", "g", "x", custom=True)),
        ),
        Message("user", (ToolResult("c1", (Text("one"),)), ToolResult("c2", (Text("two"),), custom=True))),
        Message("user", (Text("and?"),)),
        Message("developer", (Text("go on"),)),
    )
    assert chat.extra == {}


def test_default_values_are_read_as_absent() -> None:
    request = parse(truncation="disabled", background=False, text={"format": {"type": "text"}}, reasoning={"effort": None}, tools=[])
    chat = DIALECT.read_request(request.body)
    assert (chat.extra, chat.output, chat.thinking, chat.tools) == ({}, None, None, ())


def test_unrecognized_values_are_kept_as_extra_fields() -> None:
    choice = {"type": "web_search_preview"}
    request = parse(tool_choice=choice, guided_regex="a+", reasoning={"effort": "ultra", "mode": "pro"}, max_tool_calls=3)
    chat = DIALECT.read_request(request.body)
    assert {key: json.loads(bytes(value)) for key, value in chat.extra.items()} == {
        "tool_choice": choice,
        "guided_regex": "a+",
        "reasoning.effort": "ultra",
        "reasoning.mode": "pro",
        "max_tool_calls": 3,
    }


def test_unrecognized_nested_fields_are_kept_by_path_and_written_back() -> None:
    fields: dict[str, Any] = {
        "stream": True,
        "stream_options": {"include_obfuscation": False, "include_usage": True},
        "text": {"format": {"type": "text", "x_a": 1}, "x_b": 2},
        "tools": [{"type": "function", "name": "f"}],
        "tool_choice": {"type": "function", "name": "f", "x_c": 3},
        "reasoning": {"x_d": 4},
    }
    chat = DIALECT.read_request(parse(**fields).body)
    named = {"text.format.x_a": 1, "text.x_b": 2, "tool_choice.x_c": 3, "reasoning.x_d": 4}
    assert {key: json.loads(bytes(value)) for key, value in chat.extra.items()} == {**named, "stream_options.include_obfuscation": False}
    body = DIALECT.write_request(chat, REFUSE_ALL)
    DIALECT.prepare_upstream_body(body, True, include_usage=True)
    upstream_body = json.loads(body.write())
    assert {key: upstream_body[key] for key in fields} == {**fields, "stream_options": {"include_obfuscation": False}}
    DIALECT.prepare_upstream_body(body, False, include_usage=True)
    assert DIALECT.read_request(DIALECT.parse_request(body.write()).body).extra.keys() == named.keys()


def test_allowed_tools_with_unknown_fields_are_kept_as_an_extra_field() -> None:
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f", "x_new": 1}]}
    chat = DIALECT.read_request(parse(tool_choice=choice).body)
    assert chat.tool_choice is None and json.loads(bytes(chat.extra["tool_choice"])) == choice


def test_message_phase_separates_commentary_from_the_final_answer() -> None:
    items = [
        {"type": "message", "role": "assistant", "content": "I look.", "phase": "commentary"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "message", "role": "assistant", "content": "Found.", "phase": "final_answer"},
    ]
    chat = DIALECT.read_request(parse(input=items).body)
    assert [(len(message.parts), bytes(message.extra["phase"])) for message in chat.messages] == [
        (2, b'"commentary"'),
        (1, b'"final_answer"'),
    ]
    rewritten = json.loads(DIALECT.write_request(chat, REFUSE_ALL).write())["input"]
    assert [item.get("phase") for item in rewritten] == ["commentary", None, "final_answer"]
    drop_policy = DropPolicy(lambda _: False, DIALECT.field_names, "a target")
    DIALECT.write_request(replace(chat, origin="openai_chat"), drop_policy)
    assert drop_policy.dropped == ["messages[0].phase", "messages[1].phase"]


@pytest.mark.parametrize("format", [{"type": "grammar"}, {"type": "json_schema", "name": "x"}])
def test_invalid_text_format_is_refused(format: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        DIALECT.read_request(parse(text={"format": format}).body)


@pytest.mark.parametrize("stream", [True, False])
def test_upstream_body_is_stateless(stream: bool) -> None:
    body = parse(
        stream=True,
        stream_options={"include_obfuscation": False},
        store=True,
        include=["file_search_call.results"],
        previous_response_id="r",
    ).body
    DIALECT.prepare_upstream_body(body, stream, include_usage=True)
    upstream_body = json.loads(body.write())
    assert (upstream_body["store"], upstream_body["stream"]) == (False, stream)
    assert upstream_body["include"] == ["file_search_call.results", "reasoning.encrypted_content"]
    assert "previous_response_id" not in upstream_body
    assert ("stream_options" in upstream_body) == stream
    before = body.write()
    make_stateless(body)
    assert body.write() == before


@bounded
@given(chat_responses, requests)
def test_conversation_resumes_from_earlier_input_and_output_items(answer: ChatResponse, chat: ChatRequest) -> None:
    """Every item is kept as it came, and the whole is a valid request; a call that was not answered gets a result that says so."""
    first = DIALECT.parse_request(DIALECT.write_request(chat, REFUSE_ALL).write()).body
    response = DIALECT.write_response(answer, META)
    earlier = [*list_input_items(first), *output_items(response)]
    body = parse(previous_response_id="resp_1").body
    prepend_items(body, earlier)
    request = DIALECT.parse_request(body.write())
    assert request.previous_response_id is None
    sent = list_input_items(request.body)
    kept, expected = ([bytes(item) for item in items if b"has no result" not in bytes(item)] for items in (sent, earlier))
    assert kept[:-1] == expected
    assert DIALECT.read_request(request.body).messages[-1] == Message("user", (Text("hi"),))


def has_no_audio(chat: ChatRequest) -> bool:
    """The SDK's types for input items have no audio."""
    return not any(isinstance(part, Audio) for message in chat.messages for part in message.parts)


@bounded
@given(requests.filter(has_no_audio), st.booleans())
def test_input_items_are_listed_as_the_official_sdk_expects(chat: ChatRequest, with_ids: bool) -> None:
    body = DIALECT.write_request(chat, REFUSE_ALL)
    items = [Raw(json.dumps(item).encode()) for item in json.loads(body.write())["input"]]
    if not with_ids:
        items = [Raw(json.dumps({key: value for key, value in json.loads(bytes(item)).items() if key != "id"}).encode()) for item in items]
    listed = write_input_items(items, "resp_1")
    assert listed == [write_input_items([item], "resp_1", at)[0] for at, item in enumerate(items)]
    assert [each["id"] for each in listed] == [input_item_id(item, "resp_1", at) for at, item in enumerate(items)]
    assert len({each["id"] for each in listed if each["type"] == "message"}) == sum(each["type"] == "message" for each in listed)
    page = SyncCursorPage[ResponseItem].model_validate({"data": listed, "has_more": False})
    assert [item.type for item in page.data] == [each["type"] for each in listed]
    assert all(isinstance(each["content"], list) for each in listed if each["type"] == "message")


def test_string_input_is_listed_as_a_user_message() -> None:
    (listed,) = write_input_items(list_input_items(Body.read(b'{"input": "hi"}')), "resp_1")
    assert listed["id"].startswith("msg_")
    assert {key: value for key, value in listed.items() if key != "id"} == {
        "type": "message",
        "status": "completed",
        "role": "user",
        "content": [{"type": "input_text", "text": "hi"}],
    }
