"""Ollama's adapter and its native chat API: how each field is written there, and what is refused."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers import structured_output
from providers.adapters.options import InvalidOption
from providers.canonical.errors import Overloaded, Unsupported, UpstreamNotFound, UpstreamRejected
from providers.canonical.output_format import Choice
from providers.catalogue import build_provider
from providers.dialects.ollama_chat.schema_pattern import to_schema_pattern
from providers.fields import ENGINE_FIELDS
from tests.support.case_tables import assert_every
from tests.support.field_handling import (
    FIELD_VALUES,
    HI,
    NEUTRAL_FIELD_VALUES,
    TOOL,
    assert_fields_are_handled,
    emulated_chat_fields,
    translate_body,
    translate_chat_fields,
)
from tests.support.strategies.chat_strategies import bounded

OLLAMA = build_provider("ollama", "ollama", {}, "http://127.0.0.1:11434")
SCHEMA = {"type": "object"}
EXPECTED_BY_FIELD: Mapping[str, Mapping[str, Any] | str] = {
    **dict.fromkeys(FIELD_VALUES, "refused"),
    "tools": {"tools": [TOOL]},
    "functions": {"tools": [TOOL]},
    "max_tokens": {"options": {"num_predict": 7}},
    "max_completion_tokens": {"options": {"num_predict": 7}},
    "temperature": {"options": {"temperature": 0.5}},
    "top_p": {"options": {"top_p": 0.5}},
    "top_k": {"options": {"top_k": 5}},
    "min_p": {"options": {"min_p": 0.1}},
    "typical_p": {"options": {"typical_p": 0.9}},
    "repetition_penalty": {"options": {"repeat_penalty": 1.5}},
    "frequency_penalty": {"options": {"frequency_penalty": 0.5}},
    "presence_penalty": {"options": {"presence_penalty": 0.5}},
    "seed": {"options": {"seed": 3}},
    "stop": {"options": {"stop": ["END"]}},
    "parallel_tool_calls": "emulated",
    "logprobs": "sent",
    "top_logprobs": "sent",
    "reasoning_effort": {"think": "low"},
    "enable_thinking": {"think": False},
    "response_format": {"format": SCHEMA},
    "guided_json": {"format": SCHEMA},
    "structured_outputs": {"format": SCHEMA},
    "json_schema": {"format": SCHEMA},
    **{key: {"format": {"type": "string", "pattern": "^(([a-c])+)$"}} for key in ("guided_regex", "regex")},
    "guided_choice": {"format": {"type": "string", "enum": ["yes", "no"]}},
    **dict.fromkeys(
        ("user", "store", "metadata", "service_tier", "safety_identifier", "prompt_cache_key", "guided_decoding_backend"), "hint"
    ),
    "prompt_cache_retention": "hint",
    "prediction": "hint",
    "verbosity": "hint",
}


def test_field_table_covers_every_engine_and_constraint_field():
    assert FIELD_VALUES.keys() >= ENGINE_FIELDS | structured_output.CONSTRAINT_FIELDS


def test_every_openai_field_is_mapped_refused_or_reported_as_dropped():
    assert_fields_are_handled(OLLAMA, {field: EXPECTED_BY_FIELD[field] for field in FIELD_VALUES})


def test_neutral_value_is_neither_refused_nor_reported():
    def check(field: str) -> None:
        assert translate_chat_fields(OLLAMA, {field: NEUTRAL_FIELD_VALUES[field]})[1] == []

    assert_every(check, NEUTRAL_FIELD_VALUES)


def test_truncation_and_context_shift_are_off_unless_configured():
    body, _ = translate_chat_fields(OLLAMA, {})
    assert body == {"model": "m", "messages": HI, "stream": False, "truncate": False, "shift": False}
    truncating = build_provider("ollama", "o", {"truncate": True, "num_ctx": 8192, "keep_alive": "10m"}, "http://127.0.0.1:1")
    body, _ = translate_chat_fields(truncating, {"seed": 1, "stream": True})
    assert (body["truncate"], body["shift"], body["stream"], body["keep_alive"]) == (True, True, True, "10m")
    assert body["options"] == {"seed": 1, "num_ctx": 8192}


@pytest.mark.parametrize("options", [{"num_ctx": 0}, {"num_ctx": "8k"}, {"keep_alive": True}, {"keep_alive": []}, {"truncate": "no"}])
def test_invalid_provider_option_is_refused_by_name(options: dict[str, Any]):
    with pytest.raises(InvalidOption, match=next(iter(options))):
        build_provider("ollama", "o", options)


@pytest.mark.parametrize(
    ("effort", "think", "hints"),
    [
        ("none", False, []),
        ("minimal", "low", ["reasoning_effort"]),
        ("high", "high", []),
        ("xhigh", "high", ["reasoning_effort"]),
        ("max", "max", []),
    ],
)
def test_reasoning_effort_maps_to_think_level(effort: str, think: Any, hints: list[str]):
    body, dropped = translate_chat_fields(OLLAMA, {"reasoning_effort": effort})
    assert (body["think"], dropped) == (think, hints)


@pytest.mark.parametrize(
    ("field", "value", "how", "trusted_how", "quoted"),
    [
        ("guided_json", SCHEMA, "validated", "enforced", False),
        ("response_format", {"type": "json_object"}, "validated", "enforced", False),
        ("guided_choice", ["yes", "no"], "validated", "converted", True),
        ("guided_regex", "[a-c]+", "validated", "validated", True),
    ],
)
def test_constraint_guarantee_follows_the_operators_guided_option(field: str, value: Any, how: str, trusted_how: str, quoted: bool):
    raw = json.dumps({"model": "m", "messages": HI, field: value}).encode()
    trusted = build_provider("ollama", "o", {"guided": "enforced"}, "http://127.0.0.1:1")
    for provider, expected in ((OLLAMA, how), (trusted, trusted_how)):
        constraint_plan = translate_body(provider, "openai_chat", raw).constraint_plan
        assert constraint_plan is not None and (constraint_plan.enforcement, constraint_plan.is_json_string, constraint_plan.fields) == (
            expected,
            quoted,
            None,
        )


def test_boolean_json_schema_is_refused():
    with pytest.raises(Unsupported, match="object"):
        translate_chat_fields(OLLAMA, {"guided_json": True})


def test_dropped_constraint_is_reported_once_and_not_validated():
    raw = json.dumps({"model": "m", "messages": HI, "guided_grammar": 'root ::= "a"'}).encode()
    translated = translate_body(OLLAMA, "openai_chat", raw, drop=True)
    assert (translated.dropped, translated.constraint_plan) == (["guided_grammar"], None)


def test_tools_with_a_constraint_are_refused_unless_tool_choice_is_none():
    with pytest.raises(Unsupported) as refused:
        translate_chat_fields(OLLAMA, {"tools": [TOOL], "guided_json": SCHEMA})
    assert refused.value.param == "tools"
    assert translate_chat_fields(OLLAMA, {"tools": [TOOL], "tool_choice": "none", "guided_json": SCHEMA})[1] == []


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "now"}}])
def test_forced_tool_choice_is_refused(choice: Any):
    with pytest.raises(Unsupported) as refused:
        translate_chat_fields(OLLAMA, {"tools": [TOOL], "tool_choice": choice})
    assert refused.value.param == "tool_choice"


def test_tool_choice_none_omits_the_tools():
    body, dropped = translate_chat_fields(OLLAMA, {"tools": [TOOL], "tool_choice": "none"})
    assert "tools" not in body and dropped == []


def test_strict_tool_is_sent_without_strict_and_held_to_its_schema_by_the_gateway():
    strict = {"type": "function", "function": {**TOOL["function"], "strict": True}}
    assert emulated_chat_fields(OLLAMA, {"tools": [strict]}) == ("tools[0].function.strict",)
    body, dropped = translate_chat_fields(OLLAMA, {"tools": [strict]})
    assert (body["tools"], dropped) == ([TOOL], [])


def tool_call(id: str, arguments: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": "weather", "arguments": arguments}}


def test_conversation_is_written_as_ollama_messages():
    pixel = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "This"}, pixel, pixel, {"type": "text", "text": "and that?"}]},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "Hm.",
            "tool_calls": [tool_call("c1", '{"city": "Paris"}'), tool_call("c2", "no")],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "12 °C"},
        {"role": "tool", "tool_call_id": "c2", "content": "no city"},
        {"role": "user", "content": "So?"},
    ]
    body, dropped = translate_chat_fields(OLLAMA, {"messages": messages})
    assert dropped == []
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "This"},
        {"role": "user", "content": "and that?", "images": ["iVBORw==", "iVBORw=="]},
        {
            "role": "assistant",
            "content": "",
            "thinking": "Hm.",
            "tool_calls": [
                {"id": "c1", "function": {"name": "weather", "arguments": {"city": "Paris"}}},
                {"id": "c2", "function": {"name": "weather", "arguments": {"_unparsed": "no"}}},
            ],
        },
        {"role": "tool", "content": "12 °C", "tool_call_id": "c1", "tool_name": "weather"},
        {"role": "tool", "content": "no city", "tool_call_id": "c2", "tool_name": "weather"},
        {"role": "user", "content": "So?"},
    ]


def test_anthropic_and_responses_requests_are_translated_to_ollama_chat():
    request = {
        "model": "m",
        "max_tokens": 3000,
        "system": "Be brief.",
        "messages": HI,
        "thinking": {"type": "enabled", "budget_tokens": 2000},
    }
    translated = translate_body(OLLAMA, "anthropic_messages", json.dumps(request).encode())
    body = json.loads(translated.raw)
    assert body["messages"] == [{"role": "system", "content": "Be brief."}, *HI]
    assert (body["think"], body["options"], translated.dropped) == (True, {"num_predict": 3000}, ["thinking.budget_tokens"])
    request = {"model": "m", "input": "Hello!", "max_output_tokens": 9, "store": False, "text": {"format": {"type": "json_object"}}}
    body = json.loads(translate_body(OLLAMA, "openai_responses", json.dumps(request).encode()).raw)
    assert (body["messages"], body["options"], body["format"]) == (HI, {"num_predict": 9}, "json")


@pytest.mark.parametrize(
    ("message", "path"),
    [
        (
            {"role": "user", "name": "Ann", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}]},
            "messages[0].name",
        ),
        (
            {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "eA==", "format": "wav"}}]},
            "messages[0].content[0]",
        ),
        (
            {"role": "user", "content": [{"type": "file", "file": {"file_data": "data:application/pdf;base64,eA=="}}]},
            "messages[0].content[0]",
        ),
    ],
)
def test_unsupported_message_content_is_refused_by_path(message: dict[str, Any], path: str):
    with pytest.raises(Unsupported) as refused:
        translate_chat_fields(OLLAMA, {"messages": [message]})
    assert refused.value.param == path


@pytest.mark.parametrize("field", [field for field in ("n", "top_k", "min_p", "logit_bias", "repetition_penalty", "guided_regex")])
def test_raw_prompt_with_a_field_its_completions_api_ignores_is_refused(field: str):
    with pytest.raises(Unsupported) as refused:
        translate_body(OLLAMA, "openai_completions", json.dumps({"model": "m", "prompt": "x", field: FIELD_VALUES[field]}).encode())
    assert refused.value.param == field


def test_raw_prompt_is_sent_to_the_openai_completions_api():
    translated = translate_body(OLLAMA, "openai_completions", b'{"model": "m", "prompt": "x", "seed": 1, "n": 1, "top_k": -1}')
    assert (translated.dialect.name, json.loads(translated.raw)) == ("openai_completions", {"model": "m", "prompt": "x", "seed": 1})


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, b'{"error":"registry.ollama.ai/library/x does not support tools"}', UpstreamRejected),
        (404, b'{"error":"model \'x\' not found"}', UpstreamNotFound),
        (503, b'{"error":"server busy, please try again.  maximum pending requests exceeded"}', Overloaded),
    ],
)
def test_error_responses_map_to_the_matching_error_class(status: int, body: bytes, kind: type):
    error = OLLAMA.read_error(status, {}, body)
    assert type(error) is kind and error.message == json.loads(body)["error"]


atoms = st.sampled_from([r"\d", r"\w", r"\s", ".", "[a-f]", "[^x]", "é", r"\.", "-", "]", r"[\]^-]", "a", "/", r"\S"])
regexes = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda options: f"({'|'.join(options)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}", "+?"])).map(lambda each: f"(?:{each[0]}){each[1]}"),
    ),
    max_leaves=6,
)


@bounded
@given(regexes, st.lists(st.text('abfxZ09_ é-./]^"\\\n', max_size=5), min_size=10, max_size=40))
def test_schema_pattern_matches_like_the_regex_except_texts_that_json_escapes(regex: str, texts: list[str]):
    """The pattern has no shorthand such as \\d, which llama.cpp reads as a letter."""
    pattern = to_schema_pattern(regex)
    assert pattern.startswith("^(") and pattern.endswith(")$") and not re.search(r"\\[^x]", pattern)
    for text in texts:
        unescaped = json.dumps(text, ensure_ascii=False) == f'"{text}"'
        assert bool(re.fullmatch(pattern[1:-1], text)) == (unescaped and bool(re.fullmatch(regex, text, re.ASCII)))


@pytest.mark.parametrize("regex", ['"a"', r"\\", r"a\n", "(?=a)b", r"(a)\1", r"\bword\b", "(?i)a", ""])
def test_untranslatable_regex_is_refused(regex: str):
    with pytest.raises(Unsupported):
        to_schema_pattern(regex)


def test_guided_choice_is_expected_as_a_quoted_json_string():
    constraint_plan = translate_body(
        OLLAMA, "openai_chat", json.dumps({"model": "m", "messages": HI, "guided_choice": ['say "a"']}).encode()
    ).constraint_plan
    assert constraint_plan is not None and constraint_plan.is_json_string and constraint_plan.output == Choice(('say "a"',))
