"""OpenAI chat requests and the canonical model: they round-trip, and what OpenAI chat cannot express is refused by path or reported."""

import json
from typing import Any

import pytest
from hypothesis import given
from msgspec import Raw

from providers.canonical.carrier import encode_carrier
from providers.canonical.chat import (
    ChatRequest,
    Citation,
    Content,
    File,
    HostTool,
    Image,
    Inline,
    Message,
    Opaque,
    OpaqueState,
    Reasoning,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Uploaded,
    Url,
)
from providers.canonical.errors import InvalidRequest, Unsupported
from providers.canonical.output_format import Choice, JsonObject, JsonSchema, OutputFormat, Regex
from providers.canonical.raw_json import Body
from providers.dialects.openai_chat import OpenAIChat
from providers.drop_policy import DropPolicy
from tests.support.strategies.chat_strategies import bounded, chat_requests

DIALECT = OpenAIChat()
CALL = ToolCall("a", "f", "{}")


def refusing_policy() -> DropPolicy:
    return DropPolicy(lambda field: False, {}, "an engine")


def dropping_policy() -> DropPolicy:
    return DropPolicy(lambda field: True, {}, "an engine")


def read_chat(body: dict[str, Any]) -> ChatRequest:
    request = DIALECT.parse_request(json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}], **body}).encode())
    return DIALECT.read_request(request.body)


def chat_with(*parts: Content, role: Any = "user", origin: str = "anthropic_messages") -> ChatRequest:
    return ChatRequest(origin, "m", (Message(role, parts),))


def written_body(chat: ChatRequest, drop_policy: DropPolicy | None = None) -> Any:
    return json.loads(DIALECT.write_request(chat, drop_policy or refusing_policy()).write())


@bounded
@given(chat_requests())
def test_request_round_trips_through_openai_chat(chat: ChatRequest) -> None:
    drop_policy = refusing_policy()
    raw = DIALECT.write_request(chat, drop_policy).write()
    assert DIALECT.parse_request(raw).model == chat.model
    assert DIALECT.read_request(Body.read(raw)) == chat  # parsing puts calls and their results in order: test_put_calls_in_order.py
    assert drop_policy.dropped == []


@bounded
@given(chat_requests())
def test_written_request_is_valid_for_the_official_api(chat: ChatRequest) -> None:
    body = json.loads(DIALECT.write_request(chat, refusing_policy()).write())
    assert {message["role"] for message in body.get("messages", ())} <= {"system", "developer", "user", "assistant", "tool"}
    assert all("tool_call_id" in message for message in body.get("messages", ()) if message["role"] == "tool")
    assert all(tool["type"] in tool or tool["type"] == "web_search" for tool in body.get("tools", ()))


UNSUPPORTED: list[tuple[ChatRequest, str]] = [
    (ChatRequest("anthropic_messages", "m", extra={"container": Raw(b'"c1"')}), "container"),
    (ChatRequest("openai_responses", "m", tools=(HostTool("openai_responses", "web_search", Raw(b"{}")),)), "tools[0]"),
    (ChatRequest("anthropic_messages", "m", tools=(Tool("f", extra={"x": Raw(b"true")}),)), "tools[0].x"),
    (chat_with(Text("a"), Image(Uploaded("anthropic_messages", "f1"))), "messages[0].content[1]"),
    (chat_with(File(Uploaded("anthropic_messages", "f1"))), "messages[0].content[0]"),
    (chat_with(Text("a", extra={"x": Raw(b"1")})), "messages[0].content[0].x"),
    (chat_with(Opaque("anthropic_messages", Raw(b'{"type":"server_tool_use"}')), role="assistant"), "messages[0].content[0]"),
    (chat_with(Opaque("anthropic_messages", Raw(b'{"type":"search_result"}'))), "messages[0].content[0]"),
    (
        chat_with(Opaque("anthropic_messages", Raw(b'{"type":"x"}')), Text("a"), role="assistant", origin="openai_responses"),
        "messages[0].content[0]",
    ),
    (chat_with(ToolResult("a", (Text("b"),)), Text("c", extra={"x": Raw(b"1")})), "messages[0].content[1].x"),
]


@pytest.mark.parametrize(("chat", "path"), UNSUPPORTED, ids=range(len(UNSUPPORTED)))
def test_unsupported_content_is_refused_by_path_or_dropped_and_reported(chat: ChatRequest, path: str) -> None:
    with pytest.raises(Unsupported) as refused:
        DIALECT.write_request(chat, refusing_policy())
    assert refused.value.param == path
    drop_policy = dropping_policy()
    body = DIALECT.write_request(chat, drop_policy)
    assert drop_policy.dropped == [path]
    assert set(body) <= {"model", "messages", "tools"}


EPHEMERAL = Raw(b'{"type":"ephemeral"}')
HINTS: list[tuple[ChatRequest, str]] = [
    (chat_with(Text("a", extra={"cache_control": EPHEMERAL})), "messages[0].content[0].cache_control"),
    (ChatRequest("anthropic_messages", "m", tools=(Tool("f", extra={"cache_control": EPHEMERAL}),)), "tools[0].cache_control"),
    (chat_with(Text("a", extra={"x": Raw(b"1")}), CALL, role="assistant"), "messages[0].content[0].x"),
    (chat_with(Text("a"), ToolCall("a", "f", "{}", extra={"caller": Raw(b"1")}), role="assistant"), "messages[0].content[1].caller"),
    (chat_with(Reasoning("a", extra={"x": Raw(b"1")}), role="assistant"), "messages[0].content[0].x"),
    (ChatRequest("openai_responses", "m", (Message("assistant", (CALL,), extra={"parsed": Raw(b"1")}),)), "messages[0].parsed"),
    (chat_with(Reasoning("a"), Text("So: "), role="assistant"), "prefill"),
    (chat_with(ToolResult("a", (Text("no"),), is_error=True)), "messages[0].content[0].is_error"),
    (chat_with(Reasoning("hm", OpaqueState("anthropic_messages", "s")), role="assistant"), "reasoning.signature"),
    (
        chat_with(Reasoning("", OpaqueState("anthropic_messages", "s")), Text("a"), role="assistant", origin="openai_responses"),
        "reasoning.signature",
    ),
    (chat_with(ToolCall("a", "f", "{}", opaque_state=OpaqueState("gemini", "s")), role="assistant"), "reasoning.signature"),
    (chat_with(Opaque("anthropic_messages", Raw(b'{"type":"redacted_thinking","data":"x"}')), role="assistant"), "reasoning.signature"),
    (chat_with(CALL, Text("a", (Citation("anthropic_messages", Raw(b"{}")),)), role="assistant"), "messages[0].content[1].citations"),
    (ChatRequest("anthropic_messages", "m", thinking=Thinking(budget_tokens=4000)), "thinking.budget_tokens"),
    (ChatRequest("openai_responses", "m", thinking=Thinking("low", summary="auto")), "thinking.summary"),
    (ChatRequest("anthropic_messages", "m", service_tier="standard_only"), "service_tier"),
]


@pytest.mark.parametrize(("chat", "field"), HINTS, ids=[f"{at} {field}" for at, (_, field) in enumerate(HINTS)])
def test_hint_without_effect_on_the_response_is_dropped_and_reported(chat: ChatRequest, field: str) -> None:
    drop_policy = refusing_policy()
    body = DIALECT.write_request(chat, drop_policy).write()
    assert drop_policy.dropped == [field]
    assert b"cache_control" not in body
    assert b"signature" not in body


@pytest.mark.parametrize(
    ("thinking", "effort"),
    [
        (Thinking("none"), "none"),
        (Thinking("max"), "max"),
        (Thinking(budget_tokens=2048), "low"),
        (Thinking(budget_tokens=8192), "medium"),
        (Thinking(budget_tokens=8193), "high"),
        (Thinking(adaptive=True), None),
        (Thinking("medium", adaptive=True), "medium"),
    ],
    ids=str,
)
def test_thinking_is_written_as_reasoning_effort(thinking: Thinking, effort: str | None) -> None:
    assert written_body(ChatRequest("anthropic_messages", "m", thinking=thinking)).get("reasoning_effort") == effort


def test_tool_results_come_first_and_their_images_follow_in_a_user_message() -> None:
    image = Image(Inline("image/png", "AAAA"))
    results = ToolResult("a", (Text("one"), image)), ToolResult("b", (image,)), ToolResult("c", (Text("x"), Text("y")))
    messages = written_body(chat_with(*results, Text("Well?")))["messages"]
    assert [each["role"] for each in messages] == ["tool", "tool", "tool", "user"]
    assert [each.get("tool_call_id") for each in messages] == ["a", "b", "c", None]
    assert messages[0]["content"] == "one"
    assert isinstance(messages[1]["content"], str)
    assert messages[2]["content"] == "x\ny"
    follow = messages[3]["content"]
    assert [part["type"] for part in follow] == ["text", "image_url", "text", "image_url", "text"]
    assert "a" in follow[0]["text"].split()[-1]
    assert "b" in follow[2]["text"].split()[-1]
    assert follow[4]["text"] == "Well?"


def test_allowed_tools_are_written_by_sending_only_those_tools() -> None:
    tools = (Tool("f"), Tool("g"))
    body = written_body(ChatRequest("openai_responses", "m", tools=tools, tool_choice=ToolChoice("required", allowed=("g",))))
    assert [tool["function"]["name"] for tool in body["tools"]] == ["g"]
    assert body["tool_choice"] == "required"


def test_engine_specific_fields_are_written_from_any_dialect() -> None:
    body = written_body(ChatRequest("anthropic_messages", "m", top_k=5, extra={"min_p": Raw(b"0.1"), "ignore_eos": Raw(b"true")}))
    assert (body["top_k"], body["min_p"], body["ignore_eos"]) == (5, 0.1, True)


def test_json_schema_of_another_dialect_gets_a_name_and_strict() -> None:
    body = written_body(ChatRequest("anthropic_messages", "m", output=JsonSchema(Raw(b"{}"))))
    assert body["response_format"] == {"type": "json_schema", "json_schema": {"name": "answer", "schema": {}, "strict": True}}


# Reading requests.
@pytest.mark.parametrize(
    ("body", "output"),
    [
        ({"guided_json": {"type": "object"}}, JsonSchema(Raw(b'{"type":"object"}'))),
        ({"guided_regex": "a+"}, Regex("a+")),
        ({"structured_outputs": {"choice": ["a", "b"]}}, Choice(("a", "b"))),
        ({"response_format": {"type": "text"}}, None),
        ({"response_format": {"type": "json_object"}}, JsonObject()),
        ({"response_format": {"type": "json_object", "schema": {}}}, JsonSchema(Raw(b"{}"))),
        ({"response_format": {"type": "json", "value": {}}}, JsonSchema(Raw(b"{}"))),
        ({"response_format": {"type": "regex_schema", "regex_schema": "a"}}, Regex("a")),
        ({"response_format": {"type": "regex", "value": "a"}}, Regex("a")),
    ],
    ids=[str(at) for at in range(9)],
)
def test_every_constraint_field_is_read_as_its_output_format(body: dict[str, Any], output: OutputFormat | None) -> None:
    assert read_chat(body).output == output


def test_null_fields_are_read_as_absent() -> None:
    fields = ["temperature", "tools", "tool_choice", "stop", "response_format", "metadata", "x_one", "reasoning_effort", "n"]
    message = {"role": "user", "content": "Hi", "name": None, "audio": None, "refusal": None}
    chat = read_chat({"messages": [message], **dict.fromkeys(fields)})
    assert chat == ChatRequest("openai_chat", "m", (Message("user", (Text("Hi"),)),))


def test_legacy_functions_and_function_call_are_read() -> None:
    chat = read_chat(
        {
            "messages": [
                {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
                {"role": "function", "name": "f", "content": "42"},
            ],
            "functions": [{"name": "f", "parameters": {}}],
            "function_call": {"name": "f"},
        }
    )
    (call,) = chat.messages[0].parts
    (result,) = chat.messages[1].parts
    assert isinstance(call, ToolCall)
    assert isinstance(result, ToolResult)
    assert (call.name, result.id, result.parts) == ("f", call.id, (Text("42"),))
    assert chat.tools == (Tool("f", parameters=Raw(b"{}")),)
    assert chat.tool_choice == ToolChoice("named", "f")


def test_media_are_read_as_inline_bytes_urls_or_uploads() -> None:
    content = [
        {"type": "image_url", "image_url": "data:image/png;base64,AAAA"},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.jpg", "detail": "low"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}},
        {"type": "file", "file": {"file_data": "AAAA"}},
        {"type": "file", "file": {"file_id": "f1"}},
    ]
    assert read_chat({"messages": [{"role": "user", "content": content}]}).messages[0].parts == (
        Image(Inline("image/png", "AAAA")),
        Image(Url("https://example.com/a.jpg"), "low"),
        File(Inline("application/pdf", "AAAA"), "a.pdf"),
        File(Inline("application/pdf", "AAAA")),
        File(Uploaded("openai", "f1")),
    )


def test_response_message_dumped_by_the_official_client_is_read_back() -> None:
    message = {
        "role": "assistant",
        "content": "Hi",
        "refusal": None,
        "annotations": [],
        "audio": None,
        "function_call": None,
        "reasoning_content": "hm",
        "tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    }
    assert read_chat({"messages": [message]}).messages == (Message("assistant", (Reasoning("hm"), Text("Hi"), CALL)),)


def test_carried_signature_of_another_dialect_is_restored() -> None:
    state = OpaqueState("anthropic_messages", "sig")
    details = [
        {"type": "reasoning.text", "text": "hm", "signature": encode_carrier(state, caller_dialect="openai_chat"), "index": 0, "at": 0}
    ]
    message = {"role": "assistant", "content": "Hi", "reasoning_content": "hm", "reasoning_details": details}
    assert read_chat({"messages": [message]}).messages[0].parts == (Reasoning("hm", state), Text("Hi"))


IMAGE = "messages[0].content[0].image_url"
UNINTERPRETABLE: list[tuple[dict[str, Any], str | None]] = [
    ({"tool_choice": "sometimes"}, "tool_choice"),
    ({"tool_choice": {"type": "allowed_tools", "allowed_tools": {}}}, "tool_choice"),
    ({"tools": [{"type": "function"}]}, "tools[0].function"),
    ({"response_format": {"type": "json_schema", "value": 5}}, None),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "data:audio/wav;base64,AA"}]}]}, IMAGE),
    ({"messages": [{"role": "tool", "content": "42"}]}, "messages[0].tool_call_id"),
    ({"messages": [{"role": "robot", "content": "42"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": [{"type": "file", "file": {}}]}]}, "messages[0].content[0].file"),
    ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format.json_schema.schema"),
]


@pytest.mark.parametrize(("body", "param"), UNINTERPRETABLE, ids=str)
def test_uninterpretable_field_is_refused_by_path(body: dict[str, Any], param: str | None) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_chat(body)
    assert refused.value.param == param


# Raw prompts.
def test_prompt_instead_of_messages_is_a_raw_prompt() -> None:
    for messages in (b"", b'"messages":[],', b'"messages":null,'):
        request = DIALECT.parse_request(b'{"model":"m",' + messages + b'"prompt":"Once"}')
        assert request.raw_prompt
        assert "messages" not in request.body
        assert DIALECT.read_request(request.body) == ChatRequest("openai_chat", "m", prompt="Once")


def test_string_messages_become_a_user_message_unless_preprocessing_is_off() -> None:
    request = DIALECT.parse_request(b'{"model":"m","messages":"Hi","do_preprocess":true}')
    assert not request.raw_prompt
    assert json.loads(request.body.write()) == {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    assert DIALECT.read_request(request.body).messages == (Message("user", (Text("Hi"),)),)
    raw = DIALECT.parse_request(b'{"model":"m","messages":"Hi","do_preprocess":false}')
    assert raw.raw_prompt
    assert json.loads(raw.body.write()) == {"model": "m", "prompt": "Hi"}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "messages"),
        ({"messages": []}, "messages"),
        ({"prompt": None}, "messages"),
        ({"prompt": "a", "messages": "b"}, "prompt"),
        ({"prompt": "a", "messages": [{"role": "user", "content": "b"}]}, "prompt"),
        ({"prompt": ["a"]}, "prompt"),
    ],
    ids=str,
)
def test_absent_conflicting_or_list_prompt_is_refused(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        DIALECT.parse_request(json.dumps({"model": "m", **fields}).encode())
    assert refused.value.param == param


@pytest.mark.parametrize("include_usage", [True, False])
def test_preparing_the_upstream_body_sets_stream_and_include_usage(include_usage: bool) -> None:
    body = Body(model="m", stream=Raw(b"false"), stream_options=Raw(b'{"x":1}'))
    DIALECT.prepare_upstream_body(body, True, include_usage=include_usage)
    expected = {"stream_options": {"x": 1, "include_usage": True}} if include_usage else {}
    assert json.loads(body.write()) == {"model": "m", "stream": True, **expected}
    DIALECT.prepare_upstream_body(body, False, include_usage=include_usage)
    assert body == {"model": "m"}
