"""Why an answer ended: Gemini's words as OpenAI's, or as an error where there is no answer.

Source: https://ai.google.dev/api/generate-content#FinishReason and Vertex's, read 2026-11.
"""

from providers.canonical.errors import UnparsableModelOutput
from providers.canonical.events import ChoiceFinished
from providers.canonical.upstream_errors import mask_credentials

_FILTER_REASONS = frozenset(
    {
        *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "JAILBREAK", "IMAGE_SAFETY"),
        *("IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
    }
)


def read_finish_reason(choice: int, reason: str, detail: str | None, *, has_tool_calls: bool) -> ChoiceFinished:
    """It calls an end with calls a stop; to OpenAI that is another. Raises Unparsed for an end that is no answer's."""
    if reason == "STOP":
        return ChoiceFinished(choice, "tool_calls" if has_tool_calls else "stop")
    if reason == "MAX_TOKENS":
        return ChoiceFinished(choice, "length")
    if reason in _FILTER_REASONS:
        return ChoiceFinished(choice, "content_filter", reason)
    # MALFORMED_FUNCTION_CALL, UNEXPECTED_TOOL_CALL, TOO_MANY_TOOL_CALLS, LANGUAGE, OTHER, and what may come to be.
    error = UnparsableModelOutput(f"The model ended without an answer ({reason:.60}){f': {mask_credentials(detail)}' if detail else '.'}")
    error.upstream_code = reason[:100]
    raise error


def read_block_reason(reason: str) -> ChoiceFinished:
    """The ask itself was not answered: promptFeedback.blockReason."""
    return ChoiceFinished(0, "content_filter", reason)
