"""A schema is promised of vLLM only if all that it says is known to be obeyed; what is seen of that stands in tests/engines."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from providers import guided
from providers.engines.vllm import VLLM
from providers.engines.vllm_patterns import write_pattern
from providers.engines.vllm_schemas import is_obeyed
from providers.guided import Constraint, JsonSchema, Regex
from tests.engines.schemas_seen import OBEYED, PASSED_OVER
from tests.engines.shapes import BOOKING, NOT_FOR_XGRAMMAR
from tests.laws.chats import bounded

KEYWORDS = ("not", "if", "dependentRequired", "unevaluatedProperties", "contains", "uniqueItems", "multipleOf", "minLength", "x-other")


def held(schema: Any) -> bool:
    return is_obeyed(msgspec.Raw(msgspec.json.encode(schema)))


def test_what_was_seen_is_known():
    assert [what for what, schema in OBEYED.items() if not held(schema)] == []
    assert [what for what, schema in PASSED_OVER.items() if held(schema)] == []
    assert held(BOOKING)
    assert not held(NOT_FOR_XGRAMMAR)


@bounded
@given(st.sampled_from(sorted(OBEYED)), st.sampled_from(KEYWORDS), st.sampled_from(["anyOf", "properties", "items", "$defs"]))
def test_one_keyword_that_is_not_obeyed_is_found_wherever_it_stands(what: str, keyword: str, place: str):
    schema = {**OBEYED[what], keyword: 1}
    within: dict[str, Any] = {
        "anyOf": {"anyOf": [{"type": "null"}, schema]},
        "properties": {"type": "object", "properties": {"a": schema}},
        "items": {"type": "array", "items": schema},
        "$defs": {"$defs": {"a": schema}, "$ref": "#/$defs/a"},
    }
    assert not held(schema)
    assert not held(within[place])


@pytest.mark.parametrize("raw", [b"true", b"false", b"[]", b'{"enum":1}', b'{"type":[1]}', b"{" * 9, b"[" * 90_000])
def test_what_is_no_schema_is_promised_nothing(raw: bytes):
    assert not is_obeyed(msgspec.Raw(raw))


@bounded
@given(st.text("ab.[]\\^n(|)*?", max_size=8), st.text("ab.\\\n^", max_size=5))
def test_a_pattern_says_the_same_when_its_dots_are_written_out(pattern: str, text: str):
    try:
        said = re.compile(pattern)
    except (re.error, FutureWarning):
        assume(False)
        return
    assume("[]" not in pattern and "[^]" not in pattern)
    assert bool(said.fullmatch(text)) == bool(re.fullmatch(write_pattern(pattern), text))


def test_a_schema_that_is_not_wholly_obeyed_is_looked_at_in_each_dialect():
    vllm = VLLM("gpu", {}, (0, 32))
    for dialect in ("openai_chat", "openai_completions", "openai_responses", "anthropic_messages"):
        for schema, how in ((BOOKING, "enforced"), (PASSED_OVER["not"], "validated")):
            constraint = Constraint(JsonSchema(msgspec.Raw(msgspec.json.encode(schema))), "field")
            guiding = vllm.guiding(constraint, dialect, as_said=False)
            assert guiding and guiding.how == how


@pytest.mark.parametrize(
    ("version", "told"), [((0, 32), {"structured_outputs": {"regex": "a[^\\n]\\.[.]"}}), ((0, 11, 2), {"guided_regex": "a[^\\n]\\.[.]"})]
)
def test_a_dot_is_said_so_that_it_is_not_the_end_of_a_line(version: tuple[int, ...], told: dict[str, Any]):
    guiding = VLLM("gpu", {}, version).guiding(Constraint(Regex("a.\\.[.]"), "guided_regex"), "openai_chat", as_said=True)
    assert guiding == guided.Guiding("converted", Regex("a.\\.[.]"), told)
