"""The fields `thinking`, `reasoning` and a default effort in a chat: said as each target takes them, and never sent to one that refuses
them.
"""

import asyncio
import json
from typing import Any

import pytest

from app.gateway.request_translation.translated_request import TranslatedRequest
from providers.catalogue import build_provider
from tests.conformance.engine_tables import translate

MESSAGES = [{"role": "user", "content": "Hi"}]
BUDGET = {"thinking": {"type": "enabled", "budget_tokens": 4096}}


def sent(adapter: str, model: str, **fields: Any) -> TranslatedRequest:
    provider = build_provider(adapter, adapter, {}, None)
    return asyncio.run(translate(provider, "openai_chat", {"messages": MESSAGES, **fields}, model))


@pytest.mark.parametrize(
    ("adapter", "model", "fields", "expected", "dropped"),
    [
        ("openai", "gpt-5.1", {"thinking": {"type": "disabled"}}, {"reasoning_effort": "none"}, []),
        ("openai", "gpt-5.1", BUDGET, {"reasoning_effort": "medium"}, ["thinking.budget_tokens"]),
        ("openai", "gpt-5.1", {"reasoning": {"effort": "low"}}, {"reasoning_effort": "low"}, []),
        ("openai", "gpt-5.1", {"reasoning": {"effort": "low"}, "reasoning_effort": "high"}, {"reasoning_effort": "high"}, ["reasoning"]),
        ("openai", "gpt-5.1", {"thinking": {"type": "adaptive"}}, {}, ["thinking"]),
        ("openai", "gpt-5.1", {"thinking": {"type": "enabled"}, "reasoning_effort": "high"}, {"reasoning_effort": "high"}, []),
        ("openai", "gpt-5.1", {"thinking": {"type": "disabled"}, "reasoning_effort": "high"}, {"reasoning_effort": "none"}, []),
        ("groq", "openai/gpt-oss-120b", {"reasoning": {"effort": "high"}}, {"reasoning_effort": "high"}, []),
        ("groq", "openai/gpt-oss-120b", {"reasoning_effort": "default"}, {}, []),
        ("openai", "gpt-5.1", {"reasoning_effort": "auto"}, {}, []),
        ("openai", "gpt-5.1", {"reasoning": {"effort": None}}, {}, []),
        ("openai", "gpt-5.1", {"reasoning": {"effort": "low", "summary": "auto"}}, {"reasoning_effort": "low"}, ["reasoning.summary"]),
        ("openai", "gpt-5.1", {"reasoning": {"effort": "low", "exclude": False}}, {"reasoning_effort": "low"}, []),
        (
            "groq",
            "openai/gpt-oss-120b",
            {"reasoning": {"effort": "low", "exclude": True}},
            {"reasoning_effort": "low"},
            ["reasoning.exclude"],
        ),
        ("deepseek", "deepseek-v4-pro", {"thinking": {"type": "disabled"}}, {"thinking": {"type": "disabled"}}, []),
        ("openrouter", "z-ai/glm-5.3", {"reasoning": {"max_tokens": 99}}, {"reasoning": {"max_tokens": 99}}, []),
        ("mistral", "mistral-small-2603", {"thinking": {"type": "disabled"}}, {"reasoning_effort": "none"}, []),
    ],
)
def test_object_of_another_api_is_an_effort(adapter: str, model: str, fields: Any, expected: Any, dropped: list[str]):
    translated = sent(adapter, model, **fields)
    body = json.loads(translated.raw)
    assert {name: body[name] for name in ("thinking", "reasoning", "reasoning_effort") if name in body} == expected
    assert translated.dropped == dropped


def test_server_that_is_not_known_gets_the_object_as_it_is():
    provider = build_provider("openai", "openai", {}, "http://127.0.0.1:1/v1")
    translated = asyncio.run(translate(provider, "openai_chat", {"messages": MESSAGES, **BUDGET}, "glm-5.3"))
    assert json.loads(translated.raw)["thinking"] == BUDGET["thinking"]


def test_claude_gets_the_budget_of_a_chat():
    assert json.loads(sent("anthropic", "claude-sonnet-4-5", **BUDGET, max_tokens=9000).raw)["thinking"] == BUDGET["thinking"]


def test_gemini_thinks_by_the_budget_of_a_chat():
    assert json.loads(sent("gemini", "gemini-2.5-flash", **BUDGET).raw)["generationConfig"]["thinkingConfig"]["thinkingBudget"] == 4096


@pytest.mark.parametrize(
    ("shown", "display"),
    [
        ({"reasoning": {"effort": "high", "summary": "detailed"}}, "summarized"),
        ({"reasoning": {"effort": "high", "exclude": True}}, "omitted"),
        ({"thinking": {"type": "adaptive", "display": "omitted"}}, "omitted"),
        ({"reasoning": {"summary": "auto"}, "reasoning_effort": "high"}, "summarized"),
    ],
)
def test_claude_shows_the_reasoning_of_a_chat_as_its_object_says(shown: Any, display: str):
    translated = sent("anthropic", "claude-opus-5-5", **shown)
    assert (json.loads(translated.raw)["thinking"]["display"], translated.dropped) == (display, [])


def test_responses_get_the_summary_of_a_chat():
    tool: dict[str, Any] = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    translated = sent("openai", "gpt-5.6-sol", reasoning={"effort": "high", "summary": "detailed"}, tools=[tool])
    assert json.loads(translated.raw)["reasoning"] == {"effort": "high", "summary": "detailed"}


@pytest.mark.parametrize(
    ("fields", "dropped"),
    [
        ({"reasoning": {}}, []),
        ({"reasoning": {"effort": None}}, []),
        ({"reasoning": {"summary": "auto"}}, ["reasoning.summary"]),
        ({"thinking": {"type": "adaptive", "keep": "all"}}, ["thinking.keep"]),
    ],
)
def test_object_that_asks_for_little_is_not_refused(fields: Any, dropped: list[str]):
    assert sent("anthropic", "claude-opus-5-5", **fields).dropped == dropped
