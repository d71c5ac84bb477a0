"""DeepSeek: its thinking, its JSON mode, what it does nothing about; in each of its three dialects."""

import json
from typing import Any

import pytest

from providers.adapters.provider import InvalidOption
from providers.canonical.errors import QuotaExhausted, Unsupported, UpstreamFailed
from providers.canonical.raw_json import Body
from providers.catalogue import build_provider
from providers.dialect import DropPolicy
from providers.dialects.catalogue import CHAT_DIALECTS
from providers.dialects.openai_chat import OpenAIChat
from providers.hosted.deepseek.adapter import DeepSeek
from tests.laws.asking import everything
from tests.laws.bending import bent
from tests.laws.chats import STAMP

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
def test_each_dialect_has_its_address(dialect: str, base: str, address: str) -> None:
    assert str(DEEPSEEK.url(base, dialect)) == address


def test_its_beta_is_asked_for_chat_alone() -> None:
    beta = build_provider("deepseek", "ds", {"beta": True})
    assert str(beta.url("https://api.deepseek.com", "openai_chat")) == "https://api.deepseek.com/beta/chat/completions"
    assert str(beta.url("https://api.deepseek.com", "openai_responses")) == "https://api.deepseek.com/responses"
    with pytest.raises(InvalidOption, match="beta"):
        DeepSeek("ds", {"beta": "yes"})


def test_its_messages_are_asked_with_anthropics_headers() -> None:
    assert DEEPSEEK.headers("k", "anthropic_messages") == [("x-api-key", "k"), ("anthropic-version", "2023-06-01")]
    assert DEEPSEEK.headers("k", "openai_chat") == [("authorization", "Bearer k")]


@pytest.mark.parametrize(
    ("dialect", "asked", "off"),
    [
        ("openai_chat", {**CHAT, "tool_choice": "required"}, {"thinking": {"type": "disabled"}}),
        ("openai_chat", {**CHAT, "tool_choice": {"type": "function", "function": {"name": "add"}}}, {"thinking": {"type": "disabled"}}),
        ("anthropic_messages", {**MESSAGES, "tool_choice": {"type": "any"}}, {"thinking": {"type": "disabled"}}),
        ("openai_responses", {**RESPONSES, "tool_choice": "required"}, {"reasoning": {"effort": "none"}}),
    ],
)
def test_a_forced_call_turns_off_thinking_that_nobody_asked_for(dialect: str, asked: dict[str, Any], off: dict[str, Any]) -> None:
    sent, dropped, _ = bent(DEEPSEEK, asked, dialect=dialect)
    assert (sent, dropped) == ({**asked, **off}, [])


@pytest.mark.parametrize(
    ("dialect", "asked"),
    [
        ("openai_chat", {**CHAT, "tool_choice": "required", "reasoning_effort": "low"}),
        ("openai_chat", {**CHAT, "tool_choice": "required", "thinking": {"type": "enabled"}}),
        ("anthropic_messages", {**MESSAGES, "tool_choice": {"type": "tool", "name": "add"}, "thinking": {"type": "enabled"}}),
        ("openai_responses", {**RESPONSES, "tool_choice": {"type": "function", "name": "add"}, "reasoning": {"effort": "high"}}),
    ],
)
def test_a_forced_call_beside_thinking_that_was_asked_for_is_refused_by_name(dialect: str, asked: dict[str, Any]) -> None:
    with pytest.raises(Unsupported, match="while it thinks") as refused:
        bent(DEEPSEEK, asked, dialect=dialect)
    assert refused.value.param == "tool_choice"
    sent, dropped, _ = bent(DEEPSEEK, asked, everything, dialect)
    assert "tool_choice" not in sent
    assert dropped == ["tool_choice"]


def test_a_choice_that_forces_nothing_lets_it_think() -> None:
    for choice in ("auto", "none"):
        asked = {**CHAT, "tool_choice": choice}
        assert bent(DEEPSEEK, asked)[0] == asked


def test_no_effort_is_no_thinking() -> None:
    sent, dropped, _ = bent(DEEPSEEK, {**CHAT, "reasoning_effort": "none", "temperature": 0.3})
    assert (sent, dropped) == ({**CHAT, "thinking": {"type": "disabled"}, "temperature": 0.3}, [])


@pytest.mark.parametrize("field", ["temperature", "presence_penalty", "frequency_penalty"])
def test_what_thinking_makes_of_no_effect_is_refused_unless_it_says_nothing(field: str) -> None:
    with pytest.raises(Unsupported, match="while it thinks") as refused:
        bent(DEEPSEEK, {**CHAT, field: 0.5})
    assert refused.value.param == field
    assert bent(DEEPSEEK, {**CHAT, field: 1 if field == "temperature" else 0})[0] == CHAT
    quiet = {**CHAT, "model": "deepseek-chat", field: 0.5}
    assert bent(DEEPSEEK, quiet)[0] == quiet


def test_thoughts_before_a_call_go_back_with_it() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    thought = {"role": "assistant", "content": "", "reasoning_content": "Let me add.", "tool_calls": [call]}
    foreign = {"role": "assistant", "content": None, "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "c1", "content": "3"}
    sent, dropped, _ = bent(DEEPSEEK, {**CHAT, "messages": [*USER, thought, result, foreign, result]})
    assert sent["messages"] == [*USER, thought, result, {**foreign, "reasoning_content": ""}, result]
    assert dropped == []
    off = {**CHAT, "thinking": {"type": "disabled"}, "messages": [*USER, foreign, result]}
    assert bent(DEEPSEEK, off)[0] == off


ANSWER = {
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
def test_reasoning_comes_back_through_callers_of_every_dialect(caller: str) -> None:
    """What it answered, told to the caller, sent back as an SDK does, and said to it again."""
    theirs, ours = OpenAIChat(), CHAT_DIALECTS[caller]
    told = json.loads(ours.write_response(theirs.read_response(json.dumps(ANSWER).encode()), STAMP))
    match caller:
        case "openai_chat":
            asked = {"messages": [*USER, told["choices"][0]["message"], {"role": "tool", "tool_call_id": "call_1", "content": "3"}]}
        case "openai_responses":
            result = {"type": "function_call_output", "call_id": "call_1", "output": "3"}
            asked = {"input": [{"role": "user", "content": "Hi"}, *told["output"], result]}
        case _:
            results = [{"type": "tool_result", "tool_use_id": "call_1", "content": "3"}]
            asked = {
                "max_tokens": 9,
                "messages": [*USER, {"role": "assistant", "content": told["content"]}, {"role": "user", "content": results}],
            }
    chat = ours.read_request(ours.parse_request(json.dumps({"model": "m", **asked}).encode()).body)
    from_caller = theirs.write_request(chat, conceding(caller))
    body = Body.read(from_caller.write())
    DEEPSEEK.adapt_request(body, "openai_chat", everything)
    (answer,) = [each for each in json.loads(body.write())["messages"] if each["role"] == "assistant"]
    assert answer["reasoning_content"] == "Let me add."
    assert answer["tool_calls"][0]["id"] == "call_1"


def conceding(caller: str) -> DropPolicy:
    return DropPolicy(everything, CHAT_DIALECTS[caller].field_names, "a host")


def test_a_schema_is_asked_for_in_words_and_looked_at() -> None:
    format = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA, "strict": True}}
    told_first = [{"role": "system", "content": "Be kind."}, *USER]
    sent, _, guiding = bent(DEEPSEEK, {"model": "m", "messages": told_first, "response_format": format})
    assert guiding is not None
    assert guiding.enforcement == "validated"
    assert sent["response_format"] == {"type": "json_object"}
    assert [each["role"] for each in sent["messages"]] == ["system", "system", "user"]
    instruction = sent["messages"][1]["content"]
    assert "json" in instruction
    assert json.loads(instruction.partition("\n")[2]) == SCHEMA
    listed = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "array"}}}
    with pytest.raises(Unsupported, match="objects alone"):
        bent(DEEPSEEK, {"model": "m", "messages": USER, "response_format": listed})


def test_strict_tools_are_its_betas() -> None:
    strict = {"type": "function", "function": {"name": "add", "parameters": SCHEMA, "strict": True}}
    with pytest.raises(Unsupported, match="beta") as refused:
        bent(DEEPSEEK, {**CHAT, "tools": [strict]})
    assert refused.value.param == "tools[0].function.strict"
    assert bent(DeepSeek("ds", {"beta": True}), {**CHAT, "tools": [strict]})[0]["tools"] == [strict]


@pytest.mark.parametrize(
    ("field", "value"), [("n", 2), ("seed", 4), ("logit_bias", {"5": 1}), ("parallel_tool_calls", False), ("top_k", 3)]
)
def test_what_it_would_pass_over_is_refused(field: str, value: Any) -> None:
    with pytest.raises(Unsupported) as refused:
        bent(DEEPSEEK, {**CHAT, field: value})
    assert refused.value.param == field


def test_its_messages_say_what_they_do_nothing_about() -> None:
    with pytest.raises(Unsupported) as refused:
        bent(DEEPSEEK, {**MESSAGES, "top_k": 4}, dialect="anthropic_messages")
    assert refused.value.param == "top_k"
    said = {
        **MESSAGES,
        "service_tier": "auto",
        "thinking": {"type": "enabled", "budget_tokens": 2000},
        "system": [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    }
    with pytest.raises(Unsupported, match="disable_parallel_tool_use"):
        bent(DEEPSEEK, said, dialect="anthropic_messages")
    sent, dropped, _ = bent(DEEPSEEK, said, lambda field: field.startswith("tool_choice"), "anthropic_messages")
    assert (sent["thinking"], sent["tool_choice"]) == ({"type": "enabled"}, {"type": "auto"})
    assert sorted(dropped) == ["cache_control", "service_tier", "thinking.budget_tokens", "tool_choice.disable_parallel_tool_use"]
    adaptive = bent(DEEPSEEK, {**MESSAGES, "thinking": {"type": "adaptive"}}, dialect="anthropic_messages")[0]
    assert adaptive["thinking"] == {"type": "enabled"}
    filled = {key: value for key, value in MESSAGES.items() if key != "max_tokens"}
    assert bent(DEEPSEEK, filled, dialect="anthropic_messages")[0]["max_tokens"] == 8192


CALL: dict[str, Any] = {"type": "tool_use", "id": "c1", "name": "add", "input": {}}
THOUGHT = {"type": "thinking", "thinking": "Let me add.", "signature": "s"}
RESULT: dict[str, Any] = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "3"}]}


def test_a_call_goes_to_its_messages_with_the_thoughts_that_it_came_with_or_with_empty_ones() -> None:
    foreign: dict[str, Any] = {"role": "assistant", "content": [CALL]}
    own: dict[str, Any] = {"role": "assistant", "content": [THOUGHT, CALL]}
    asked = {**MESSAGES, "messages": [*USER, foreign, RESULT, own, RESULT]}
    empty = {"type": "thinking", "thinking": "", "signature": ""}
    sent, dropped, _ = bent(DEEPSEEK, asked, dialect="anthropic_messages")
    assert sent["messages"] == [*USER, {"role": "assistant", "content": [empty, CALL]}, RESULT, own, RESULT]
    assert dropped == []
    quiet = {**asked, "thinking": {"type": "disabled"}}
    assert bent(DEEPSEEK, quiet, dialect="anthropic_messages")[0] == quiet


@pytest.mark.parametrize("kind", ["document", "search_result", "container_upload", "mcp_tool_use", "mcp_tool_result"])
def test_blocks_that_its_messages_do_not_read_are_refused_where_they_stand(kind: str) -> None:
    asked = {**MESSAGES, "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": kind}]}]}
    with pytest.raises(Unsupported, match=kind) as refused:
        bent(DEEPSEEK, asked, dialect="anthropic_messages")
    assert refused.value.param == "messages[0].content[1]"
    sent, dropped, _ = bent(DEEPSEEK, asked, everything, "anthropic_messages")
    assert sent["messages"] == [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]
    assert dropped == ["messages[0].content[1]"]


def test_what_changes_no_answer_of_its_messages_is_reported() -> None:
    redacted = {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}, {"type": "text", "text": "Hm."}]}
    failed = {"role": "user", "content": [{**RESULT["content"][0], "is_error": True}]}
    asked = {**MESSAGES, "messages": [*USER, redacted, {"role": "assistant", "content": [THOUGHT, CALL]}, failed]}
    sent, dropped, _ = bent(DEEPSEEK, asked, dialect="anthropic_messages")
    assert sent["messages"][1]["content"] == [{"type": "text", "text": "Hm."}]
    assert sent["messages"][3] == failed
    assert dropped == ["messages[1].content[0]", "messages[3].content[0].is_error"]


def test_blank_lines_that_keep_the_connection_begin_no_answer() -> None:
    chat = OpenAIChat()
    raw = b"\n\n\n" + json.dumps(ANSWER).encode()
    assert chat.edit_response(raw, STAMP).finish_reason == "tool_calls"
    assert chat.read_response(raw) == chat.read_response(json.dumps(ANSWER).encode())
    stream = (
        b": keep-alive\n\n: keep-alive\n\ndata: "
        + json.dumps({"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}).encode()
        + b"\n\n"
    )
    editor = chat.stream_editor(STAMP)
    assert b"keep-alive" not in editor.feed(stream) + editor.finish()


def test_an_answer_that_its_host_gave_up_is_none() -> None:
    chat = OpenAIChat()
    given_up = {"choices": [{"index": 0, "message": {"content": "Hal"}, "finish_reason": "insufficient_system_resource"}]}
    with pytest.raises(UpstreamFailed):
        chat.edit_response(json.dumps(given_up).encode(), STAMP)
    with pytest.raises(UpstreamFailed):
        chat.read_response(json.dumps(given_up).encode())
    chunk: dict[str, Any] = {"choices": [{"index": 0, "delta": {}, "finish_reason": "insufficient_system_resource"}]}
    editor = chat.stream_editor(STAMP)
    editor.feed(b"data: " + json.dumps(chunk).encode() + b"\n\n")
    assert isinstance(editor.failure, UpstreamFailed)


def test_an_empty_purse_is_no_credential_that_is_refused() -> None:
    body = b'{"error":{"message":"Insufficient Balance","type":"unknown_error","code":"invalid_request_error"}}'
    assert type(DEEPSEEK.read_error(402, {}, body)) is QuotaExhausted
