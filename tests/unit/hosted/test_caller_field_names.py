"""A host's rules name the field as the caller wrote it, whichever API of the host is called; by that name it may be dropped."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from providers.canonical.errors import Unsupported
from providers.catalogue import build_provider
from tests.support.field_handling import HI, translate_body

_PDF = "data:application/pdf;base64,aGk="
_MESSAGES: Mapping[str, Any] = {"model": "m", "messages": HI, "max_tokens": 9}
_TOOL: Mapping[str, Any] = {"name": "f", "description": "x"}
_STRICT: Mapping[str, Any] = {**_TOOL, "parameters": {"type": "object", "properties": {}}, "strict": True}

CASES: Mapping[str, tuple[str, str, Mapping[str, Any], str]] = {
    "a file": (
        "fireworks",
        "openai_responses",
        {"model": "m", "input": [*HI, {"role": "user", "content": [{"type": "input_file", "filename": "a.pdf", "file_data": _PDF}]}]},
        "input[1].content[0]",
    ),
}


# What the gateway does itself, too, is reported by the caller's names.
_PARALLEL = {"type": "auto", "disable_parallel_tool_use": True}
EMULATED: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "tools[0].strict": ("fireworks", "openai_responses", {"model": "m", "input": "Hi", "tools": [{"type": "function", **_STRICT}]}),
    "stop_sequences": ("groq", "anthropic_messages", {**_MESSAGES, "stop_sequences": list("abcde")}),
    "tool_choice.disable_parallel_tool_use": (
        "deepseek",
        "anthropic_messages",
        {**_MESSAGES, "tools": [{**_TOOL, "input_schema": {"type": "object"}}], "tool_choice": _PARALLEL},
    ),
}


@pytest.mark.parametrize("field", EMULATED)
def test_emulated_field_is_named_as_the_caller_wrote_it(field: str) -> None:
    host, caller, fields = EMULATED[field]
    provider, raw = build_provider(host, "h", {"dialects": ["openai_chat"]}), json.dumps(fields).encode()
    for drop in (False, True):
        translated = translate_body(provider, caller, raw, drop=drop)
        assert translated.emulation is not None and translated.emulation.fields == (field,) and translated.dropped == []


@pytest.mark.parametrize("case", CASES)
def test_refused_field_is_named_as_the_caller_wrote_it(case: str) -> None:
    host, caller, fields, name = CASES[case]
    provider, raw = build_provider(host, "h", {"dialects": ["openai_chat"]}), json.dumps(fields).encode()
    with pytest.raises(Unsupported) as refused:
        translate_body(provider, caller, raw)
    assert refused.value.param == name
    assert f"`{name}`" in refused.value.message and f"x-narthex-drop: {name}" in refused.value.message
    assert translate_body(provider, caller, raw, drop=lambda field: field == name).dropped == [name]


def test_dropped_hint_is_reported_by_the_callers_field_name() -> None:
    raw = json.dumps({**_MESSAGES, "metadata": {"user_id": "u"}}).encode()
    assert translate_body(build_provider("deepseek", "h", {"dialects": ["openai_chat"]}), "anthropic_messages", raw).dropped == [
        "metadata.user_id"
    ]


def test_unsupported_effort_is_reported_by_the_callers_field_name() -> None:
    provider = build_provider("xai", "h", {})
    raw = json.dumps({**_MESSAGES, "output_config": {"effort": "low"}}).encode()
    assert json.loads(translate_body(provider, "anthropic_messages", raw).raw)["reasoning"] == {"effort": "low"}
    assert translate_body(provider, "anthropic_messages", raw, model="grok-4").dropped == ["output_config.effort"]
