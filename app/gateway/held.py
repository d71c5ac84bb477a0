"""Replies that are held back until they are known to obey: of engines that do not promise it, or that say the answer as a JSON string."""

from typing import assert_never

import msgspec
from msgspec.structs import replace

from app.gateway.checks import Checks
from providers.chat import ChatResponse, Choice, Opaque, Part, Reasoning, Refusal, Text, ToolCall
from providers.errors import NotObeyed
from providers.guided import Constraint, Guiding
from providers.wire import UNREADABLE

# Of a pair of escapes, as characters beyond the first 65536 are written, all but the last sign.
_LONGEST_HALF = 11


async def obeying(answer: ChatResponse, guiding: Guiding, constraint: Constraint, checks: Checks) -> ChatResponse:
    """The answer, out of its quotes if it came in some. Raises NotObeyed if one of its choices does not obey.

    A call, or a refusal, is another answer than the one that was constrained, as it is to OpenAI.
    """
    if guiding.quoted:
        answer = replace(answer, choices=tuple(_unquoted(choice) for choice in answer.choices))
    if guiding.how == "validated":
        for choice in answer.choices:
            said = _said(choice)
            if said is None or choice.finish_reason == "content_filter":
                continue
            fault = await checks.fault(guiding.output, said, whole=choice.finish_reason != "length")
            if fault is not None:
                usage = answer.usage
                raise NotObeyed(
                    fault,
                    param=constraint.field,
                    said=said,
                    input_tokens=usage.input if usage else None,
                    output_tokens=usage.output if usage else None,
                )
    return answer


def _said(choice: Choice) -> str | None:
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


def _unquoted(choice: Choice) -> Choice:
    said = _said(choice)
    if said is None:
        return choice
    plain = _plain(said.strip())
    parts: list[Part] = [part for part in choice.parts if not isinstance(part, Text)]
    return replace(choice, parts=(*parts, Text(plain)))


def _plain(said: str) -> str:
    """What a JSON string says; of one that was cut off, as much as came whole: its last escape may be half."""
    for beginning in (said, *(said[: len(said) - half] + '"' for half in range(min(_LONGEST_HALF, len(said)) + 1))):
        try:
            return msgspec.json.decode(beginning, type=str)
        except UNREADABLE:
            continue
    return said
