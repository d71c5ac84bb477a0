"""Engines that use xgrammar: which constraints they enforce, and which are validated, converted or refused."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from providers import structured_output
from providers.adapters.provider import Provider
from providers.canonical.errors import Unsupported
from providers.canonical.output_format import JsonSchema, Regex, StructuralTag
from providers.canonical.raw_json import Body
from providers.engines.lmdeploy.adapter import LMDeploy
from providers.engines.sglang.adapter import SGLang
from providers.engines.vllm.adapter import VLLM
from providers.engines.xgrammar import exclude_newline_from_dot
from providers.structured_output import Constraint
from providers.structured_output.grammar_coverage import is_schema_covered
from tests.engines.constraint_samples import BOOKING, REFUSED_BY_XGRAMMAR
from tests.support.request_translation import drop_everything, drop_nothing
from tests.support.strategies.chat_strategies import bounded


@bounded
@given(st.text("ab.[]\\^n(|)*?", max_size=8), st.text("ab.\\\n^", max_size=5))
def test_pattern_with_expanded_dots_matches_the_same_text(pattern: str, text: str):
    try:
        compiled = re.compile(pattern)
    except (re.error, FutureWarning):
        assume(False)
        return
    assume("[]" not in pattern and "[^]" not in pattern)
    assert bool(compiled.fullmatch(text)) == bool(re.fullmatch(exclude_newline_from_dot(pattern), text))


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_completions", "openai_responses", "anthropic_messages"])
@pytest.mark.parametrize(("schema", "how"), [(BOOKING, "enforced"), (REFUSED_BY_XGRAMMAR, "validated")])
def test_schema_not_fully_covered_by_the_grammar_is_validated_in_each_dialect(dialect: str, schema: dict[str, Any], how: str):
    uncovered_paths = frozenset[str]() if is_schema_covered(schema) else frozenset({"field"})
    constraint = Constraint(JsonSchema(msgspec.Raw(msgspec.json.encode(schema))), "field", uncovered_paths=uncovered_paths)
    constraint_plan = VLLM("gpu", {}, (0, 32)).plan_constraint(constraint, dialect, in_own_fields=False)
    assert constraint_plan
    assert constraint_plan.enforcement == how


@pytest.mark.parametrize(
    ("version", "fields"), [((0, 32), {"structured_outputs": {"regex": "a[^\\n]\\.[.]"}}), ((0, 11, 2), {"guided_regex": "a[^\\n]\\.[.]"})]
)
def test_regex_dot_is_expanded_to_exclude_newlines(version: tuple[int, ...], fields: dict[str, Any]):
    constraint_plan = VLLM("gpu", {}, version).plan_constraint(
        Constraint(Regex("a.\\.[.]"), "guided_regex"), "openai_chat", in_own_fields=True
    )
    assert constraint_plan == structured_output.ConstraintPlan("converted", Regex("a.\\.[.]"), fields)


ENGINES: list[Provider] = [VLLM("gpu", {}, (0, 32)), SGLang("gpu", {}), LMDeploy("gpu", {"version": "0.18.0"})]


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_partly_enforced_schema_is_validated_unless_the_operator_trusts_the_engine(engine: Provider):
    partly_covered = Constraint(
        JsonSchema(msgspec.Raw(b'{"type":"string","maxLength":3}')), "guided_json", uncovered_paths=frozenset({"guided_json"})
    )
    enforced = Constraint(JsonSchema(msgspec.Raw(b'{"type":"null"}')), "guided_json")
    trusted = type(engine)("gpu", {**engine.options, "guided": "enforced"}, engine.version)
    plans = [
        (each.plan_constraint(constraint, "openai_chat", in_own_fields=False))
        for each, constraint in ((engine, partly_covered), (engine, enforced), (trusted, partly_covered))
    ]
    assert [each and each.enforcement for each in plans] == ["validated", "enforced", "enforced"]


@pytest.mark.parametrize("engine", ENGINES[:2], ids=lambda engine: engine.name)
def test_strict_tool_with_a_partly_enforced_schema_is_refused_or_dropped_by_its_path(engine: Provider):
    tool = {"type": "function", "function": {"name": "f", "strict": True, "parameters": {"type": "object", "minProperties": 1}}}
    path = "tools[0].function.parameters"
    constraint = Constraint(None, "tools", strict_tools=((path, msgspec.Raw(b"{}")),), uncovered_paths=frozenset({path}))
    with pytest.raises(Unsupported) as refused:
        engine.adapt_request(Body.read(msgspec.json.encode({"messages": [], "tools": [tool]})), "openai_chat", drop_nothing, constraint)
    assert refused.value.param == "tools[0].function.strict"
    dropped = engine.adapt_request(
        Body.read(msgspec.json.encode({"messages": [], "tools": [tool]})), "openai_chat", drop_everything, constraint
    ).dropped
    assert dropped == ["tools[0].function.strict"]


def test_structural_tag_with_a_partly_enforced_schema_is_validated():
    constraint = Constraint(StructuralTag("{}"), "structural_tag", uncovered_paths=frozenset({"structural_tag"}))
    constraint_plan = ENGINES[0].plan_constraint(constraint, "openai_chat", in_own_fields=True)
    assert constraint_plan is not None and constraint_plan.enforcement == "validated"
