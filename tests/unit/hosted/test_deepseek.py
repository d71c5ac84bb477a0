"""DeepSeek: its thinking, its JSON mode, and the fields that it ignores, in each of its three dialects."""

import json
from typing import Any

import pytest

from providers.adapters.options import InvalidOption
from providers.canonical.errors import QuotaExhausted, Unsupported, UpstreamFailed
from providers.canonical.raw_json import Body
from providers.catalogue import build_provider
from providers.dialects.catalogue import CHAT_DIALECTS
from providers.dialects.openai_chat import OpenAIChat
from providers.drop_policy import DropPolicy
from providers.hosted.deepseek.adapter import DeepSeek
from tests.support.adapted_body import adapt_body
from tests.support.request_translation import drop_everything
from tests.support.strategies.chat_strategies import META

DEEPSEEK = DeepSeek("ds", {})
USER = [{"role": "user", "content": "Hi"}]
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
CHAT: dict[str, Any] = {"model": "deepseek-v4-flash", "messages": USER, "tools": [TOOL]}
MESSAGES: dict[str, Any] = {"model": "deepseek-v4-pro", "messages": USER, "max_tokens": 9}
RESPONSES: dict[str, Any] = {"model": "deepseek-v4-pro", "input": "Hi"}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@pytest.mark.parametrize(
    ("dialect", "base", "address"),
    [
        ("openai_chat", "https://api.deepseek.com", "https://api.deepseek.com/chat/completions"),
        ("openai_responses", "http://127.0.0.1:9/some/prefix", "http://127.0.0.1:9/some/prefix/responses"),
        ("anthropic_messages", "http://127.0.0.1:9/some/prefix/", "http://127.0.0.1:9/some/prefix/anthropic/v1/messages"),
        ("anthropic_messages", "https://api.deepseek.com/v1", "https://api.deepseek.com/anthropic/v1/messages"),
    ],
)
def test_each_dialect_is_sent_to_its_own_url(dialect: str, base: str, address: str) -> None:
    assert str(DEEPSEEK.url(base, dialect)) == address


def test_beta_option_changes_the_chat_url_alone_and_must_be_a_boolean() -> None:
    beta = build_provider("deepseek", "ds", {"beta": True})
    assert str(beta.url("https://api.deepseek.com", "openai_chat")) == "https://api.deepseek.com/beta/chat/completions"
    assert str(beta.url("https://api.deepseek.com", "openai_responses")) == "https://api.deepseek.com/responses"
    with pytest.raises(InvalidOption, match="beta"):
        DeepSeek("ds", {"beta": "yes"})


def test_anthropic_messages_requests_carry_anthropic_headers() -> None:
    assert DEEPSEEK.headers("k", "anthropic_messages") == [("x-api-key", "k"), ("anthropic-version", "2023-06-01")]
    assert DEEPSEEK.headers("k", "openai_chat") == [("authorization", "Bearer k")]


@pytest.mark.parametrize(
    ("dialect", "fields", "thinking_off"),
    [
        ("openai_chat", {**CHAT, "tool_choice": "required"}, {"thinking": {"type": "disabled"}}),
        ("openai_chat", {**CHAT, "tool_choice": {"type": "function", "function": {"name": "add"}}}, {"thinking": {"type": "disabled"}}),
        ("anthropic_messages", {**MESSAGES, "tool_choice": {"type": "any"}}, {"thinking": {"type": "disabled"}}),
        ("openai_responses", {**RESPONSES, "tool_choice": "required"}, {"reasoning": {"effort": "none"}}),
    ],
)
def test_forced_tool_choice_disables_thinking_that_was_not_requested(
    dialect: str, fields: dict[str, Any], thinking_off: dict[str, Any]
) -> None:
    sent, dropped, _ = adapt_body(DEEPSEEK, fields, dialect=dialect)
    assert (sent, dropped) == ({**fields, **thinking_off}, [])


@pytest.mark.parametrize(
    ("dialect", "fields"),
    [
        ("openai_chat", {**CHAT, "tool_choice": "required", "reasoning_effort": "low"}),
        ("openai_chat", {**CHAT, "tool_choice": "required", "thinking": {"type": "enabled"}}),
        ("anthropic_messages", {**MESSAGES, "tool_choice": {"type": "tool", "name": "add"}, "thinking": {"type": "enabled"}}),
        ("openai_responses", {**RESPONSES, "tool_choice": {"type": "function", "name": "add"}, "reasoning": {"effort": "high"}}),
    ],
)
def test_forced_tool_choice_with_requested_thinking_is_refused_naming_tool_choice(dialect: str, fields: dict[str, Any]) -> None:
    with pytest.raises(Unsupported, match="while thinking") as refused:
        adapt_body(DEEPSEEK, fields, dialect=dialect)
    assert refused.value.param == "tool_choice"
    sent, dropped, _ = adapt_body(DEEPSEEK, fields, drop_everything, dialect)
    assert "tool_choice" not in sent
    assert dropped == ["tool_choice"]


def test_auto_and_none_tool_choice_leave_thinking_on() -> None:
    for choice in ("auto", "none"):
        request = {**CHAT, "tool_choice": choice}
        assert adapt_body(DEEPSEEK, request)[0] == request


def test_reasoning_effort_none_becomes_disabled_thinking() -> None:
    sent, dropped, _ = adapt_body(DEEPSEEK, {**CHAT, "reasoning_effort": "none", "temperature": 0.3})
    assert (sent, dropped) == ({**CHAT, "thinking": {"type": "disabled"}, "temperature": 0.3}, [])


@pytest.mark.parametrize("field", ["presence_penalty", "frequency_penalty"])
def test_sampling_field_without_effect_while_thinking_is_refused_unless_neutral(field: str) -> None:
    with pytest.raises(Unsupported, match="while thinking") as refused:
        adapt_body(DEEPSEEK, {**CHAT, field: 0.5})
    assert refused.value.param == field
    assert adapt_body(DEEPSEEK, {**CHAT, field: 0})[0] == CHAT

    request_without_thinking = {**CHAT, "model": "deepseek-chat", field: 0.5}
    assert adapt_body(DEEPSEEK, request_without_thinking)[0] == request_without_thinking


def test_temperature_is_a_hint_while_thinking():
    for temperature in (0, 0.1):
        assert adapt_body(DEEPSEEK, {**CHAT, "temperature": temperature})[:2] == (CHAT, ["temperature"])
    assert adapt_body(DEEPSEEK, {**CHAT, "temperature": 1})[:2] == (CHAT, [])


def test_assistant_tool_calls_are_sent_with_reasoning_content_even_if_empty() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    own_message = {"role": "assistant", "content": "", "reasoning_content": "Let me add.", "tool_calls": [call]}
    foreign_message = {"role": "assistant", "content": None, "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "c1", "content": "3"}
    sent, dropped, _ = adapt_body(DEEPSEEK, {**CHAT, "messages": [*USER, own_message, result, foreign_message, result]})
    assert sent["messages"] == [*USER, own_message, result, {**foreign_message, "reasoning_content": ""}, result]
    assert dropped == []
    request_without_thinking = {**CHAT, "thinking": {"type": "disabled"}, "messages": [*USER, foreign_message, result]}
    assert adapt_body(DEEPSEEK, request_without_thinking)[0] == request_without_thinking


TOOL_CALL_RESPONSE = {
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": "",
                "reasoning_content": "Let me add.",
                "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"x":1}'}}],
            },
        }
    ]
}


@pytest.mark.parametrize("caller", ["openai_chat", "openai_responses", "anthropic_messages"])
def test_reasoning_round_trips_through_every_caller_dialect(caller: str) -> None:
    """Reasoning goes from DeepSeek to the caller, back in the next request as an SDK sends it, and to DeepSeek."""
    upstream_dialect, caller_dialect = OpenAIChat(), CHAT_DIALECTS[caller]
    caller_response = json.loads(
        caller_dialect.write_response(upstream_dialect.read_response(json.dumps(TOOL_CALL_RESPONSE).encode()), META)
    )
    match caller:
        case "openai_chat":
            next_request = {
                "messages": [*USER, caller_response["choices"][0]["message"], {"role": "tool", "tool_call_id": "call_1", "content": "3"}]
            }
        case "openai_responses":
            result = {"type": "function_call_output", "call_id": "call_1", "output": "3"}
            next_request = {"input": [{"role": "user", "content": "Hi"}, *caller_response["output"], result]}
        case _:
            results = [{"type": "tool_result", "tool_use_id": "call_1", "content": "3"}]
            next_request = {
                "max_tokens": 9,
                "messages": [*USER, {"role": "assistant", "content": caller_response["content"]}, {"role": "user", "content": results}],
            }
    chat = caller_dialect.read_request(caller_dialect.parse_request(json.dumps({"model": "m", **next_request}).encode()).body)
    translated_body = upstream_dialect.write_request(chat, drop_policy_for(caller))
    body = Body.read(translated_body.write())
    DEEPSEEK.adapt_request(body, "openai_chat", drop_everything)
    (assistant_message,) = [each for each in json.loads(body.write())["messages"] if each["role"] == "assistant"]
    assert assistant_message["reasoning_content"] == "Let me add."
    assert assistant_message["tool_calls"][0]["id"] == "call_1"


def drop_policy_for(caller: str) -> DropPolicy:
    return DropPolicy(drop_everything, CHAT_DIALECTS[caller].field_names, "a host")


def test_json_schema_becomes_json_object_with_an_instruction_and_is_validated() -> None:
    format = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA, "strict": True}}
    messages_with_system = [{"role": "system", "content": "Be kind."}, *USER]
    sent, _, constraint_plan = adapt_body(DEEPSEEK, {"model": "m", "messages": messages_with_system, "response_format": format})
    assert constraint_plan is not None
    assert constraint_plan.enforcement == "validated"
    assert sent["response_format"] == {"type": "json_object"}
    assert [each["role"] for each in sent["messages"]] == ["system", "system", "user"]
    instruction = sent["messages"][1]["content"]
    assert "json" in instruction
    assert json.loads(instruction.partition("\n")[2]) == SCHEMA
    array_format = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "array"}}}
    with pytest.raises(Unsupported, match="only supports JSON objects"):
        adapt_body(DEEPSEEK, {"model": "m", "messages": USER, "response_format": array_format})


def test_strict_tools_are_refused_without_the_beta_option() -> None:
    strict = {"type": "function", "function": {"name": "add", "parameters": SCHEMA, "strict": True}}
    with pytest.raises(Unsupported, match="beta") as refused:
        adapt_body(DEEPSEEK, {**CHAT, "tools": [strict]})
    assert refused.value.param == "tools[0].function.strict"
    assert adapt_body(DeepSeek("ds", {"beta": True}), {**CHAT, "tools": [strict]})[0]["tools"] == [strict]


@pytest.mark.parametrize(("field", "value"), [("n", 2), ("logit_bias", {"5": 1}), ("parallel_tool_calls", False), ("top_k", 3)])
def test_chat_field_that_deepseek_ignores_is_refused(field: str, value: Any) -> None:
    with pytest.raises(Unsupported) as refused:
        adapt_body(DEEPSEEK, {**CHAT, field: value})
    assert refused.value.param == field


def test_messages_fields_that_deepseek_ignores_are_refused_or_reported() -> None:
    with pytest.raises(Unsupported) as refused:
        adapt_body(DEEPSEEK, {**MESSAGES, "top_k": 4}, dialect="anthropic_messages")
    assert refused.value.param == "top_k"
    request = {
        **MESSAGES,
        "service_tier": "auto",
        "thinking": {"type": "enabled", "budget_tokens": 2000},
        "system": [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    }
    with pytest.raises(Unsupported, match="disable_parallel_tool_use"):
        adapt_body(DEEPSEEK, request, dialect="anthropic_messages")
    sent, dropped, _ = adapt_body(DEEPSEEK, request, lambda field: field.startswith("tool_choice"), "anthropic_messages")
    assert (sent["thinking"], sent["tool_choice"]) == ({"type": "enabled"}, {"type": "auto"})
    assert sorted(dropped) == ["cache_control", "service_tier", "thinking.budget_tokens", "tool_choice.disable_parallel_tool_use"]
    adaptive = adapt_body(DEEPSEEK, {**MESSAGES, "thinking": {"type": "adaptive"}}, dialect="anthropic_messages")[0]
    assert adaptive["thinking"] == {"type": "enabled"}
    request_without_max_tokens = {key: value for key, value in MESSAGES.items() if key != "max_tokens"}
    assert adapt_body(DEEPSEEK, request_without_max_tokens, dialect="anthropic_messages")[0]["max_tokens"] == 8192


CALL: dict[str, Any] = {"type": "tool_use", "id": "c1", "name": "add", "input": {}}
THOUGHT = {"type": "thinking", "thinking": "Let me add.", "signature": "s"}
RESULT: dict[str, Any] = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "3"}]}


def test_tool_use_in_messages_is_sent_with_its_thinking_or_an_empty_thinking_block() -> None:
    foreign_message: dict[str, Any] = {"role": "assistant", "content": [CALL]}
    own_message: dict[str, Any] = {"role": "assistant", "content": [THOUGHT, CALL]}
    request = {**MESSAGES, "messages": [*USER, foreign_message, RESULT, own_message, RESULT]}
    empty_thinking = {"type": "thinking", "thinking": "", "signature": ""}
    sent, dropped, _ = adapt_body(DEEPSEEK, request, dialect="anthropic_messages")
    assert sent["messages"] == [*USER, {"role": "assistant", "content": [empty_thinking, CALL]}, RESULT, own_message, RESULT]
    assert dropped == []
    request_without_thinking = {**request, "thinking": {"type": "disabled"}}
    assert adapt_body(DEEPSEEK, request_without_thinking, dialect="anthropic_messages")[0] == request_without_thinking


@pytest.mark.parametrize("kind", ["document", "search_result", "container_upload", "mcp_tool_use", "mcp_tool_result"])
def test_unsupported_messages_content_block_is_refused_with_its_path(kind: str) -> None:
    request = {**MESSAGES, "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": kind}]}]}
    with pytest.raises(Unsupported, match=kind) as refused:
        adapt_body(DEEPSEEK, request, dialect="anthropic_messages")
    assert refused.value.param == "messages[0].content[1]"
    sent, dropped, _ = adapt_body(DEEPSEEK, request, drop_everything, "anthropic_messages")
    assert sent["messages"] == [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]
    assert dropped == ["messages[0].content[1]"]


def test_ignored_redacted_thinking_and_is_error_are_reported_without_refusal() -> None:
    redacted = {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}, {"type": "text", "text": "Hm."}]}
    failed_result = {"role": "user", "content": [{**RESULT["content"][0], "is_error": True}]}
    request = {**MESSAGES, "messages": [*USER, redacted, {"role": "assistant", "content": [THOUGHT, CALL]}, failed_result]}
    sent, dropped, _ = adapt_body(DEEPSEEK, request, dialect="anthropic_messages")
    assert sent["messages"][1]["content"] == [{"type": "text", "text": "Hm."}]
    assert sent["messages"][3] == failed_result
    assert dropped == ["messages[1].content[0]", "messages[3].content[0].is_error"]


def test_keep_alive_blank_lines_and_comments_are_not_part_of_the_response() -> None:
    chat = OpenAIChat()
    raw = b"\n\n\n" + json.dumps(TOOL_CALL_RESPONSE).encode()
    assert chat.edit_response(raw, META).finish_reason == "tool_calls"
    assert chat.read_response(raw) == chat.read_response(json.dumps(TOOL_CALL_RESPONSE).encode())
    stream = (
        b": keep-alive\n\n: keep-alive\n\ndata: "
        + json.dumps({"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}).encode()
        + b"\n\n"
    )
    editor = chat.stream_editor(META)
    assert b"keep-alive" not in editor.feed(stream) + editor.finish()


def test_finish_reason_insufficient_system_resource_is_a_failure() -> None:
    chat = OpenAIChat()
    aborted_response = {"choices": [{"index": 0, "message": {"content": "Hal"}, "finish_reason": "insufficient_system_resource"}]}
    with pytest.raises(UpstreamFailed):
        chat.edit_response(json.dumps(aborted_response).encode(), META)
    with pytest.raises(UpstreamFailed):
        chat.read_response(json.dumps(aborted_response).encode())
    chunk: dict[str, Any] = {"choices": [{"index": 0, "delta": {}, "finish_reason": "insufficient_system_resource"}]}
    editor = chat.stream_editor(META)
    editor.feed(b"data: " + json.dumps(chunk).encode() + b"\n\n")
    assert isinstance(editor.failure, UpstreamFailed)


def test_insufficient_balance_is_an_exhausted_quota_and_not_a_refused_credential() -> None:
    body = b'{"error":{"message":"Insufficient Balance","type":"unknown_error","code":"invalid_request_error"}}'
    assert type(DEEPSEEK.read_error(402, {}, body)) is QuotaExhausted


def test_result_of_each_call_follows_it_where_a_text_stands_between_calls() -> None:
    """DeepSeek answers 400 to results that come after several calls with a text between them (recording deepseek/22)."""
    calls = [
        {
            "role": "assistant",
            "content": f"Look at {id}",
            "tool_calls": [{"id": id, "type": "function", "function": {"name": "add", "arguments": "{}"}}],
        }
        for id in "ab"
    ]
    results = [{"role": "tool", "tool_call_id": id, "content": id} for id in "ab"]
    request = OpenAIChat().parse_request(json.dumps({**CHAT, "messages": [*USER, *calls, *results, *USER]}).encode())
    body = Body(request.body)
    DEEPSEEK.adapt_request(body, "openai_chat", drop_everything, None)
    sent = json.loads(body.write())["messages"]
    assert [each.get("tool_call_id") or "".join(call["id"] for call in each.get("tool_calls", ())) for each in sent] == [
        *("", "a", "a", "b", "b", "")
    ]
    assert request.repair is not None and request.repair.paths == ["messages[3]"]
