"""Finish reasons of OpenAI chat, and those of engines beyond them."""

from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.finish_reasons import check_failure, openai_reason
from providers.canonical.raw_json import DECODE_ERRORS, NULL
from providers.dialects.openai_chat.response_schema import WireChoice

_OPENAI_REASONS = frozenset({"stop", "length", "tool_calls", "content_filter"})

_decode_text = msgspec.json.Decoder(str).decode


def read_finish_reason(choice: WireChoice) -> tuple[str | None, str | None, str | None]:
    """The finish reason, the engine's own reason if it is more specific, and the stop sequence that matched.

    All None if the choice has not finished. Raises UpstreamError for a reason that means that the response failed.
    """
    reason = choice.finish_reason
    if choice.error is not NULL:
        check_failure(reason, choice.error)
    if not reason:
        return None, None, None
    stopped_by = _read_text(choice.stop_reason) or _read_text(choice.matched_stop)
    if stopped_by is not None and reason in ("stop", "stop_sequence"):
        return "stop", "stop_sequence", stopped_by
    if reason in _OPENAI_REASONS:
        return reason, None, None
    return openai_reason(reason), reason, None


def _read_text(raw: Raw) -> str | None:
    """Returns None for an empty text and anything but a string: vLLM sends a number if a token id matched."""
    if raw is NULL:
        return None
    try:
        return _decode_text(raw) or None
    except DECODE_ERRORS:
        return None


def write_finish_reason(reason: str | None, stop_sequence: str | None, *, ended_with_calls: bool) -> dict[str, Any]:
    """Writes `finish_reason`, and vLLM's `stop_reason` if a stop sequence is known: OpenAI has no field for it.

    `ended_with_calls` says that the choice has tool calls, and the engine sends `stop` for such choices.
    """
    if ended_with_calls and reason == "stop":
        reason = "tool_calls"
    return {"finish_reason": reason} if stop_sequence is None else {"finish_reason": reason, "stop_reason": stop_sequence}
