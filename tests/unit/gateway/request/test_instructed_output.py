"""Output formats that a target has no field for: demanded in the prompt, and validated."""

import asyncio
import json
from typing import Any

import pytest

from app.gateway.request_translation.translated_request import RequestPart, TranslatedRequest
from providers.canonical.errors import Unsupported
from providers.canonical.output_format import JsonSchema
from tests.unit.gateway.request.test_emulated_tools import CITY, HI, TOOLS, drop_anything, reported, sent, translate

JSON_SCHEMA: Any = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY, "strict": True}}


@pytest.mark.parametrize("adapter", ["mini_sglang", "transformers", "hyperbolic"])
@pytest.mark.parametrize(
    ("dialect", "fields", "field"),
    [
        ("openai_chat", {"response_format": JSON_SCHEMA}, "response_format"),
        ("openai_responses", {"text": {"format": {"type": "json_schema", "name": "city", "schema": CITY}}}, "text.format"),
        (
            "anthropic_messages",
            {"output_config": {"format": {"type": "json_schema", "schema": CITY}}, "max_tokens": 9},
            "output_config.format",
        ),
    ],
)
def test_schema_is_demanded_in_the_prompt_and_validated(adapter: str, dialect: str, fields: Any, field: str):
    fields = fields if dialect != "openai_responses" else {**fields, "input": "Hi", "messages": None}
    translated = translate(adapter, dialect, **fields)
    body = sent(translated)
    system, *rest = body["messages"]
    assert system["role"] == "system" and len(rest) == 1 and "response_format" not in body
    assert json.loads(system["content"].partition("\n")[2]) == CITY
    assert translated.is_checked and translated.dropped == [] and reported(translated) == (field,)
    plan = translated.constraint_plan
    assert plan is not None and isinstance(plan.output, JsonSchema) and plan.enforcement == "validated"


@pytest.mark.parametrize(
    ("fields", "demanded"),
    [
        ({"response_format": {"type": "json_object"}}, "one JSON object"),
        ({"guided_choice": ["red", "dark green"]}, "\nred\ndark green"),
        ({"guided_regex": "[a-z]+"}, "\n[a-z]+"),
    ],
)
@pytest.mark.parametrize("adapter", ["mini_sglang", "hyperbolic"])
def test_object_choice_and_regex_are_demanded_after_the_callers_instructions(adapter: str, fields: Any, demanded: str):
    (system, _) = sent(translate(adapter, messages=[{"role": "system", "content": "Be brief."}, *HI], **fields))["messages"]
    content = system["content"]
    text = content if isinstance(content, str) else "".join(part["text"] for part in content)
    assert text.startswith("Be brief.\n\n") and demanded in text


@pytest.mark.parametrize(
    "fields",
    [
        {"guided_grammar": 'root ::= "yes"'},
        {"structural_tag": {"type": "structural_tag", "format": {"type": "any_text"}}},
        {"guided_json": CITY, "guided_whitespace_pattern": " ?"},
    ],
)
def test_what_no_prompt_can_demand_is_refused(fields: Any):
    with pytest.raises(Unsupported):
        translate("mini_sglang", **fields)


def test_format_that_the_caller_lets_go_is_dropped():
    translated = translate("transformers", may_drop=drop_anything, response_format=JSON_SCHEMA)
    assert translated.dropped == ["response_format"] and translated.constraint_plan is None and sent(translated)["messages"] == HI


def test_format_stands_beside_tools_that_the_target_has():
    translated = translate("transformers", response_format=JSON_SCHEMA, tools=TOOLS)
    body = sent(translated)
    assert body["tools"] == TOOLS and "JSON schema" in body["messages"][0]["content"] and "functions" in body["messages"][0]["content"]


def test_format_stands_beside_tools_in_the_prompt():
    translated = translate("mini_sglang", response_format=JSON_SCHEMA, tools=TOOLS)
    instructions = sent(translated)["messages"][0]["content"]
    assert "JSON schema" in instructions and "<tools>" in instructions and reported(translated) == ("response_format", "tools")


@pytest.mark.parametrize("adapter", ["mini_sglang", "transformers"])
def test_format_is_left_out_where_a_call_is_demanded(adapter: str):
    translated = translate(adapter, response_format=JSON_SCHEMA, tools=TOOLS, tool_choice="required")
    assert "JSON schema" not in sent(translated)["messages"][0]["content"] and translated.is_checked
    assert {"response_format", "tool_choice"}.issubset(reported(translated))


def test_each_choice_of_a_split_request_is_demanded_in_the_format():
    translated = translate("transformers", response_format=JSON_SCHEMA, n=2)
    parts = [asyncio.run(_make(part)) for part in translated.parts]
    assert [part.is_checked for part in parts] == [True, True] and reported(translated) == ("n", "response_format")
    assert all("JSON schema" in sent(part)["messages"][0]["content"] for part in parts)


async def _make(part: RequestPart) -> TranslatedRequest:
    return await part.make()
