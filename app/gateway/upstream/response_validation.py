"""Response validation: check a response against the constraint on its output, and decode one that an engine wrote as a JSON string.

Used where the engine does not guarantee the constraint: the response is held back until it is checked.
"""

from typing import assert_never

import msgspec
from msgspec.structs import replace

from app.gateway.structured_output.constraint_checks import ConstraintChecks
from providers.canonical.chat import ChatResponse, Choice, Opaque, Part, Reasoning, Refusal, Text, ToolCall
from providers.canonical.errors import ConstraintViolation
from providers.canonical.raw_json import DECODE_ERRORS
from providers.structured_output import Constraint, ConstraintPlan

# A character beyond the first 65536 is written as a pair of escapes; all of it but the last digit may be there.
_MAX_PARTIAL_ESCAPE_CHARS = 11


async def validate_response(
    response: ChatResponse, constraint_plan: ConstraintPlan, constraint: Constraint, checks: ConstraintChecks
) -> ChatResponse:
    """The response, decoded if it came as a JSON string. Raises ConstraintViolation if one of its choices violates the constraint.

    Tool calls and refusals are not constrained, as with OpenAI.
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
    """The text; None for a tool call or a refusal."""
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
    """The content of a JSON string. One that was cut off gives what came before its last, possibly incomplete escape."""
    for candidate in (text, *(text[: len(text) - cut_chars] + '"' for cut_chars in range(min(_MAX_PARTIAL_ESCAPE_CHARS, len(text)) + 1))):
        try:
            return msgspec.json.decode(candidate, type=str)
        except DECODE_ERRORS:
            continue
    return text
