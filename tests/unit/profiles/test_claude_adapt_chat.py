"""Chats of other APIs for Claude: its rules are applied where the meaning stays the same, and else the field is refused by name."""

import json
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.routing import Target
from app.gateway.request_translation.recipient import Recipient
from app.gateway.request_translation.translate_chat import translate_chat
from app.gateway.request_translation.translated_request import TranslatedRequest
from providers.adapters.provider import Provider
from providers.canonical.chat import ChatRequest, Message, Text, Thinking
from providers.canonical.errors import Unsupported
from providers.canonical.raw_json import Body
from providers.dialects.anthropic_messages import AnthropicMessages
from providers.dialects.catalogue import CHAT_DIALECTS
from providers.drop_policy import DropPolicy
from providers.hosted.anthropic.adapter import Anthropic
from providers.profiles.claude.adapt_chat import adapt_claude_chat
from providers.profiles.claude.models import find_profile
from providers.structured_output import read_constraint
from tests.support.request_translation import MEDIA, drop_everything, drop_nothing, make_source
from tests.support.strategies.chat_strategies import bounded

HOST = Anthropic("claude", {})
OLD, MIDDLE, NEW, NEWEST, UNKNOWN_MODEL = "claude-haiku-4-5", "claude-sonnet-4-6", "claude-opus-5", "claude-fable-5-1", "some-model"
HI = {"role": "user", "content": "Hi"}
FUNCTION_TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
CLOSED_SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
OPEN_SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


async def translate(
    model: str, may_drop: Callable[[str], bool] = drop_nothing, dialect: str = "openai_chat", host: Provider = HOST, **fields: Any
) -> tuple[dict[str, Any], list[str], str | None]:
    """The upstream body, the dropped fields, and how the output constraint is held (None: there is none)."""
    translated = await translate_request(model, may_drop, dialect, host, **fields)
    body = json.loads(translated.raw)
    # It must be a valid request to Anthropic.
    AnthropicMessages().parse_request(translated.raw)
    return body, translated.dropped, None if translated.constraint_plan is None else translated.constraint_plan.enforcement


async def translate_request(
    model: str, may_drop: Callable[[str], bool] = drop_nothing, dialect: str = "openai_chat", host: Provider = HOST, **fields: Any
) -> TranslatedRequest:
    default_fields = {"messages": [HI]} if dialect == "openai_chat" else {}
    raw = json.dumps({"model": "m", **default_fields, **fields}).encode()
    caller_dialect = CHAT_DIALECTS[dialect]
    request = caller_dialect.parse_request(raw)
    source = make_source(request, raw, caller_dialect, MEDIA, may_drop, constraint=read_constraint(dialect, request.body))
    return await translate_chat(source, AnthropicMessages(), Recipient(host, Target(provider="claude", model=model)))


def tool(name: str = "f", strict: bool | None = None, **parameters: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters, **({} if strict is None else {"strict": strict})}}


def json_schema_format(schema: Any, **more: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "n", "schema": schema, **more}}


REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    (MIDDLE, {"temperature": 1.5}, "temperature", "from 0 to 1"),
    (NEW, {"top_k": 5}, "top_k", "only the default"),
    (MIDDLE, {"top_k": 5, "reasoning_effort": "low"}, "top_k", "while thinking"),
    (MIDDLE, {"messages": [{"role": "user", "content": " "}]}, "messages", "white space"),
    (MIDDLE, {"messages": [HI, {"role": "assistant", "content": "So"}]}, "messages[1]", "does not support prefill"),
    (OLD, {"messages": [HI, {"role": "assistant", "content": "So"}], "reasoning_effort": "low"}, "messages[1]", "while thinking"),
    (
        OLD,
        {"messages": [HI, {"role": "assistant", "content": "{"}], "response_format": json_schema_format(CLOSED_SCHEMA)},
        "messages[1]",
        "schema",
    ),
    (OLD, {"reasoning_effort": "low", "max_tokens": 1000}, "reasoning_effort", "at least 1024 tokens"),
    (OLD, {"reasoning_effort": "low", "tools": [FUNCTION_TOOL], "tool_choice": "required"}, "tool_choice", "with a thinking budget"),
    (NEWEST, {"tools": [FUNCTION_TOOL], "tool_choice": {"type": "function", "function": {"name": "f"}}}, "tool_choice", "cannot be forced"),
    (MIDDLE, {"tools": [tool("get.weather", type="object")]}, "tools[0]", "^[a-zA-Z0-9_-]{1,128}$"),
    (MIDDLE, {"tools": [tool(type="string")]}, "tools[0]", "object"),
    (MIDDLE, {"tools": [tool(type="object", anyOf=[{"type": "string"}])]}, "tools[0]", "anyOf"),
    (MIDDLE, {"tools": [tool(type="object", properties={"a b": {}})]}, "tools[0]", "^[a-zA-Z0-9_.-]{1,64}$"),
    (MIDDLE, {"guided_regex": "a+"}, "guided_regex", "JSON schema"),
]


@pytest.mark.parametrize(("model", "fields", "param", "rule"), REFUSED)
async def test_request_that_breaks_a_claude_rule_is_refused_with_the_rule(model: str, fields: dict[str, Any], param: str, rule: str):
    with pytest.raises(Unsupported, match=re.escape(rule)) as refused:
        await translate(model, **fields)
    assert refused.value.param == param
    if param != "messages":  # no request is left without them
        _, dropped, _ = await translate(model, drop_everything, **fields)
        assert param in dropped


@pytest.mark.parametrize(
    ("tools", "held"),
    [
        ([tool(strict=True, type="object", properties={"a": {"type": "integer", "minimum": 1}})], "tools[0].strict"),
        # At most 20 strict tools, and at most 24 optional properties in all of them.
        ([tool(f"f{at}", strict=True, type="object") for at in range(21)], "tools[20].strict"),
        (
            [tool(f"f{at}", True, type="object", properties={f"p{n}": {"type": "null"} for n in range(13)}) for at in range(2)],
            "tools[1].strict",
        ),
    ],
)
async def test_strict_tool_that_breaks_a_claude_rule_is_held_to_its_schema_by_the_gateway(tools: list[dict[str, Any]], held: str):
    translated = await translate_request(MIDDLE, tools=tools)
    assert translated.emulation is not None and translated.emulation.fields == (held,) and translated.dropped == []
    written = json.loads(translated.raw)["tools"]
    assert [each.get("strict", False) for each in written] == [True] * (len(tools) - 1) + [False]


ACCEPTED: list[tuple[str, dict[str, Any], dict[str, Any], list[str]]] = [
    # 1 is the default.
    (NEW, {"temperature": 1, "top_p": 1}, {}, []),
    (NEW, {"temperature": 0}, {}, ["temperature"]),
    (NEW, {"temperature": 0.1}, {}, ["temperature"]),  # LlamaIndex's default
    (NEW, {"top_p": 0.5}, {}, ["top_p"]),
    (MIDDLE, {"temperature": 0.7, "top_p": 0.9}, {"temperature": 0.7}, ["top_p"]),  # Open WebUI's defaults
    ("claude-sonnet-4-5", {"temperature": 0.7, "top_p": 0.9, "top_k": 5}, {"temperature": 0.7, "top_k": 5}, ["top_p"]),
    (NEWEST, {"temperature": 0.7, "top_p": 0.9}, {}, ["temperature", "top_p"]),
    # Thinking is switched off as the model has it, or as low as it goes.
    (
        "claude-opus-5-5",
        {"reasoning_effort": "none"},
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
        ["reasoning_effort"],
    ),
    ("claude-sonnet-5-5", {"reasoning_effort": "none"}, {"thinking": {"type": "between_tools"}}, []),
    ("claude-haiku-5-5", {"reasoning_effort": "none"}, {"thinking": {"type": "disabled"}}, []),
    ("claude-opus-5", {"reasoning_effort": "max"}, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}, []),
    ("claude-opus-6-1", {"reasoning_effort": "max"}, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}, []),
    (MIDDLE, {"temperature": 0.2, "top_p": 1}, {"temperature": 0.2}, []),
    (UNKNOWN_MODEL, {"temperature": 0.2, "top_p": 0.9}, {"temperature": 0.2, "top_p": 0.9}, []),
    (
        MIDDLE,
        {"top_p": 0.95, "reasoning_effort": "low"},
        {"top_p": 0.95, "thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
        [],
    ),
    # Efforts, limited to those that the model has.
    (NEW, {"reasoning_effort": "xhigh"}, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "xhigh"}}, []),
    (MIDDLE, {"reasoning_effort": "xhigh"}, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}, ["reasoning_effort"]),
    (MIDDLE, {"reasoning_effort": "none"}, {"thinking": {"type": "disabled"}}, []),
    # Without a token limit, the budget is added to the default.
    (OLD, {"reasoning_effort": "low"}, {"thinking": {"type": "enabled", "budget_tokens": 2048}, "max_tokens": 8192 + 2048}, []),
    (
        OLD,
        {"reasoning_effort": "high", "max_tokens": 4000},
        {"thinking": {"type": "enabled", "budget_tokens": 3999}, "max_tokens": 4000},
        [],
    ),
    (
        "claude-opus-4-5",
        {"reasoning_effort": "medium"},
        {"thinking": {"type": "enabled", "budget_tokens": 8192}, "output_config": {"effort": "medium"}, "max_tokens": 16384},
        [],
    ),
    # A call may be forced with adaptive thinking (recorded: anthropic/31-count-tokens).
    (
        MIDDLE,
        {"reasoning_effort": "low", "tools": [FUNCTION_TOOL], "tool_choice": "required"},
        {
            "thinking": {"type": "adaptive"},
            "output_config": {"effort": "low"},
            "tools": [{"name": "f", "input_schema": {"type": "object"}}],
            "tool_choice": {"type": "any"},
        },
        [],
    ),
    # Arguments are always an object, even if the schema does not say so.
    (MIDDLE, {"tools": [tool(properties={})]}, {"tools": [{"name": "f", "input_schema": {"type": "object", "properties": {}}}]}, []),
    (MIDDLE, {"stop": ["a", "\n-"]}, {"stop_sequences": ["a", "\n-"]}, []),
    (OLD, {"messages": [HI, {"role": "assistant", "content": "So"}]}, {"messages": [HI, {"role": "assistant", "content": "So"}]}, []),
]


@pytest.mark.parametrize(("model", "fields", "expected", "dropped"), ACCEPTED)
async def test_supported_fields_are_written_as_the_claude_model_accepts_them(
    model: str, fields: dict[str, Any], expected: dict[str, Any], dropped: list[str]
):
    body, reported, _ = await translate(model, **fields)
    assert (body, reported) == ({"model": model, "messages": [HI], "max_tokens": 8192, **expected}, dropped)


@pytest.mark.parametrize(
    ("model", "thinking", "adapted", "dropped"),
    [
        (NEW, Thinking(budget_tokens=4000), Thinking("medium", adaptive=True), ["thinking.budget_tokens"]),
        (NEW, Thinking(budget_tokens=99_000), Thinking("high", adaptive=True), ["thinking.budget_tokens"]),
        (MIDDLE, Thinking(budget_tokens=4000), Thinking(budget_tokens=4000), []),
        (OLD, Thinking(budget_tokens=12), Thinking(budget_tokens=1024), ["thinking.budget_tokens"]),
        (OLD, Thinking(budget_tokens=90_000), Thinking(budget_tokens=7999), ["thinking.budget_tokens"]),
        (OLD, Thinking(adaptive=True), Thinking(budget_tokens=7999), []),
    ],
)
def test_thinking_budget_is_adapted_to_the_claude_model(model: str, thinking: Thinking, adapted: Thinking, dropped: list[str]):
    messages = (Message("user", (Text("Hi"),)),)
    drop_policy = DropPolicy(drop_nothing, {}, "it")
    chat = ChatRequest("openai_chat", model, messages, thinking=thinking, max_tokens=8000)
    assert (adapt_claude_chat(chat, drop_policy).thinking, drop_policy.dropped) == (adapted, dropped)
    anthropic_chat = msgspec.structs.replace(chat, origin="anthropic_messages")
    assert adapt_claude_chat(anthropic_chat, drop_policy) is anthropic_chat, (
        "chats in Anthropic's own dialect are not adapted: Anthropic itself checks them"
    )


async def test_whitespace_only_text_is_dropped_and_reported():
    calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    messages = [HI, {"role": "assistant", "content": "\n\n", "tool_calls": calls}, {"role": "tool", "tool_call_id": "c", "content": "1"}]
    body, dropped, _ = await translate(MIDDLE, messages=messages, tools=[FUNCTION_TOOL])
    assert [block["type"] for block in body["messages"][1]["content"]] == ["tool_use"]
    assert dropped == ["messages[1].content"]


@bounded
@given(st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=80))
async def test_tool_call_ids_are_valid_for_anthropic_and_match_their_results(id: str):
    calls = [{"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    messages = [HI, {"role": "assistant", "tool_calls": calls}, {"role": "tool", "tool_call_id": id, "content": "1"}]
    body, _, _ = await translate(MIDDLE, messages=messages, tools=[FUNCTION_TOOL])
    (call,), (result,) = body["messages"][1]["content"], body["messages"][2]["content"]
    assert call["id"] == result["tool_use_id"] and re.fullmatch("[a-zA-Z0-9_-]+", call["id"])
    assert call["id"] == id or not re.fullmatch("[a-zA-Z0-9_-]+", id)


async def test_only_the_last_four_cache_breakpoints_are_kept():
    cache_hint = {"cache_control": {"type": "ephemeral"}}
    messages = [{"role": "user", "content": [{"type": "text", "text": str(at), **cache_hint} for at in range(6)]}]
    body, dropped, _ = await translate(MIDDLE, messages=messages)
    assert [block["text"] for block in body["messages"][0]["content"] if "cache_control" in block] == ["2", "3", "4", "5"]
    assert dropped == ["cache_control"]
    messages[0]["content"] = messages[0]["content"][:4]
    body, dropped, _ = await translate(MIDDLE, messages=messages)
    assert sum("cache_control" in block for block in body["messages"][0]["content"]) == 4 and not dropped


async def test_budget_thinking_is_refused_after_tool_calls_that_lost_their_reasoning():
    calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    messages = [HI, {"role": "assistant", "tool_calls": calls}, {"role": "tool", "tool_call_id": "c", "content": "1"}]
    with pytest.raises(Unsupported, match="requires the thinking blocks"):
        await translate(OLD, messages=messages, tools=[FUNCTION_TOOL], reasoning_effort="low")
    body, dropped, _ = await translate(OLD, drop_everything, messages=messages, tools=[FUNCTION_TOOL], reasoning_effort="low")
    assert "thinking" not in body and dropped == ["reasoning_effort"]
    body, _, _ = await translate(MIDDLE, messages=messages, tools=[FUNCTION_TOOL], reasoning_effort="low")
    assert body["thinking"] == {"type": "adaptive"}


@pytest.mark.parametrize(
    ("output", "how", "sent_schema"),
    [
        (json_schema_format(CLOSED_SCHEMA), "enforced", CLOSED_SCHEMA),
        # Strict schemas close every object; others may be open.
        (json_schema_format(OPEN_SCHEMA, strict=True), "enforced", {**OPEN_SCHEMA, "additionalProperties": False}),
        (json_schema_format(OPEN_SCHEMA), "validated", None),
        (json_schema_format({"type": "object"}, strict=False), "validated", None),
        ({"type": "json_object"}, "validated", None),
        (
            json_schema_format({**CLOSED_SCHEMA, "properties": {"a": {"type": "string", "maxLength": 3, "description": "A name."}}}),
            "validated",
            {**CLOSED_SCHEMA, "properties": {"a": {"type": "string", "description": 'A name.\n\n{"maxLength":3}'}}},
        ),
        (json_schema_format({**CLOSED_SCHEMA, "properties": {"a": {"$ref": "#"}}}), "validated", None),
    ],
)
async def test_output_schema_is_enforced_or_validated(output: dict[str, Any], how: str, sent_schema: Any):
    body, dropped, enforcement = await translate(MIDDLE, response_format=output)
    assert enforcement == how and dropped in ([], ["response_format.strict"])
    if sent_schema is not None:
        assert body["output_config"] == {"format": {"type": "json_schema", "schema": sent_schema}} and "system" not in body
    else:
        assert "output_config" not in body and body["system"].startswith("Answer with ")
        assert "json_schema" not in output or json.dumps(output["json_schema"]["schema"]) in body["system"]


def test_configured_beta_is_not_forwarded_again_from_the_caller():
    host = Anthropic("claude", {"anthropic_beta": ["a-1", "b-2"]})
    assert host.forward_betas(Body(), "anthropic_messages", b"b-2, c-3") == b"c-3"
    assert host.forward_betas(Body(), "anthropic_messages", b"a-1") == b""


@pytest.mark.parametrize(
    ("name", "thinks", "samples"),
    [
        ("claude-3-5-sonnet-20241022", "never", "freely"),
        ("claude-sonnet-4-20250514", "budget", "freely"),
        ("claude-opus-4-1-20250805", "budget", "one"),
        ("claude-opus-4-5-20251101", "budget", "one"),
        ("claude-sonnet-4-6", "either", "one"),
        ("claude-opus-4-8", "adaptive", "never"),
        ("claude-opus-5-5", "adaptive", "never"),
        ("claude-fable-5-10", "adaptive", "never"),
        ("claude-haiku-5-5", "adaptive", "never"),
        ("a-model-that-nobody-knows", "either", "freely"),
    ],
)
def test_claude_profile_is_found_by_model_name(name: str, thinks: str, samples: str):
    assert (find_profile(name).thinking_mode, find_profile(name).sampling) == (thinks, samples)
    assert find_profile("claude-fable-5-1").can_force_tool_call is False and find_profile("claude-fable-5").can_force_tool_call is True
