"""Laws of the adapter of `transformers serve`: its engine hears no field that it would answer 422 to, nor one that it passes over."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from providers.canonical.errors import InvalidRequest, Unsupported, UpstreamRejected
from providers.engines.transformers.adapter import Transformers
from tests.laws.asking import everything
from tests.laws.bending import bent
from tests.laws.engine_fields import ASKED, SILENT, TOOL, check, sent

ENGINE = Transformers("hf", {})
# Those of its handler's that it acts on. Source: transformers 5.23.0, cli/serving/chat_completion.py, read 2026-11.
HEARD = frozenset(
    {
        *("model", "messages", "stream", "max_tokens", "max_completion_tokens", "temperature", "top_p", "seed", "stop", "logit_bias"),
        *("tools", "chat_template_kwargs", "generation_config"),
    }
)
_SENT = frozenset({"max_tokens", "max_completion_tokens", "seed", "stop", "tools", "chat_template_kwargs"})
_HINTS = frozenset(
    {
        *("metadata", "prediction", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "service_tier", "store", "user"),
        *("priority", "cache_salt", "session_id", "guided_decoding_backend"),
    }
)
# In generation_config, by transformers' names.
_GENERATION: Mapping[str, Mapping[str, Any]] = {
    "top_k": {"do_sample": True, "top_k": 5},
    "min_p": {"do_sample": True, "min_p": 0.1},
    "typical_p": {"do_sample": True, "typical_p": 0.9},
    "repetition_penalty": {"repetition_penalty": 1.5},
    "length_penalty": {"length_penalty": 2},
    "no_repeat_ngram_size": {"no_repeat_ngram_size": 3},
    "min_tokens": {"min_new_tokens": 3},
}
# Laws of their own are below.
_ELSEWHERE = frozenset({"temperature", "top_p", "logit_bias", "top_logprobs"})


@pytest.mark.parametrize("field", [field for field in ASKED if field not in {*_GENERATION, *_ELSEWHERE}])
def test_every_field_is_said_or_refused(field: str) -> None:
    check(ENGINE, field, "sent" if field in _SENT else "hint" if field in _HINTS else "refused")


@pytest.mark.parametrize("field", _GENERATION)
def test_sampling_goes_where_transformers_reads_it(field: str) -> None:
    told, dropped = sent(ENGINE, {field: ASKED[field], "max_tokens": 9})
    assert (json.loads(told["generation_config"]), dropped) == (_GENERATION[field], [])
    assert told.keys() <= HEARD


@pytest.mark.parametrize("field", ["temperature", "top_p"])
def test_sampling_is_switched_on_for_who_asks_for_it(field: str) -> None:
    told, _ = sent(ENGINE, {field: 0.5, "max_tokens": 9})
    assert (told[field], json.loads(told["generation_config"])) == (0.5, {"do_sample": True})
    assert "generation_config" not in sent(ENGINE, {"temperature": 0, "top_p": 0.5, "max_tokens": 9})[0]


def test_with_a_generation_config_of_ours_an_answer_is_as_long_as_without() -> None:
    """Its own defaults are not read then, and transformers' is 20 tokens."""
    assert json.loads(sent(ENGINE, {"top_k": 5})[0]["generation_config"])["max_new_tokens"] == 1024


def test_it_tells_no_logprobs_however_many_are_wanted() -> None:
    for said in ({"top_logprobs": 2}, {"logprobs": True, "top_logprobs": 2}):
        with pytest.raises(Unsupported) as refused:
            sent(ENGINE, said)
        assert refused.value.param == next(iter(said))
        assert sent(ENGINE, said, drop=True) == (sent(ENGINE, {})[0], list(said))


def test_a_callers_own_generation_config_is_kept() -> None:
    told, _ = sent(ENGINE, {"generation_config": '{"num_beams": 2}', "top_k": 5})
    assert json.loads(told["generation_config"]) == {"num_beams": 2, "do_sample": True, "top_k": 5}
    for wrong in ("[]", "{", 5):
        with pytest.raises(InvalidRequest) as refused:
            sent(ENGINE, {"generation_config": wrong, "top_k": 5})
        assert refused.value.param == "generation_config"


def test_biases_are_fractions_there() -> None:
    """Whole numbers are a 500 (seen on 5.23)."""
    assert '"1":5.0' in json.dumps(sent(ENGINE, {"logit_bias": {"1": 5}})[0]["logit_bias"], separators=(",", ":"))


@pytest.mark.parametrize("field", SILENT)
def test_what_asks_for_nothing_is_no_reason_to_refuse(field: str) -> None:
    for value in (SILENT[field], None):
        told, dropped = sent(ENGINE, {field: value})
        assert dropped == []
        assert told.keys() <= HEARD


@pytest.mark.parametrize(
    "words",
    [
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {}}}},
        {"response_format": {"type": "json_object"}},
        {"guided_json": {}},
        {"guided_regex": "a"},
        {"guided_choice": ["a"]},
        {"guided_grammar": 'root ::= "a"'},
        {"structural_tag": {}},
    ],
    ids=lambda words: next(iter(words)),
)
def test_it_constrains_nothing(words: dict[str, Any]) -> None:
    [field] = words
    with pytest.raises(Unsupported) as refused:
        bent(ENGINE, words)
    assert refused.value.param == field
    assert bent(ENGINE, words, everything) == ({}, [field], None)


def test_it_calls_as_its_model_likes() -> None:
    for said in ({"tools": [TOOL]}, {"tools": [TOOL], "tool_choice": "auto"}):
        assert bent(ENGINE, said)[0] == {"tools": [TOOL]}
    assert bent(ENGINE, {"tools": [TOOL], "tool_choice": "none"})[0] == {}
    for choice in ("required", {"type": "function", "function": {"name": "now"}}):
        with pytest.raises(Unsupported) as refused:
            bent(ENGINE, {"tools": [TOOL], "tool_choice": choice})
        assert refused.value.param == "tool_choice"


def test_a_word_of_nobody_is_refused_by_us_or_dropped() -> None:
    with pytest.raises(Unsupported) as refused:
        sent(ENGINE, {"surprise": 1})
    assert refused.value.param == "surprise"
    assert sent(ENGINE, {"surprise": 1}, drop=True)[1] == ["surprise"]
    assert sent(Transformers("hf", {"accepts": ["surprise"]}), {"surprise": 1})[0]["surprise"] == 1


def test_its_422_is_the_callers() -> None:
    error = ENGINE.read_error(422, {}, b'{"detail":"Unexpected fields in the request: {\'top_k\'}"}')
    assert (type(error), error.status, error.counts_as_failure) == (UpstreamRejected, 422, False)
    assert "top_k" in error.message


def test_it_is_asked_for_streams_alone() -> None:
    told, _ = sent(ENGINE, {"stream_options": {"include_usage": True}, "stream": True})
    assert (told["stream"], told.keys() <= HEARD) == (True, True)
    assert sent(ENGINE, {})[0]["stream"] is True
