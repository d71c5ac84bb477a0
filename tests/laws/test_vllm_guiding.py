"""What vLLM is promised to hold an answer to, and what is looked at or said otherwise."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from providers import guided
from providers.engines.vllm import VLLM
from providers.engines.vllm_patterns import write_pattern
from providers.guided import Constraint, JsonSchema, Regex
from tests.engines.shapes import BOOKING, NOT_FOR_XGRAMMAR
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
    assert bool(said.fullmatch(text)) == bool(re.fullmatch(write_pattern(pattern), text))


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_completions", "openai_responses", "anthropic_messages"])
@pytest.mark.parametrize(("schema", "how"), [(BOOKING, "enforced"), (NOT_FOR_XGRAMMAR, "validated")])
def test_a_schema_that_is_not_wholly_heeded_is_looked_at_in_each_dialect(dialect: str, schema: dict[str, Any], how: str):
    constraint = Constraint(JsonSchema(msgspec.Raw(msgspec.json.encode(schema))), "field")
    guiding = VLLM("gpu", {}, (0, 32)).guiding(constraint, dialect, as_said=False)
    assert guiding
    assert guiding.how == how


@pytest.mark.parametrize(
    ("version", "told"), [((0, 32), {"structured_outputs": {"regex": "a[^\\n]\\.[.]"}}), ((0, 11, 2), {"guided_regex": "a[^\\n]\\.[.]"})]
)
def test_a_dot_is_said_so_that_it_is_not_the_end_of_a_line(version: tuple[int, ...], told: dict[str, Any]):
    guiding = VLLM("gpu", {}, version).guiding(Constraint(Regex("a.\\.[.]"), "guided_regex"), "openai_chat", as_said=True)
    assert guiding == guided.Guiding("converted", Regex("a.\\.[.]"), told)
