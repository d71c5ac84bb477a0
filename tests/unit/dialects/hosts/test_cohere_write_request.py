"""Requests written for Cohere's /v2/chat: its field names, and its rules, which the gateway enforces by a refusal that names the field."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from msgspec import Raw

from providers.canonical.chat import (
    ChatRequest,
    Citation,
    File,
    Image,
    Inline,
    Message,
    OpaqueState,
    Reasoning,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Url,
)
from providers.canonical.errors import Unsupported
from providers.canonical.output_format import JsonObject, JsonSchema, OutputFormat, Regex
from providers.canonical.raw_json import Body
from providers.dialects.cohere_chat import CohereChat
from providers.drop_policy import DropPolicy
from providers.hosted.cohere.adapter import Cohere
from providers.structured_output import Constraint
from tests.support.request_translation import drop_everything, drop_nothing
from tests.support.strategies.chat_strategies import bounded, chat_requests

DIALECT = CohereChat()
HI = Message("user", (Text("Hi"),))
SCHEMA = Raw(b'{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}')
TOOL = Tool("add", "Adds", SCHEMA)
WIRE_TOOL = {"type": "function", "function": {"name": "add", "description": "Adds", "parameters": json.loads(bytes(SCHEMA))}}


def write_request(*messages: Message, drop: bool = False, **fields: Any) -> tuple[dict[str, Any], list[str]]:
    """The body without its model, and the dropped fields."""
    chat = ChatRequest("openai_chat", "m", messages or (HI,), **fields)
    drop_policy = DropPolicy(drop_everything if drop else drop_nothing, {}, "it")
    body = json.loads(DIALECT.write_request(chat, drop_policy).write())
    assert body.pop("model") == "m"
    return body, drop_policy.dropped


def write_messages(*messages: Message, **fields: Any) -> list[Any]:
    return write_request(*messages, **fields)[0]["messages"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"top_p": 0.5, "top_k": 7, "max_tokens": 5, "stop": ("a", "b")},
            {"p": 0.5, "k": 7, "max_tokens": 5, "stop_sequences": ["a", "b"]},
        ),
        ({"top_k": -1, "seed": 3, "logprobs": True}, {"k": 0, "seed": 3, "logprobs": True}),
        (
            {"frequency_penalty": 0.5, "presence_penalty": 1, "temperature": 1.5},
            {"frequency_penalty": 0.5, "presence_penalty": 1, "temperature": 1.5},
        ),
        ({"thinking": Thinking("none")}, {"thinking": {"type": "disabled"}}),
        ({"thinking": Thinking(budget_tokens=500)}, {"thinking": {"type": "enabled", "token_budget": 500}}),
        ({"thinking": Thinking(adaptive=True)}, {"thinking": {"type": "enabled"}}),
        ({"output": JsonObject()}, {"response_format": {"type": "json_object"}}),
        ({"tools": (TOOL,), "tool_choice": ToolChoice("auto")}, {"tools": [WIRE_TOOL]}),
        ({"tools": (TOOL,), "tool_choice": ToolChoice("required")}, {"tools": [WIRE_TOOL], "tool_choice": "REQUIRED"}),
        ({"tools": (TOOL,), "tool_choice": ToolChoice("none")}, {"tools": [WIRE_TOOL], "tool_choice": "NONE"}),
        # One tool is chosen by sending no other.
        ({"tools": (Tool("other"), TOOL), "tool_choice": ToolChoice("named", "add")}, {"tools": [WIRE_TOOL], "tool_choice": "REQUIRED"}),
        ({"tools": (Tool("other"), TOOL), "tool_choice": ToolChoice("auto", allowed=("add",))}, {"tools": [WIRE_TOOL]}),
        (
            {"tools": (Tool("add", "Adds", SCHEMA, strict=True),)},
            {"tools": [WIRE_TOOL], "strict_tools": True},
        ),
        # Cohere's own fields, from any caller dialect.
        (
            {"extra": {"safety_mode": Raw(b'"STRICT"'), "priority": Raw(b"3"), "citation_options": Raw(b'{"mode":"FAST"}')}},
            {"safety_mode": "STRICT", "priority": 3, "citation_options": {"mode": "FAST"}},
        ),
        ({"extra": {"documents": Raw(b'["a text"]')}}, {"documents": ["a text"]}),
        ({"n": 1, "logit_bias": Raw(b"{}"), "extra": {"min_p": Raw(b"0")}}, {}),
    ],
)
def test_fields_are_written_with_cohere_names(fields: dict[str, Any], expected: dict[str, Any]):
    body, dropped = write_request(**fields)
    del body["messages"]
    assert (body, dropped) == (expected, [])


@pytest.mark.parametrize(
    ("fields", "param", "rule"),
    [
        ({"stop": ("a",) * 6}, "stop", "at most 5"),
        ({"top_k": 501}, "top_k", "at most 500"),
        ({"frequency_penalty": -1.0}, "frequency_penalty", "from 0 to 1"),
        ({"presence_penalty": 1.5}, "presence_penalty", "from 0 to 1"),
        ({"seed": -1}, "seed", "not be negative"),
        ({"n": 2}, "n", "one answer"),
        ({"top_logprobs": 2, "logprobs": True}, "top_logprobs", "only the tokens that it chose"),
        ({"logit_bias": Raw(b'{"1":2}')}, "logit_bias", "no such field"),
        ({"output": Regex("a")}, "output", "regex"),
        ({"output": JsonSchema(Raw(b'{"type":"array"}'))}, "output", "object"),
        ({"output": JsonSchema(Raw(b'{"a":' * 3000 + b"1" + b"}" * 3000))}, "output", "object"),
        ({"output": JsonObject(), "tools": (TOOL,)}, "tools", "together with tools"),
        ({"tools": (Tool("add", strict=True),)}, "tools[0].strict", "required parameter"),
        ({"tools": (TOOL,), "parallel_calls": False}, "parallel_calls", "one call"),
        ({"tool_choice": ToolChoice("required")}, "tool_choice", "no tool"),
        ({"extra": {"min_p": Raw(b"0.1")}}, "min_p", "no such field"),
        ({"extra": {"frobnicate": Raw(b"1")}}, "frobnicate", "no such field"),
    ],
)
def test_request_that_breaks_a_rule_is_refused_with_the_field_name(fields: dict[str, Any], param: str, rule: str):
    with pytest.raises(Unsupported) as refused:
        write_request(**fields)
    assert refused.value.param == param and rule in refused.value.message
    assert param in write_request(**fields, drop=True)[1]


def test_approximated_values_are_sent_and_reported():
    body, dropped = write_request(top_p=1.0, thinking=Thinking("low"), user="u1")
    assert (body["p"], body["thinking"], sorted(dropped)) == (0.99, {"type": "enabled"}, ["thinking.effort", "top_p", "user"])


def test_text_file_becomes_a_document_beside_the_messages():
    data = base64.b64encode("Grüße".encode()).decode()
    file = File(Inline("text/plain", data), "a.txt")
    body, _ = write_request(Message("user", (Text("Sum up"), file)))
    assert body["messages"] == [{"role": "user", "content": "Sum up"}]
    assert body["documents"] == [{"id": "doc:0", "data": {"title": "a.txt", "text": "Grüße"}}]
    for other in (File(Inline("application/pdf", data)), File(Inline("text/plain", "!"))):
        with pytest.raises(Unsupported) as refused:
            write_request(Message("user", (other,)))
        assert refused.value.param == "messages[0].content[0]"


def test_lone_text_file_becomes_the_user_message():
    body, _ = write_request(Message("user", (File(Inline("text/plain", "aGk="), "a.txt"),)))
    assert body == {"messages": [{"role": "user", "content": "hi"}]}


def test_json_output_with_documents_is_refused():
    with pytest.raises(Unsupported, match="together with documents"):
        write_request(Message("user", (Text("Sum up"), File(Inline("text/plain", "aGk=")))), output=JsonObject())


def test_developer_role_and_images_are_written_as_cohere_expects():
    image = Image(Url("https://example.org/a.png"), "low")
    messages = write_messages(Message("developer", (Text("Be brief"),)), Message("user", (Text("What?"), image)))
    image_block = {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}}
    assert messages == [
        {"role": "system", "content": "Be brief"},
        {"role": "user", "content": [{"type": "text", "text": "What?"}, image_block]},
    ]


def test_tool_calls_and_results_are_written_back():
    call = ToolCall("c1", "add", '{"a":1}')
    result = ToolResult("c1", (Text("2"), File(Inline("text/plain", "aGk="), "n")))
    messages = write_messages(HI, Message("assistant", (Reasoning("Hm."), call)), Message("user", (result, Text("So?"))))
    assert messages[1:] == [
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "Hm."}],
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}],
        },
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": [{"type": "text", "text": "2"}, {"type": "document", "document": {"data": {"title": "n", "text": "hi"}}}],
        },
        {"role": "user", "content": "So?"},
    ]


def test_empty_assistant_message_is_not_sent_back():
    assert write_messages(HI, Message("assistant", (Text(""),)), Message("assistant", ()), HI) == [{"role": "user", "content": "Hi"}] * 2
    assert [each["role"] for each in write_messages(HI, Message("assistant", (ToolCall("c1", "add", "{}"),)))] == ["user", "assistant"]


def test_image_in_a_tool_result_follows_in_a_user_message():
    picture = Image(Url("https://example.org/a.png"))
    messages = write_messages(Message("user", (ToolResult("c1", (picture,)),)))
    assert [each["role"] for each in messages] == ["tool", "user"] and messages[1]["content"][1]["type"] == "image_url"


def test_own_tool_plan_and_citations_are_sent_back_and_foreign_ones_dropped():
    raw = Raw(b'{"start":0,"end":2,"text":"It","content_index":7,"type":"TEXT_CONTENT"}')
    parts = (Reasoning("I will add.", OpaqueState("cohere_chat", "tool_plan")), Text("It is.", (Citation("cohere_chat", raw),)))
    body, dropped = write_request(HI, Message("assistant", (*parts, ToolCall("c1", "add", ""))))
    assistant_message = body["messages"][1]
    assert (
        assistant_message["tool_plan"],
        assistant_message["content"],
        assistant_message["tool_calls"][0]["function"]["arguments"],
        dropped,
    ) == (
        "I will add.",
        "It is.",
        "{}",
        [],
    )
    assert [each["content_index"] for each in assistant_message["citations"]] == [0]
    _, dropped = write_request(
        HI, Message("assistant", (Reasoning("Hm.", OpaqueState("gemini", "x")), Text("A", (Citation("openai_chat", raw),))))
    )
    assert dropped == ["reasoning.signature", "messages[1].content[1].citations"]


@pytest.mark.parametrize(
    ("output", "enforcement"),
    [
        (JsonObject(), "enforced"),
        (JsonSchema(SCHEMA, "a"), "enforced"),
        (JsonSchema(Raw(b'{"type":"object","properties":{"a":{"type":"integer","minimum":3}}}')), "validated"),
        (
            JsonSchema(Raw(b'{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}}}')),
            "validated",
        ),
        (JsonSchema(Raw(b'{"type":"object","additionalProperties":false,"properties":{"a":{"const":1}}}')), "enforced"),
        (Regex("a"), None),
    ],
)
def test_schema_is_enforced_only_where_cohere_supports_it_fully(output: OutputFormat, enforcement: str | None):
    plan = Cohere("it", {}).plan_constraint(Constraint(output, "response_format"), "cohere_chat", in_own_fields=False)
    assert (None if plan is None else plan.enforcement) == enforcement


@bounded
@given(chat_requests())
def test_any_chat_request_is_written_with_cohere_fields_only(chat: ChatRequest):
    body = Body(DIALECT.write_request(chat, DropPolicy(drop_everything, {}, "it")))
    written = json.loads(body.write())
    assert written.keys() <= COHERE_FIELDS and all(each["role"] in ("system", "user", "assistant", "tool") for each in written["messages"])


COHERE_FIELDS = {
    *("model", "messages", "tools", "strict_tools", "documents", "citation_options", "response_format", "safety_mode", "max_tokens"),
    *("stop_sequences", "temperature", "seed", "frequency_penalty", "presence_penalty", "k", "p", "logprobs", "tool_choice", "thinking"),
    *("raw_prompting", "priority"),
}
