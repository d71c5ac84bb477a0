"""Finish reasons: `status` and `incomplete_details` of a Response, and the finish reasons of OpenAI chat."""

from collections.abc import Mapping

from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.finish_reasons import known_reason, openai_reason
from providers.dialects.openai_responses.response_schema import Item, WireResponse

_FINISH_REASONS: Mapping[str, str] = {"max_output_tokens": "length", "content_filter": "content_filter"}
INCOMPLETE_REASONS = {finish_reason: reason for reason, finish_reason in _FINISH_REASONS.items()}
# All that the official SDKs know.
KNOWN_INCOMPLETE_REASONS = frozenset({*_FINISH_REASONS, "max_messages", "steered"})
# Read as max_output_tokens, and written in its place.
UNKNOWN_INCOMPLETE_REASON = "max_output_tokens"
# Of a response that has not ended, or does not say so.
UNFINISHED_STATUSES = frozenset({"queued", "in_progress", None})


def read_finish_reason(wire: WireResponse, items: list[Item]) -> tuple[str, str | None]:
    """The finish reason as OpenAI chat names it, and the engine's own if it says more.

    An unknown status is a stop, and an unknown reason for an incomplete response is `length`: the response was cut off.
    Raises InvalidUpstreamResponse for a response that is not finished, and UpstreamError for a status that means failure.
    """
    if wire.status in ("queued", "in_progress"):
        raise InvalidUpstreamResponse(f"The engine's answer is not finished: its status is {wire.status}.")
    if wire.status == "incomplete" or (wire.status is None and wire.incomplete_details is not None):
        incomplete_reason = (wire.incomplete_details.reason if wire.incomplete_details else None) or UNKNOWN_INCOMPLETE_REASON
        known = _FINISH_REASONS.get(incomplete_reason)
        if known is not None:
            return known, None
        return "content_filter" if known_reason(incomplete_reason) == "content_filter" else "length", incomplete_reason
    reason = "stop" if wire.status in ("completed", None) else openai_reason(wire.status)
    has_calls = any(item.type in ("function_call", "custom_tool_call") for item in items)
    return "tool_calls" if has_calls and reason == "stop" else reason, None if wire.status in ("completed", None) else wire.status
