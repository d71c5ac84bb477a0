"""Finish reasons of Gemini as OpenAI's, or as an error where the model wrote no usable answer.

Source: https://ai.google.dev/api/generate-content#FinishReason and Vertex's, read 2026-11.
"""

from providers.canonical.credential_masking import mask_credentials
from providers.canonical.errors import UnparsableModelOutput
from providers.canonical.events import ChoiceFinished
from providers.canonical.finish_reasons import check_failure, known_reason

_FILTER_REASONS = frozenset(
    {
        *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "JAILBREAK", "IMAGE_SAFETY"),
        *("IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
    }
)
# The model wrote something that is no answer, or nothing that the API can return.
_FAILED_REASONS = frozenset(
    {
        *("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE", "MALFORMED_RESPONSE"),
        *("NO_IMAGE", "IMAGE_OTHER"),
    }
)


def read_finish_reason(choice: int, reason: str, detail: str | None, *, has_content: bool, has_tool_calls: bool) -> ChoiceFinished:
    """Gemini says STOP where a response ends with calls; OpenAI says `tool_calls`.

    Raises UnparsableModelOutput for a failure, for STOP without any part (a fault of the host's own), and for an unknown reason (OTHER,
    LANGUAGE, and future ones) of a candidate without content.
    With content, such a reason is a stop: the answer is not thrown away.
    """
    if reason == "STOP" and has_content:
        return ChoiceFinished(choice, "tool_calls" if has_tool_calls else "stop")
    if reason == "MAX_TOKENS":
        return ChoiceFinished(choice, "length")
    if reason in _FILTER_REASONS:
        return ChoiceFinished(choice, "content_filter", reason)
    known = None if reason == "STOP" else known_reason(reason)  # a word of another API, of a host that serves this one
    if known is not None:
        return ChoiceFinished(choice, "tool_calls" if has_tool_calls and known == "stop" else known, reason)
    if reason not in _FAILED_REASONS:
        check_failure(reason)
    if has_content and reason not in _FAILED_REASONS:
        return ChoiceFinished(choice, "tool_calls" if has_tool_calls else "stop", reason[:100])
    error = UnparsableModelOutput(f"The model ended without an answer ({reason:.60}){f': {mask_credentials(detail)}' if detail else '.'}")
    error.upstream_code = reason[:100]
    raise error


def read_block_reason(reason: str) -> ChoiceFinished:
    """Reads promptFeedback.blockReason: the prompt was blocked, and there are no candidates."""
    return ChoiceFinished(0, "content_filter", reason)
