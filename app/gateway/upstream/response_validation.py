"""Response validation: check a response against the constraint on its output, and decode one that an engine wrote as a JSON string.

Used where the engine does not guarantee the constraint: the response is held back until it is checked.
"""

import logging
from collections.abc import Callable, Mapping
from typing import assert_never

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from app.gateway.emulation.emulated_tools import EmulatedTools
from app.gateway.structured_output.checker_client import CheckerUnavailable
from app.gateway.structured_output.constraint_checks import ConstraintChecks
from providers.canonical.chat import ChatResponse, Choice, Opaque, Part, Reasoning, Refusal, Text, ToolCall
from providers.canonical.errors import ConstraintUnchecked, ConstraintViolation
from providers.canonical.output_format import Choice as TextChoice
from providers.canonical.output_format import JsonObject, JsonSchema, OutputFormat
from providers.canonical.raw_json import DECODE_ERRORS
from providers.canonical.tool_calls import is_json_object
from providers.structured_output import Constraint, ConstraintPlan

log = logging.getLogger(__name__)

# A character beyond the first 65536 is written as a pair of escapes; all of it but the last digit may be there.
_MAX_PARTIAL_ESCAPE_CHARS = 11
_CODE_FENCE = "```"
# Of DeepSeek, Qwen and others. The templates of some write the first themselves, so that the text begins behind it.
# Source: https://docs.sglang.io/docs/advanced_features/separate_reasoning, read 2026-11.
_REASONING_BEGIN, _REASONING_END = "<think>", "</think>"
_JSON_BEGINNINGS = ("{", "[", '"', _CODE_FENCE)


class ResponseChecker(Struct, frozen=True):
    """A checker of the responses to one request.

    `refuses_unvalidated` says that the caller wants no response that could not be checked.
    """

    checks: ConstraintChecks
    team_id: str
    refuses_unvalidated: bool = False


async def validate_response(
    response: ChatResponse, constraint_plan: ConstraintPlan, constraint: Constraint, checker: ResponseChecker
) -> tuple[ChatResponse, bool]:
    """The response, decoded if it came as a JSON string or in a code block, and whether it was validated as far as its plan demands.

    Raises ConstraintViolation if one of its choices violates the constraint, ConstraintUnchecked if the caller refuses one that could not
    be checked. Tool calls and refusals are not constrained, as with OpenAI.
    """
    is_validated = True
    if constraint_plan.is_json_string:
        response = _rewrite_text(response, lambda text: _decode_json_string(text.strip()))
    if constraint_plan.is_instructed:
        response = replace(response, choices=tuple(_separate_reasoning(choice) for choice in response.choices))
        if isinstance(constraint_plan.output, JsonObject | JsonSchema | TextChoice):
            response = _rewrite_text(response, _unwrap_code_block)
    if constraint_plan.enforcement == "validated":
        for choice in response.choices:
            text = _choice_text(choice)
            if text is None or choice.finish_reason == "content_filter":
                continue
            if not await _is_valid(constraint_plan.output, text, constraint.field, choice, response, checker):
                is_validated = False
    return response, is_validated


async def validate_calls(response: ChatResponse, strict_tools: Mapping[str, Raw], checker: ResponseChecker) -> bool:
    """Whether the arguments of all calls of strict tools could be checked. `strict_tools` has their schemas, by name.

    Raises as validate_response() does.
    """
    is_validated = True
    for choice in response.choices:
        for part in choice.parts:
            schema = strict_tools.get(part.name) if isinstance(part, ToolCall) and not part.custom else None
            if isinstance(part, ToolCall) and schema is not None:
                is_validated &= await _is_valid(JsonSchema(schema), part.arguments or "{}", "tools", choice, response, checker)
    return is_validated


async def validate_custom_calls(response: ChatResponse, formats: Mapping[str, OutputFormat | None], checker: ResponseChecker) -> bool:
    """Whether the texts of all calls of tools for free text could be checked. `formats` has those of the texts, by name.

    Raises as validate_response() does.
    """
    is_validated = True
    for choice in response.choices:
        for part in choice.parts:
            output = formats.get(part.name) if isinstance(part, ToolCall) and part.custom else None
            if isinstance(part, ToolCall) and output is not None:
                is_validated &= await _is_valid(output, part.arguments, "tools", choice, response, checker)
    return is_validated


def check_demanded_calls(response: ChatResponse, emulated: EmulatedTools) -> None:
    """Raises ConstraintViolation if a choice has no call although one is demanded, or calls another tool."""
    if not emulated.is_demanded:
        return
    for choice in response.choices:
        calls = [part for part in choice.parts if isinstance(part, ToolCall)]
        is_cut_off = choice.finish_reason == "length"
        if choice.finish_reason == "content_filter" or (is_cut_off and not calls):
            continue
        wrong = next((call.name for call in calls if call.name not in emulated.tools), None)
        if wrong is not None:
            fault = f"it calls {wrong!r:.80}, which may not be called."
        elif not calls:
            fault = "it calls no tool."
        elif not is_cut_off and not all(is_json_object(call.arguments) for call in calls):
            fault = "the arguments of a call are no JSON object."
        else:
            continue
        raise ConstraintViolation(fault, param="tool_choice", response_text=_choice_text(choice) or "", usage=response.usage)


async def _is_valid(output: OutputFormat, text: str, field: str, choice: Choice, response: ChatResponse, checker: ResponseChecker) -> bool:
    """False: it could not be checked. Raises ConstraintViolation and ConstraintUnchecked, which name `field`."""
    try:
        fault = await checker.checks.find_violation(output, text, checker.team_id, is_complete=choice.finish_reason != "length")
    except CheckerUnavailable as unavailable:
        log.error("a response could not be validated", extra={"fault": str(unavailable), "refused": checker.refuses_unvalidated})
        if checker.refuses_unvalidated:
            raise ConstraintUnchecked("the checking process does not run.", param=field, response_text=text, usage=response.usage) from None
        return False
    if fault is not None:
        raise ConstraintViolation(fault, param=field, response_text=text, usage=response.usage)
    return True


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


def _rewrite_text(response: ChatResponse, rewrite: Callable[[str], str]) -> ChatResponse:
    """The response with the whole text of each choice rewritten. Choices with a call or a refusal stay as they are."""
    return replace(response, choices=tuple(_rewrite_choice(choice, rewrite) for choice in response.choices))


def _rewrite_choice(choice: Choice, rewrite: Callable[[str], str]) -> Choice:
    text = _choice_text(choice)
    if text is None or (rewritten := rewrite(text)) == text:
        return choice
    parts: list[Part] = [part for part in choice.parts if not isinstance(part, Text)]
    return replace(choice, parts=(*parts, Text(rewritten)))


def _separate_reasoning(choice: Choice) -> Choice:
    """The choice with the reasoning before its answer as a part of its own, where an engine leaves it in the text."""
    text = _choice_text(choice)
    if text is None or text.lstrip().startswith(_JSON_BEGINNINGS):
        return choice
    reasoning, end, answer = text.lstrip().removeprefix(_REASONING_BEGIN).partition(_REASONING_END)
    parts = [part for part in choice.parts if not isinstance(part, Text)]
    return replace(choice, parts=(*parts, Reasoning(reasoning.strip()), Text(answer.strip()))) if end else choice


def _unwrap_code_block(text: str) -> str:
    """Returns the text without white space around it, and without the Markdown code block in which it stands.

    The code block of a text that was cut off lacks its end.
    """
    text = text.strip()
    if not text.startswith(_CODE_FENCE):
        return text
    first_line, newline, rest = text.partition("\n")
    return rest.removesuffix(_CODE_FENCE).strip() if newline and _CODE_FENCE not in first_line[len(_CODE_FENCE) :] else text


def _decode_json_string(text: str) -> str:
    """The content of a JSON string. One that was cut off gives what came before its last, possibly incomplete escape."""
    for candidate in (text, *(text[: len(text) - cut_chars] + '"' for cut_chars in range(min(_MAX_PARTIAL_ESCAPE_CHARS, len(text)) + 1))):
        try:
            return msgspec.json.decode(candidate, type=str)
        except DECODE_ERRORS:
            continue
    return text
