"""Laws of vLLM's words for guided decoding: each version is asked in words that it obeys, and nothing is promised where it is not known."""

import json
from typing import Any

import pytest

from providers import structured_output
from providers.adapters.provider import Provider
from providers.canonical.errors import Unsupported
from providers.canonical.raw_json import Body
from providers.engines.vllm.adapter import VLLM
from providers.structured_output import ConstraintPlan
from tests.laws.asking import nothing

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"b": {}, "a": {}}}
TAG = {"type": "structural_tag", "format": {"type": "any_text"}}
# What is asked, in each of the words that callers have for it.
ASKED: dict[str, list[dict[str, Any]]] = {
    "json_schema": [
        {"guided_json": SCHEMA},
        {"structured_outputs": {"json": SCHEMA}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}},
    ],
    "json_object": [{"response_format": {"type": "json_object"}}, {"structured_outputs": {"json_object": True}}],
    "regex": [{"guided_regex": "a"}, {"structured_outputs": {"regex": "a"}}],
    "choice": [{"guided_choice": ["a"]}, {"structured_outputs": {"choice": ["a"]}}],
    "grammar": [{"guided_grammar": 'root ::= "a"'}, {"structured_outputs": {"grammar": 'root ::= "a"'}}],
    "structural_tag": [{"structural_tag": TAG}, {"response_format": TAG}, {"structured_outputs": {"structural_tag": json.dumps(TAG)}}],
}
EACH = pytest.mark.parametrize(("kind", "fields"), [(kind, said) for kind, all_said in ASKED.items() for said in all_said])


def bent(provider: Provider, fields: dict[str, Any], dialect: str) -> tuple[dict[str, Any], ConstraintPlan]:
    body = Body.read(json.dumps(fields).encode())
    guiding = provider.adapt_request(body, dialect, nothing, structured_output.read_constraint(dialect, body)).constraint_plan
    assert guiding is not None
    return json.loads(body.write()), guiding


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_completions"])
@pytest.mark.parametrize("version", [(0, 12), (0, 32, 0), (1,)], ids=str)
@EACH
def test_since_0_12_it_is_asked_in_structured_outputs_or_the_callers_own_words(
    kind: str, fields: dict[str, Any], version: tuple[int, ...], dialect: str
) -> None:
    sent, guiding = bent(VLLM("v", {}, version), fields, dialect)
    plain = kind in ("json_schema", "json_object") and "response_format" in fields
    assert set(sent) == ({"response_format"} if plain else {"structured_outputs"})
    assert (guiding.enforcement, structured_output.output_kind(guiding.output)) == ("enforced", kind)


@pytest.mark.parametrize("version", [(0, 8, 5), (0, 10, 2), (0, 11, 2)], ids=str)
@EACH
def test_before_0_12_it_is_asked_in_guided_words_and_for_json_and_tags_in_response_format(
    kind: str, fields: dict[str, Any], version: tuple[int, ...]
) -> None:
    sent, guiding = bent(VLLM("v", {}, version), fields, "openai_chat")
    assert len(sent) == 1
    assert set(sent) <= {"guided_json", "guided_regex", "guided_choice", "guided_grammar", "response_format"}
    assert guiding.enforcement == "enforced"


@EACH
def test_completions_before_0_12_are_not_asked_by_response_format_but_for_objects(kind: str, fields: dict[str, Any]) -> None:
    """0.10.2 passes over any other in silence, and over structural tags in any word (its CompletionRequest was run)."""
    old = VLLM("v", {"version": "0.10.2"})
    if kind == "structural_tag":
        with pytest.raises(Unsupported) as refused:
            bent(old, fields, "openai_completions")
        assert refused.value.param is not None
        assert refused.value.param.partition(".")[0] in fields
        return
    sent, guiding = bent(old, fields, "openai_completions")
    assert ("response_format" in sent) == (kind == "json_object")
    assert guiding.enforcement == "enforced"


@EACH
def test_where_the_version_is_not_known_only_what_all_obey_is_promised(kind: str, fields: dict[str, Any]) -> None:
    sent, guiding = bent(VLLM("v", {}), fields, "openai_chat")
    assert guiding.enforcement == ("enforced" if kind in ("json_schema", "json_object", "structural_tag") else "validated")
    assert set(sent) == ({"response_format"} if guiding.enforcement == "enforced" else {"structured_outputs"})


def test_schemas_of_completions_are_looked_at_where_the_version_is_not_known() -> None:
    for fields in ASKED["json_schema"]:
        sent, guiding = bent(VLLM("v", {}), fields, "openai_completions")
        assert (set(sent), guiding.enforcement) == ({"response_format"}, "validated")
    _, guiding = bent(VLLM("v", {}), {"structured_outputs": {"json_object": True}}, "openai_completions")
    assert guiding.enforcement == "enforced"


@EACH
def test_a_version_that_was_configured_is_as_good_as_one_that_was_found(kind: str, fields: dict[str, Any]) -> None:
    for version, numbers in (("0.11.0", (0, 11, 0)), ("0.32.0+cpu", (0, 32, 0))):
        assert bent(VLLM("v", {"version": version}), fields, "openai_chat") == bent(VLLM("v", {}, numbers), fields, "openai_chat")
    # One that was found is the truth.
    assert bent(VLLM("v", {"version": "0.11.0"}, (0, 32)), fields, "openai_chat") == bent(VLLM("v", {}, (0, 32)), fields, "openai_chat")


def test_a_schema_keeps_the_order_of_its_properties() -> None:
    for version in (None, (0, 11), (0, 32)):
        for fields in ASKED["json_schema"]:
            sent, _ = bent(VLLM("v", {}, version), fields, "openai_chat")
            assert '"properties": {"b": {}, "a": {}}' in json.dumps(sent)


def test_words_that_the_engine_obeys_stay_the_callers_bytes() -> None:
    raw = b'{"structured_outputs":{"json": { "maximum" : 1.50 }},"temperature":0.10}'
    body = Body.read(raw)
    VLLM("v", {}, (0, 32)).adapt_request(body, "openai_chat", nothing, structured_output.read_constraint("openai_chat", body))
    assert body.write() == raw


NATIVE: dict[str, dict[str, Any]] = {
    "openai_responses": {"text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}, "verbosity": "medium"}},
    "anthropic_messages": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}, "effort": "low"}},
}


@pytest.mark.parametrize("dialect", NATIVE)
def test_responses_and_messages_are_asked_in_their_own_words_where_those_were_seen_to_be_obeyed(dialect: str) -> None:
    assert dialect in VLLM("v", {}, (0, 32)).constrained_dialects
    for older in (VLLM("v", {}), VLLM("v", {}, (0, 31)), VLLM("v", {"version": "0.11"})):
        assert dialect not in older.constrained_dialects  # it is said in chat instead
    sent, guiding = bent(VLLM("v", {}, (0, 32)), NATIVE[dialect], dialect)
    assert (sent, guiding.enforcement) == (NATIVE[dialect], "enforced")


def test_the_betas_name_for_an_output_is_said_as_its_own() -> None:
    told: dict[str, Any] = {"type": "json_schema", "schema": SCHEMA}
    sent, guiding = bent(VLLM("v", {}, (0, 32)), {"output_format": told, "output_config": {"effort": "low"}}, "anthropic_messages")
    assert sent == {"output_config": {"format": told, "effort": "low"}}
    assert guiding.enforcement == "enforced"
