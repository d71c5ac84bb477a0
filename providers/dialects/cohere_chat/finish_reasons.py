"""Finish reasons of Cohere's chat as OpenAI's.

Source: https://docs.cohere.com/reference/chat, read 2026-11.
"""

from collections.abc import Mapping

from providers.canonical.credential_masking import mask_credentials
from providers.canonical.errors import TimedOut, UpstreamFailed
from providers.canonical.finish_reasons import openai_reason

_FINISH_REASONS: Mapping[str, tuple[str, str | None]] = {
    "COMPLETE": ("stop", None),
    "STOP_SEQUENCE": ("stop", "stop_sequence"),
    "MAX_TOKENS": ("length", None),
    "TOOL_CALL": ("tool_calls", None),
    "ERROR_LIMIT": ("length", "model_context_window_exceeded"),
    "ERROR_TOXIC": ("content_filter", None),
}


def read_finish_reason(reason: str, error: str | None = None) -> tuple[str, str | None]:
    """OpenAI's finish reason, and the host's own if it says more.

    Raises UpstreamError for a reason that means failure. `error` is the host's message, which may hold credentials.
    """
    if reason in ("ERROR", "USER_CANCEL"):
        raise UpstreamFailed(mask_credentials(error) if error else f"The host aborted the response (finish_reason {reason!r}).")
    if reason == "TIMEOUT":
        raise TimedOut(mask_credentials(error) if error else "The host did not finish its answer in time.")
    return _FINISH_REASONS.get(reason) or (openai_reason(reason), reason)
