"""Replies that are held back until they are known to obey: of engines that do not promise it, or that say the answer as a JSON string."""

from typing import assert_never

import msgspec
from msgspec.structs import replace

from app.gateway.structured_output.constraint_checks import ConstraintChecks
from providers.canonical.chat import ChatResponse, Choice, Opaque, Part, Reasoning, Refusal, Text, ToolCall
from providers.canonical.errors import ConstraintViolation
from providers.canonical.raw_json import DECODE_ERRORS
from providers.structured_output import Constraint, ConstraintPlan

# Of a pair of escapes, as characters beyond the first 65536 are written, all but the last sign.
_MAX_PARTIAL_ESCAPE_CHARS = 11


async def validate_response(
    response: ChatResponse, constraint_plan: ConstraintPlan, constraint: Constraint, checks: ConstraintChecks
) -> ChatResponse:
    """The answer, out of its quotes if it came in some. Raises NotObeyed if one of its choices does not obey.

    A call, or a refusal, is another answer than the one that was constrained, as it is to OpenAI.
    """
    if constraint_plan.is_json_string:
        response = replace(response, choices=tuple(_unquote_choice(choice) for choice in response.choices))
    if constraint_plan.enforcement == "validated":
        for choice in response.choices:
            text = _choice_text(choice)
            if text is None or choice.finish_reason == "content_filter":
                continue
            fault = await checks.find_violation(constraint_plan.output, text, is_complete=choice.finish_reason != "length")
            if fault is not None:
                usage = response.usage
                raise ConstraintViolation(
                    fault,
                    param=constraint.field,
                    response_text=text,
                    input_tokens=usage.input if usage else None,
                    output_tokens=usage.output if usage else None,
                )
    return response


def _choice_text(choice: Choice) -> str | None:
    """Its text; None if it says something else."""
    texts: list[str] = []
    for part in choice.parts:
        match part:
            case Text():
                texts.append(part.text)
            case Refusal() | ToolCall():
                return None
            case Reasoning() | Opaque():
                pass
            case _:
                assert_never(part)
    return "".join(texts)


def _unquote_choice(choice: Choice) -> Choice:
    text = _choice_text(choice)
    if text is None:
        return choice
    decoded = _decode_json_string(text.strip())
    parts: list[Part] = [part for part in choice.parts if not isinstance(part, Text)]
    return replace(choice, parts=(*parts, Text(decoded)))


def _decode_json_string(text: str) -> str:
    """What a JSON string says; of one that was cut off, as much as came whole: its last escape may be half."""
    for candidate in (text, *(text[: len(text) - cut_chars] + '"' for cut_chars in range(min(_MAX_PARTIAL_ESCAPE_CHARS, len(text)) + 1))):
        try:
            return msgspec.json.decode(candidate, type=str)
        except DECODE_ERRORS:
            continue
    return text
