"""The adapter of `transformers serve`: no field is sent that the server would answer with 422 or ignore."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from providers.canonical.errors import InvalidRequest, Unsupported, UpstreamRejected
from providers.engines.transformers.adapter import Transformers
from tests.support.adapted_body import adapt_body
from tests.support.case_tables import assert_every
from tests.support.field_handling import (
    FIELD_VALUES,
    FUNCTIONS_AS_TOOLS,
    NEUTRAL_FIELD_VALUES,
    TOOL,
    assert_fields_are_handled,
    emulated_chat_fields,
    translate_chat_fields,
)
from tests.support.request_translation import drop_everything

ENGINE = Transformers("hf", {})
# The fields that its handler acts on. Source: transformers 5.23.0, cli/serving/chat_completion.py, read 2026-11.
READ_FIELDS = frozenset(
    {
        *("model", "messages", "stream", "max_tokens", "max_completion_tokens", "temperature", "top_p", "seed", "stop", "logit_bias"),
        *("tools", "chat_template_kwargs", "generation_config"),
    }
)
_SENT = frozenset({"max_tokens", "max_completion_tokens", "seed", "stop", "tools", "chat_template_kwargs"})
_EMULATED = frozenset({"parallel_tool_calls", "stop"})
_HINTS = frozenset(
    {
        "verbosity",
        *("metadata", "prediction", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "service_tier", "store", "user"),
        *("priority", "cache_salt", "session_id", "guided_decoding_backend", "reasoning_effort"),
    }
)
# Sent in generation_config, under transformers' names.
_GENERATION: Mapping[str, Mapping[str, Any]] = {
    "top_k": {"do_sample": True, "top_k": 5},
    "min_p": {"do_sample": True, "min_p": 0.1},
    "typical_p": {"do_sample": True, "typical_p": 0.9},
    "repetition_penalty": {"repetition_penalty": 1.5},
    "length_penalty": {"length_penalty": 2},
    "no_repeat_ngram_size": {"no_repeat_ngram_size": 3},
    "min_tokens": {"min_new_tokens": 3},
    "min_new_tokens": {"min_new_tokens": 3},
}
# Tests of these are below.
_TESTED_SEPARATELY = frozenset({"functions", "temperature", "top_p", "logit_bias", "top_logprobs"})


def test_every_field_is_sent_dropped_as_a_hint_or_refused() -> None:
    fields = FIELD_VALUES.keys() - {*_GENERATION, *_TESTED_SEPARATELY}
    assert_fields_are_handled(
        ENGINE, {field: "sent" if field in _SENT else "hint" if field in _HINTS else "refused" for field in sorted(fields - _EMULATED)}
    )
    assert_fields_are_handled(ENGINE, dict.fromkeys(sorted(_EMULATED - {"stop"}), "emulated") | {"functions": FUNCTIONS_AS_TOOLS})


def test_stop_sequence_is_sent_and_cut_by_the_gateway_too() -> None:
    """It ends there, and leaves the sequence in the text (observed on 5.23)."""
    body, dropped = translate_chat_fields(ENGINE, {"stop": ["END"]})
    assert (body["stop"], dropped, emulated_chat_fields(ENGINE, {"stop": ["END"]})) == (["END"], [], ("stop",))


@pytest.mark.parametrize("field", _GENERATION)
def test_sampling_fields_are_sent_in_generation_config(field: str) -> None:
    body, dropped = translate_chat_fields(ENGINE, {field: FIELD_VALUES[field], "max_tokens": 9})
    assert (json.loads(body["generation_config"]), dropped) == (_GENERATION[field], [])
    assert body.keys() <= READ_FIELDS


@pytest.mark.parametrize("field", ["temperature", "top_p"])
def test_temperature_or_top_p_switches_sampling_on(field: str) -> None:
    body, _ = translate_chat_fields(ENGINE, {field: 0.5, "max_tokens": 9})
    assert (body[field], json.loads(body["generation_config"])) == (0.5, {"do_sample": True})
    assert "generation_config" not in translate_chat_fields(ENGINE, {"temperature": 0, "top_p": 0.5, "max_tokens": 9})[0]


def test_generation_config_we_write_keeps_the_default_output_length() -> None:
    """The model's own defaults are not read then, and the default of transformers is 20 tokens."""
    assert json.loads(translate_chat_fields(ENGINE, {"top_k": 5})[0]["generation_config"])["max_new_tokens"] == 1024


def test_logprobs_are_refused_or_dropped() -> None:
    for fields in ({"top_logprobs": 2}, {"logprobs": True, "top_logprobs": 2}):
        with pytest.raises(Unsupported) as refused:
            translate_chat_fields(ENGINE, fields)
        assert refused.value.param == next(iter(fields))
        assert translate_chat_fields(ENGINE, fields, drop=True) == (translate_chat_fields(ENGINE, {})[0], list(fields))


def test_caller_generation_config_is_merged_or_refused_when_invalid() -> None:
    body, _ = translate_chat_fields(ENGINE, {"generation_config": '{"num_beams": 2}', "top_k": 5})
    assert json.loads(body["generation_config"]) == {"num_beams": 2, "do_sample": True, "top_k": 5}
    for wrong in ("[]", "{", 5):
        with pytest.raises(InvalidRequest) as refused:
            translate_chat_fields(ENGINE, {"generation_config": wrong, "top_k": 5})
        assert refused.value.param == "generation_config"


def test_logit_bias_is_sent_as_floats() -> None:
    """Integers are answered with 500 (seen on 5.23)."""
    assert '"1":5.0' in json.dumps(translate_chat_fields(ENGINE, {"logit_bias": {"1": 5}})[0]["logit_bias"], separators=(",", ":"))


def test_neutral_value_is_not_refused() -> None:
    def check(field: str) -> None:
        for value in (NEUTRAL_FIELD_VALUES[field], None):
            body, dropped = translate_chat_fields(ENGINE, {field: value})
            assert dropped == []
            assert body.keys() <= READ_FIELDS

    assert_every(check, NEUTRAL_FIELD_VALUES)


@pytest.mark.parametrize(
    "fields",
    [
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {}}}},
        {"response_format": {"type": "json_object"}},
        {"guided_json": {}},
        {"guided_regex": "a"},
        {"guided_choice": ["a"]},
        {"guided_grammar": 'root ::= "a"'},
        {"structural_tag": {}},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_every_constraint_is_refused_or_dropped(fields: dict[str, Any]) -> None:
    [field] = fields
    with pytest.raises(Unsupported) as refused:
        adapt_body(ENGINE, fields)
    assert refused.value.param == field
    assert adapt_body(ENGINE, fields, drop_everything) == ({}, [field], None)


def test_forced_tool_choice_is_refused() -> None:
    for fields in ({"tools": [TOOL]}, {"tools": [TOOL], "tool_choice": "auto"}):
        assert adapt_body(ENGINE, fields)[0] == {"tools": [TOOL]}
    assert adapt_body(ENGINE, {"tools": [TOOL], "tool_choice": "none"})[0] == {}
    for choice in ("required", {"type": "function", "function": {"name": "now"}}):
        with pytest.raises(Unsupported) as refused:
            adapt_body(ENGINE, {"tools": [TOOL], "tool_choice": choice})
        assert refused.value.param == "tool_choice"


def test_unknown_field_is_refused_or_dropped_unless_accepted() -> None:
    with pytest.raises(Unsupported) as refused:
        translate_chat_fields(ENGINE, {"surprise": 1})
    assert refused.value.param == "surprise"
    assert translate_chat_fields(ENGINE, {"surprise": 1}, drop=True)[1] == ["surprise"]
    assert translate_chat_fields(Transformers("hf", {"accepts": ["surprise"]}), {"surprise": 1})[0]["surprise"] == 1


def test_upstream_422_is_refused_and_not_counted_as_a_failure() -> None:
    error = ENGINE.read_error(422, {}, b'{"detail":"Unexpected fields in the request: {\'top_k\'}"}')
    assert (type(error), error.status, error.counts_as_failure) == (UpstreamRejected, 422, False)
    assert "top_k" in error.message


def test_every_request_is_sent_as_a_stream() -> None:
    body, _ = translate_chat_fields(ENGINE, {"stream_options": {"include_usage": True}, "stream": True})
    assert (body["stream"], body.keys() <= READ_FIELDS) == (True, True)
    assert translate_chat_fields(ENGINE, {})[0]["stream"] is True
