"""Hosts of Claude: beta features and hints that a host does not know are left out and reported, and the others travel."""

import json
from typing import Any

import pytest

from app.domain.routing import Target
from app.gateway.request_translation.translate_request import translate_request
from app.gateway.request_translation.translated_request import TranslatedRequest
from providers.canonical.errors import Unsupported
from providers.canonical.raw_json import Body
from providers.catalogue import build_provider
from providers.dialects.catalogue import CHAT_DIALECTS
from tests.support.request_translation import MEDIA, drop_nothing, endpoint_of, make_source

ANTHROPIC = build_provider("anthropic", "claude", {})
BEDROCK = build_provider("bedrock", "aws", {"region": "us-east-1"})
VERTEX = build_provider("vertex", "cloud", {"project": "p"})
# What Claude Code 2.1.332 sends by default.
CLAUDE_CODE_BETAS = (
    b"claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,per-turn-control-2026-07-01,"
    b"mid-conversation-tool-changes-2026-07-01,thinking-token-count-2026-05-13,advanced-tool-use-2025-11-20,effort-2025-11-24"
)
CLAUDE_CODE: dict[str, Any] = {
    "max_tokens": 128000,
    "system": [{"type": "text", "text": "x-anthropic-billing-header"}, {"type": "text", "text": "You help."}],
    "messages": [
        {"role": "user", "content": "Hello"},
        {"role": "system", "content": [{"type": "text", "text": "Agents: none."}], "output_config": {"effort": "medium"}},
    ],
    "thinking": {"type": "adaptive", "display": "omitted"},
    "output_config": {"effort": "medium"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "tools": [
        {"name": "Read", "input_schema": {"type": "object"}, "eager_input_streaming": True, "allowed_callers": ["direct"]},
        {"name": "More", "input_schema": {"type": "object"}, "defer_loading": True},
        {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"},
    ],
}


async def translate(provider: Any, model: str, betas: bytes = b"", dialect: str | None = None, **fields: Any) -> TranslatedRequest:
    raw = json.dumps({"model": "m", **CLAUDE_CODE, **fields}).encode()
    caller = CHAT_DIALECTS["anthropic_messages"]
    source = make_source(caller.parse_request(raw), raw, caller, MEDIA, drop_nothing, betas=betas)
    return await translate_request(source, endpoint_of(provider), Target(provider="p", model=model, dialect=dialect))


async def test_claude_codes_default_request_reaches_anthropic_as_it_is():
    translated = await translate(ANTHROPIC, "claude-opus-5-5", CLAUDE_CODE_BETAS)
    assert json.loads(translated.raw) == {"model": "claude-opus-5-5", **CLAUDE_CODE}
    assert (translated.betas, translated.dropped) == (CLAUDE_CODE_BETAS, [])


async def test_bedrock_gets_the_betas_that_it_knows_in_its_own_names():
    translated = await translate(BEDROCK, "us.anthropic.claude-opus-5-5", CLAUDE_CODE_BETAS)
    body = json.loads(translated.raw)
    assert body["anthropic_beta"] == [
        *("interleaved-thinking-2025-05-14", "context-management-2025-06-27", "mid-conversation-output-config-2026-07-01"),
        *("mid-conversation-tool-changes-2026-07-01", "tool-search-tool-2025-10-19", "effort-2025-11-24"),
    ]
    assert translated.betas == b"" and translated.dropped == ["tools[0].eager_input_streaming", "anthropic-beta"]
    assert [sorted(tool) for tool in body["tools"][:2]] == [["input_schema", "name"], ["defer_loading", "input_schema", "name"]]
    assert body["messages"] == CLAUDE_CODE["messages"] and body["context_management"] == CLAUDE_CODE["context_management"]


async def test_effort_of_a_message_is_left_out_where_a_model_on_bedrock_does_not_take_it():
    translated = await translate(BEDROCK, "us.anthropic.claude-opus-5")
    assert "output_config" not in json.loads(translated.raw)["messages"][1] and "messages[1].output_config" in translated.dropped
    directive: dict[str, Any] = {"role": "system", "content": [], "output_config": {"effort": "low"}}
    translated = await translate(BEDROCK, "us.anthropic.claude-opus-5", messages=[*CLAUDE_CODE["messages"], directive])
    assert len(json.loads(translated.raw)["messages"]) == 2 and "messages[2].output_config" in translated.dropped


async def test_betas_that_a_caller_names_in_the_body_are_those_that_bedrock_knows():
    betas = ["interleaved-thinking-2025-05-14", "oauth-2025-04-20"]
    translated = await translate(BEDROCK, "us.anthropic.claude-opus-5-5", anthropic_beta=betas)
    assert json.loads(translated.raw)["anthropic_beta"] == betas[:1] and "anthropic_beta" in translated.dropped


async def test_vertex_gets_the_betas_that_it_knows_in_the_header():
    translated = await translate(VERTEX, "claude-opus-5-5", CLAUDE_CODE_BETAS + b",fast-mode-2026-02-01")
    assert translated.betas == CLAUDE_CODE_BETAS.replace(b"advanced-tool-use-2025-11-20", b"tool-search-tool-2025-10-19")
    assert translated.dropped == ["anthropic-beta"]
    assert json.loads(translated.raw)["tools"] == CLAUDE_CODE["tools"]


@pytest.mark.parametrize(
    ("provider", "model", "dialect"),
    [
        (BEDROCK, "us.anthropic.claude-opus-5-5", "bedrock_converse"),
        (build_provider("openai", "engine", {}, base_url="http://127.0.0.1/v1"), "gpt-oss", "openai_chat"),
        (build_provider("vllm", "engine", {}, base_url="http://127.0.0.1/v1"), "m", "openai_chat"),
    ],
)
async def test_claude_codes_default_request_is_taken_by_other_apis_and_what_they_lack_is_reported(provider: Any, model: str, dialect: str):
    tools = [{**CLAUDE_CODE["tools"][0]}]
    translated = await translate(provider, model, CLAUDE_CODE_BETAS, dialect, tools=tools, speed="fast")
    assert {"anthropic-beta", "messages[1].output_config", "context_management", "speed"} <= {*translated.dropped}


@pytest.mark.parametrize(("provider", "model"), [(BEDROCK, "us.anthropic.claude-opus-5-5"), (VERTEX, "claude-opus-5-5")])
async def test_safeguards_are_refused_with_the_400_after_which_claude_code_goes_on_without(provider: Any, model: str):
    with pytest.raises(Unsupported, match="safeguards") as refused:
        await translate(provider, model, safeguards={"auto": True})
    assert refused.value.status == 400


async def test_instruction_midway_reaches_an_older_model_at_anthropic_as_the_users_marked_text():
    for model in ("claude-sonnet-4-5", "claude-sonnet-5"):
        translated = await translate(ANTHROPIC, model, tools=[], context_management=None, output_config={}, thinking={"type": "disabled"})
        sent = json.loads(translated.raw)["messages"]
        assert [message["role"] for message in sent] == ["user"] and "<system>\nAgents: none.\n</system>" in json.dumps(sent).replace(
            "\\n", "\n"
        )
        assert {"messages[1].role", "messages[1].output_config"} <= {*translated.dropped}


def test_gateway_to_claude_at_an_openai_address_gets_no_sampling_that_no_claude_takes():
    gateway = build_provider("openai", "gateway", {}, base_url="http://127.0.0.1/v1")
    for model, fields, dropped in (
        ("anthropic/claude-opus-5-5", {"temperature": 0.5, "top_p": 0.9}, ["temperature", "top_p"]),
        ("claude-sonnet-4-5", {"temperature": 0.5, "top_p": 0.9}, ["top_p"]),
        ("claude-opus-5-5", {"temperature": 1}, []),
        ("gpt-oss", {"temperature": 0.5, "top_p": 0.9}, []),
    ):
        body = Body({"model": model, **fields})
        assert gateway.adapt_request(body, "openai_chat", drop_nothing).dropped == dropped
        assert {*fields} - {*dropped} == {*fields} & body.keys()
