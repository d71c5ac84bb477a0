"""Why an answer ended: Gemini's words as OpenAI's, or as an error where there is no answer.

Source: https://ai.google.dev/api/generate-content#FinishReason and Vertex's, read 2026-11.
"""

from providers.errors import Unparsed
from providers.events import Finished
from providers.told import masked

_FILTERED = frozenset(
    {
        *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "JAILBREAK", "IMAGE_SAFETY"),
        *("IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
    }
)


def finished(choice: int, reason: str, why: str | None, *, called: bool) -> Finished:
    """It calls an end with calls a stop; to OpenAI that is another. Raises Unparsed for an end that is no answer's."""
    if reason == "STOP":
        return Finished(choice, "tool_calls" if called else "stop")
    if reason == "MAX_TOKENS":
        return Finished(choice, "length")
    if reason in _FILTERED:
        return Finished(choice, "content_filter", reason)
    # MALFORMED_FUNCTION_CALL, UNEXPECTED_TOOL_CALL, TOO_MANY_TOOL_CALLS, LANGUAGE, OTHER, and what may come to be.
    error = Unparsed(f"The model ended without an answer ({reason:.60}){f': {masked(why)}' if why else '.'}")
    error.said_code = reason[:100]
    raise error


def blocked(reason: str) -> Finished:
    """The ask itself was not answered: promptFeedback.blockReason."""
    return Finished(0, "content_filter", reason)
