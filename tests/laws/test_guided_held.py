"""Laws of replies that are held back: out of their quotes as they were meant, and looked at only where they answer what was asked."""

import json
from collections.abc import AsyncGenerator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.gateway.structured_output.constraint_checks import ConstraintChecks
from app.gateway.upstream.response_validation import validate_response
from providers.canonical.chat import ChatResponse, Choice, Part, Reasoning, Refusal, Text, ToolCall, Usage
from providers.canonical.errors import ConstraintViolation
from providers.structured_output import Constraint, ConstraintPlan, Enforcement, Regex

few = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
WORD = Regex("[a-z]+")
CONSTRAINT = Constraint(WORD, "guided_regex")


@pytest.fixture(scope="module")
async def checks() -> AsyncGenerator[ConstraintChecks]:
    checks = ConstraintChecks()
    yield checks
    await checks.stop()


def answered(*parts: Part, reason: str = "stop") -> ChatResponse:
    return ChatResponse((Choice(parts, reason),), "engine-model", 1, Usage(3, 2))


async def held(checks: ConstraintChecks, answer: ChatResponse, *, how: Enforcement = "validated", quoted: bool = False) -> ChatResponse:
    return await validate_response(answer, ConstraintPlan(how, WORD, is_json_string=quoted), CONSTRAINT, checks)


def text_of(answer: ChatResponse) -> str:
    return "".join(part.text for part in answer.choices[0].parts if isinstance(part, Text))


@few
@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=8), st.booleans(), st.integers(0, 60))
async def test_a_quoted_answer_says_what_is_within_and_one_cut_off_as_much_as_came(
    checks: ConstraintChecks, said: str, is_ascii: bool, room: int
) -> None:
    quoted = json.dumps(said, ensure_ascii=is_ascii)
    whole = await held(checks, answered(Text(f" {quoted}\n")), how="converted", quoted=True)
    assert text_of(whole) == said
    cut = quoted[: max(1, room)]
    begun = text_of(await held(checks, answered(Text(cut), reason="length"), how="converted", quoted=True))
    assert said.startswith(begun)
    assert len(cut) < len(quoted) or begun == said


async def test_an_answer_that_obeys_goes_on(checks: ConstraintChecks) -> None:
    answer = answered(Reasoning("Hm."), Text("ab"), Text("c"))
    assert await held(checks, answer) == answer


@pytest.mark.parametrize("said", ["ABC", "abc ", ""])
async def test_one_that_does_not_obey_is_an_error_that_tells_what_it_took(checks: ConstraintChecks, said: str) -> None:
    with pytest.raises(ConstraintViolation) as failed:
        await held(checks, answered(Text(said)))
    assert (failed.value.response_text, failed.value.param) == (said, "guided_regex")
    assert (failed.value.input_tokens, failed.value.output_tokens) == (3, 2)


async def test_what_was_cut_off_must_be_a_beginning(checks: ConstraintChecks) -> None:
    assert text_of(await held(checks, answered(Text("ab"), reason="length"))) == "ab"
    with pytest.raises(ConstraintViolation):
        await held(checks, answered(Text("aB"), reason="length"))


@pytest.mark.parametrize("part", [ToolCall("c1", "f", "{}"), Refusal("No.")], ids=["a call", "a refusal"])
async def test_another_answer_than_the_one_that_was_constrained_is_not_held(checks: ConstraintChecks, part: Part) -> None:
    answer = answered(Text("Let me see!"), part)
    assert await held(checks, answer) == answer


async def test_what_the_engine_promises_is_not_looked_at(checks: ConstraintChecks) -> None:
    answer = answered(Text("ABC"))
    assert await held(checks, answer, how="enforced") == answer
