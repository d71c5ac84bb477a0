"""Finish reasons of Gemini as OpenAI's, or as an error where the model wrote no usable answer.

Source: https://ai.google.dev/api/generate-content#FinishReason and Vertex's, read 2026-11.
"""

from providers.canonical.credential_masking import mask_credentials
from providers.canonical.errors import UnparsableModelOutput
from providers.canonical.events import ChoiceFinished
from providers.canonical.finish_reasons import check_failure, known_reason, recorded_finish_reason

_FILTER_REASONS = frozenset(
    {
        *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "JAILBREAK", "IMAGE_SAFETY"),
        *("IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
    }
)
_KNOWN_STOPS = frozenset({"STOP", "MAX_TOKENS"})
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


def write_finish_reason(reason: str | None, upstream_finish_reason: str | None, *, has_refusal: bool) -> str | None:
    """The finish reason; None for a choice without one. A response that ends with calls is a STOP."""
    if reason is None:
        return None
    if reason == "content_filter" and upstream_finish_reason in _FILTER_REASONS:
        return upstream_finish_reason
    if has_refusal or reason == "content_filter":
        return "SAFETY"
    return "MAX_TOKENS" if reason == "length" else "STOP"


def recorded_reason(reason: str, *, has_content: bool, has_tool_calls: bool) -> str | None:
    """OpenAI's finish reason for one that is passed on as it is; where the model wrote no usable answer, Google's own word."""
    try:
        finished = read_finish_reason(0, reason, None, has_content=has_content or reason == "STOP", has_tool_calls=has_tool_calls)
    except UnparsableModelOutput:
        return reason[:100]
    return recorded_finish_reason(finished.reason, None if reason in _KNOWN_STOPS else finished.upstream_finish_reason)
