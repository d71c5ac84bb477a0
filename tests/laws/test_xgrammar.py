"""What engines that use xgrammar are promised to hold an answer to, and what is looked at, said otherwise or refused."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from providers import structured_output
from providers.adapters.provider import Provider
from providers.canonical.errors import Unsupported
from providers.canonical.raw_json import Body
from providers.engines.lmdeploy.adapter import LMDeploy
from providers.engines.sglang.adapter import SGLang
from providers.engines.vllm.adapter import VLLM
from providers.engines.xgrammar import exclude_newline_from_dot
from providers.structured_output import Constraint, JsonSchema, Regex
from providers.structured_output.grammar_coverage import is_schema_covered
from tests.engines.shapes import BOOKING, NOT_FOR_XGRAMMAR
from tests.laws.asking import everything, nothing
from tests.laws.chats import bounded


@bounded
@given(st.text("ab.[]\\^n(|)*?", max_size=8), st.text("ab.\\\n^", max_size=5))
def test_a_pattern_says_the_same_when_its_dots_are_written_out(pattern: str, text: str):
    try:
        said = re.compile(pattern)
    except (re.error, FutureWarning):
        assume(False)
        return
    assume("[]" not in pattern and "[^]" not in pattern)
    assert bool(said.fullmatch(text)) == bool(re.fullmatch(exclude_newline_from_dot(pattern), text))


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_completions", "openai_responses", "anthropic_messages"])
@pytest.mark.parametrize(("schema", "how"), [(BOOKING, "enforced"), (NOT_FOR_XGRAMMAR, "validated")])
def test_a_schema_that_is_not_wholly_heeded_is_looked_at_in_each_dialect(dialect: str, schema: dict[str, Any], how: str):
    loose = frozenset[str]() if is_schema_covered(schema) else frozenset({"field"})
    constraint = Constraint(JsonSchema(msgspec.Raw(msgspec.json.encode(schema))), "field", uncovered_paths=loose)
    guiding = VLLM("gpu", {}, (0, 32)).plan_constraint(constraint, dialect, as_said=False)
    assert guiding
    assert guiding.enforcement == how


@pytest.mark.parametrize(
    ("version", "told"), [((0, 32), {"structured_outputs": {"regex": "a[^\\n]\\.[.]"}}), ((0, 11, 2), {"guided_regex": "a[^\\n]\\.[.]"})]
)
def test_a_dot_is_said_so_that_it_is_not_the_end_of_a_line(version: tuple[int, ...], told: dict[str, Any]):
    guiding = VLLM("gpu", {}, version).plan_constraint(Constraint(Regex("a.\\.[.]"), "guided_regex"), "openai_chat", as_said=True)
    assert guiding == structured_output.ConstraintPlan("converted", Regex("a.\\.[.]"), told)


ENGINES: list[Provider] = [VLLM("gpu", {}, (0, 32)), SGLang("gpu", {}), LMDeploy("gpu", {"version": "0.18.0"})]


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_a_schema_that_is_held_to_in_part_is_looked_at_unless_the_operator_vouches(engine: Provider):
    loose = Constraint(
        JsonSchema(msgspec.Raw(b'{"type":"string","maxLength":3}')), "guided_json", uncovered_paths=frozenset({"guided_json"})
    )
    held = Constraint(JsonSchema(msgspec.Raw(b'{"type":"null"}')), "guided_json")
    vouched = type(engine)("gpu", {**engine.options, "guided": "enforced"}, engine.version)
    told = [
        (each.plan_constraint(constraint, "openai_chat", as_said=False))
        for each, constraint in ((engine, loose), (engine, held), (vouched, loose))
    ]
    assert [each and each.enforcement for each in told] == ["validated", "enforced", "enforced"]


@pytest.mark.parametrize("engine", ENGINES[:2], ids=lambda engine: engine.name)
def test_a_strict_tool_whose_schema_is_held_to_in_part_is_refused_by_its_name(engine: Provider):
    tool = {"type": "function", "function": {"name": "f", "strict": True, "parameters": {"type": "object", "minProperties": 1}}}
    path = "tools[0].function.parameters"
    constraint = Constraint(None, "tools", strict_tools=((path, msgspec.Raw(b"{}")),), uncovered_paths=frozenset({path}))
    with pytest.raises(Unsupported) as refused:
        engine.adapt_request(Body.read(msgspec.json.encode({"messages": [], "tools": [tool]})), "openai_chat", nothing, constraint)
    assert refused.value.param == "tools[0].function.strict"
    dropped = engine.adapt_request(
        Body.read(msgspec.json.encode({"messages": [], "tools": [tool]})), "openai_chat", everything, constraint
    ).dropped
    assert dropped == ["tools[0].function.strict"]


def test_a_tag_around_such_a_schema_is_looked_at_too():
    constraint = Constraint(structured_output.StructuralTag("{}"), "structural_tag", uncovered_paths=frozenset({"structural_tag"}))
    guiding = ENGINES[0].plan_constraint(constraint, "openai_chat", as_said=True)
    assert guiding is not None and guiding.enforcement == "validated"
