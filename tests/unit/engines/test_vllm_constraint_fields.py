"""vLLM's constraint fields: each version is sent fields that it obeys, and enforcement is promised only where it is known."""

import json
from typing import Any

import pytest

from providers import structured_output
from providers.adapters.provider import Provider
from providers.canonical.errors import Unsupported
from providers.canonical.output_format import output_kind
from providers.canonical.raw_json import Body
from providers.engines.vllm.adapter import VLLM
from providers.structured_output import ConstraintPlan
from tests.support.case_tables import assert_every
from tests.support.request_translation import drop_nothing

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"b": {}, "a": {}}}
TAG = {"type": "structural_tag", "format": {"type": "any_text"}}
# Each kind of constraint, in every form that callers have for it.
REQUESTS: dict[str, list[dict[str, Any]]] = {
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
Case = tuple[str, dict[str, Any]]
EVERY_CONSTRAINT: list[Case] = [(kind, fields) for kind, forms in REQUESTS.items() for fields in forms]


def adapt(provider: Provider, fields: dict[str, Any], dialect: str) -> tuple[dict[str, Any], ConstraintPlan]:
    body = Body.read(json.dumps(fields).encode())
    constraint_plan = provider.adapt_request(body, dialect, drop_nothing, structured_output.read_constraint(dialect, body)).constraint_plan
    assert constraint_plan is not None
    return json.loads(body.write()), constraint_plan


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_completions"])
@pytest.mark.parametrize("version", [(0, 12), (0, 32, 0), (1,)], ids=str)
def test_since_0_12_constraints_use_structured_outputs_or_response_format(version: tuple[int, ...], dialect: str) -> None:
    def check(case: Case) -> None:
        kind, fields = case
        sent, constraint_plan = adapt(VLLM("v", {}, version), fields, dialect)
        plain = kind in ("json_schema", "json_object") and "response_format" in fields
        assert set(sent) == ({"response_format"} if plain else {"structured_outputs"})
        assert (constraint_plan.enforcement, output_kind(constraint_plan.output)) == ("enforced", kind)

    assert_every(check, EVERY_CONSTRAINT)


@pytest.mark.parametrize("version", [(0, 8, 5), (0, 10, 2), (0, 11, 2)], ids=str)
def test_before_0_12_constraints_use_guided_fields_or_response_format(version: tuple[int, ...]) -> None:
    def check(case: Case) -> None:
        sent, constraint_plan = adapt(VLLM("v", {}, version), case[1], "openai_chat")
        assert len(sent) == 1
        assert set(sent) <= {"guided_json", "guided_regex", "guided_choice", "guided_grammar", "response_format"}
        assert constraint_plan.enforcement == "enforced"

    assert_every(check, EVERY_CONSTRAINT)


def test_completions_before_0_12_use_response_format_only_for_json_object() -> None:
    """0.10.2 silently ignores any other, and structural tags in every form (its CompletionRequest was run)."""
    old = VLLM("v", {"version": "0.10.2"})

    def check(case: Case) -> None:
        kind, fields = case
        if kind == "structural_tag":
            with pytest.raises(Unsupported) as refused:
                adapt(old, fields, "openai_completions")
            assert refused.value.param is not None
            assert refused.value.param.partition(".")[0] in fields
            return
        sent, constraint_plan = adapt(old, fields, "openai_completions")
        assert ("response_format" in sent) == (kind == "json_object")
        assert constraint_plan.enforcement == "enforced"

    assert_every(check, EVERY_CONSTRAINT)


def test_unknown_version_promises_only_constraints_all_versions_enforce() -> None:
    def check(case: Case) -> None:
        kind, fields = case
        sent, constraint_plan = adapt(VLLM("v", {}), fields, "openai_chat")
        assert constraint_plan.enforcement == ("enforced" if kind in ("json_schema", "json_object", "structural_tag") else "validated")
        assert set(sent) == ({"response_format"} if constraint_plan.enforcement == "enforced" else {"structured_outputs"})

    assert_every(check, EVERY_CONSTRAINT)


def test_unknown_version_validates_schemas_of_completions() -> None:
    for fields in REQUESTS["json_schema"]:
        sent, constraint_plan = adapt(VLLM("v", {}), fields, "openai_completions")
        assert (set(sent), constraint_plan.enforcement) == ({"response_format"}, "validated")
    _, constraint_plan = adapt(VLLM("v", {}), {"structured_outputs": {"json_object": True}}, "openai_completions")
    assert constraint_plan.enforcement == "enforced"


def test_configured_version_works_like_a_probed_one_and_the_probe_wins() -> None:
    def adapted(fields: dict[str, Any], probed: tuple[int, ...] | None = None, **options: str) -> tuple[dict[str, Any], ConstraintPlan]:
        return adapt(VLLM("v", options, probed), fields, "openai_chat")

    def check(case: Case) -> None:
        _, fields = case
        for version, numbers in (("0.11.0", (0, 11, 0)), ("0.32.0+cpu", (0, 32, 0))):
            assert adapted(fields, version=version) == adapted(fields, numbers)
        assert adapted(fields, (0, 32), version="0.11.0") == adapted(fields, (0, 32))

    assert_every(check, EVERY_CONSTRAINT)


def test_schema_keeps_the_order_of_its_properties() -> None:
    for version in (None, (0, 11), (0, 32)):
        for fields in REQUESTS["json_schema"]:
            sent, _ = adapt(VLLM("v", {}, version), fields, "openai_chat")
            assert '"properties": {"b": {}, "a": {}}' in json.dumps(sent)


def test_supported_constraint_field_keeps_the_caller_bytes() -> None:
    raw = b'{"structured_outputs":{"json": { "maximum" : 1.50 }},"temperature":0.10}'
    body = Body.read(raw)
    VLLM("v", {}, (0, 32)).adapt_request(body, "openai_chat", drop_nothing, structured_output.read_constraint("openai_chat", body))
    assert body.write() == raw


NATIVE: dict[str, dict[str, Any]] = {
    "openai_responses": {"text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}, "verbosity": "medium"}},
    "anthropic_messages": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}, "effort": "low"}},
}


@pytest.mark.parametrize("dialect", NATIVE)
def test_responses_and_messages_constraints_are_native_since_0_32(dialect: str) -> None:
    assert dialect in VLLM("v", {}, (0, 32)).constrained_dialects
    for older in (VLLM("v", {}), VLLM("v", {}, (0, 31)), VLLM("v", {"version": "0.11"})):
        assert dialect not in older.constrained_dialects  # it is translated to chat instead
    sent, constraint_plan = adapt(VLLM("v", {}, (0, 32)), NATIVE[dialect], dialect)
    assert (sent, constraint_plan.enforcement) == (NATIVE[dialect], "enforced")


def test_beta_output_format_is_moved_into_output_config() -> None:
    output_format: dict[str, Any] = {"type": "json_schema", "schema": SCHEMA}
    sent, constraint_plan = adapt(
        VLLM("v", {}, (0, 32)), {"output_format": output_format, "output_config": {"effort": "low"}}, "anthropic_messages"
    )
    assert sent == {"output_config": {"format": output_format, "effort": "low"}}
    assert constraint_plan.enforcement == "enforced"
