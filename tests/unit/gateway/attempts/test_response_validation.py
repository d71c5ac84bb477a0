"""Validation of responses: JSON strings are unquoted, and a response is validated only if it answers the constraint."""

import json
import sys
from collections.abc import AsyncGenerator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.gateway.structured_output import constraint_checks
from app.gateway.structured_output.constraint_checks import ConstraintChecks
from app.gateway.upstream.response_validation import ResponseChecker, validate_response
from providers.canonical.chat import ChatResponse, Choice, Part, Reasoning, Refusal, Text, ToolCall, Usage
from providers.canonical.errors import ConstraintUnchecked, ConstraintViolation
from providers.canonical.output_format import JsonObject, Regex
from providers.structured_output import Constraint, ConstraintPlan, Enforcement

few_examples = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
WORD_REGEX = Regex("[a-z]+")
CONSTRAINT = Constraint(WORD_REGEX, "guided_regex")


@pytest.fixture(scope="module")
async def checks() -> AsyncGenerator[ConstraintChecks]:
    checks = ConstraintChecks(response_wait_s=60)
    yield checks
    await checks.stop()


def response_of(*parts: Part, reason: str = "stop") -> ChatResponse:
    return ChatResponse((Choice(parts, reason),), "engine-model", 1, Usage(3, 2, cached=1))


async def validated(
    checks: ConstraintChecks, response: ChatResponse, *, how: Enforcement = "validated", quoted: bool = False
) -> ChatResponse:
    plan = ConstraintPlan(how, WORD_REGEX, is_json_string=quoted)
    read_response, is_validated = await validate_response(response, plan, CONSTRAINT, ResponseChecker(checks, "team"))
    assert is_validated
    return read_response


def text_of(response: ChatResponse) -> str:
    return "".join(part.text for part in response.choices[0].parts if isinstance(part, Text))


@few_examples
@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=8), st.booleans(), st.integers(0, 60))
async def test_quoted_response_is_unquoted_and_a_truncated_one_as_far_as_it_came(
    checks: ConstraintChecks, text: str, is_ascii: bool, length: int
) -> None:
    quoted = json.dumps(text, ensure_ascii=is_ascii)
    unquoted = await validated(checks, response_of(Text(f" {quoted}\n")), how="converted", quoted=True)
    assert text_of(unquoted) == text
    cut = quoted[: max(1, length)]
    truncated_text = text_of(await validated(checks, response_of(Text(cut), reason="length"), how="converted", quoted=True))
    assert text.startswith(truncated_text)
    assert len(cut) < len(quoted) or truncated_text == text


async def test_response_that_meets_its_constraint_is_returned_unchanged(checks: ConstraintChecks) -> None:
    response = response_of(Reasoning("Hm."), Text("ab"), Text("c"))
    assert await validated(checks, response) == response


@pytest.mark.parametrize(
    ("text", "passed_on"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ('```json\n{"a": 1}\n```\n', '{"a": 1}'),
        (' ```\n{"a":\n 1}```', '{"a":\n 1}'),
        ('{"a": "```"}', '{"a": "```"}'),
        ('{"a": "</think>"}', '{"a": "</think>"}'),
        ('Here you are: {"a": 1}', None),
        ("```json", None),
        ("```", None),
        ('```{"a": 1}```', None),
    ],
)
async def test_json_that_the_prompt_demands_may_come_in_a_code_block(checks: ConstraintChecks, text: str, passed_on: str | None) -> None:
    plan = ConstraintPlan("validated", JsonObject(), is_instructed=True)
    checked = validate_response(response_of(Reasoning("Hm."), Text(text)), plan, CONSTRAINT, ResponseChecker(checks, "team"))
    if passed_on is None:
        with pytest.raises(ConstraintViolation):
            await checked
    else:
        assert (await checked)[0] == response_of(Reasoning("Hm."), Text(passed_on))


@pytest.mark.parametrize("begin", ["<think>\n", "\n"])
async def test_reasoning_that_an_engine_leaves_in_the_text_is_no_part_of_the_format(checks: ConstraintChecks, begin: str) -> None:
    plan = ConstraintPlan("validated", WORD_REGEX, is_instructed=True)
    checker = ResponseChecker(checks, "team")
    response = response_of(Text(f"{begin}Let me see. {{\n</think>\n\nabc"))
    assert (await validate_response(response, plan, CONSTRAINT, checker))[0] == response_of(Reasoning("Let me see. {"), Text("abc"))
    with pytest.raises(ConstraintViolation):
        await validate_response(response_of(Text("<think>without end")), plan, CONSTRAINT, checker)


@pytest.mark.parametrize("text", ["ABC", "abc ", ""])
async def test_constraint_violation_carries_the_text_and_the_token_usage(checks: ConstraintChecks, text: str) -> None:
    with pytest.raises(ConstraintViolation) as failed:
        await validated(checks, response_of(Text(text)))
    assert (failed.value.response_text, failed.value.param) == (text, "guided_regex")
    assert failed.value.usage == Usage(3, 2, cached=1)


async def test_truncated_response_must_be_the_beginning_of_a_valid_one(checks: ConstraintChecks) -> None:
    assert text_of(await validated(checks, response_of(Text("ab"), reason="length"))) == "ab"
    with pytest.raises(ConstraintViolation):
        await validated(checks, response_of(Text("aB"), reason="length"))


@pytest.mark.parametrize("part", [ToolCall("c1", "f", "{}"), Refusal("No.")], ids=["a call", "a refusal"])
async def test_tool_call_or_refusal_is_not_validated_against_the_constraint(checks: ConstraintChecks, part: Part) -> None:
    response = response_of(Text("Let me see!"), part)
    assert await validated(checks, response) == response


async def test_response_of_an_enforcing_engine_is_not_validated(checks: ConstraintChecks) -> None:
    response = response_of(Text("ABC"))
    assert await validated(checks, response, how="enforced") == response


@pytest.fixture
async def broken_checks(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[ConstraintChecks]:
    """Checks whose process cannot start."""
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setattr(constraint_checks, "_RETRY_CHECK_S", 0.0)
    checks = ConstraintChecks(response_wait_s=60)
    yield checks
    await checks.stop()


async def test_response_that_cannot_be_checked_is_served_as_unvalidated(broken_checks: ConstraintChecks) -> None:
    response = response_of(Text("ABC"))
    plan = ConstraintPlan("validated", WORD_REGEX)
    assert await validate_response(response, plan, CONSTRAINT, ResponseChecker(broken_checks, "team")) == (response, False)


async def test_unchecked_response_is_refused_with_its_usage_if_the_caller_demands_it(broken_checks: ConstraintChecks) -> None:
    plan = ConstraintPlan("validated", WORD_REGEX)
    with pytest.raises(ConstraintUnchecked, match="x-narthex-guided-unvalidated") as refused:
        await validate_response(
            response_of(Text("abc")), plan, CONSTRAINT, ResponseChecker(broken_checks, "team", refuses_unvalidated=True)
        )
    assert (refused.value.code, refused.value.usage) == ("constraint_unchecked", Usage(3, 2, cached=1))
