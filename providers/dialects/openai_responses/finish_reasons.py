"""Finish reasons: `status` and `incomplete_details` of a Response, and the finish reasons of OpenAI chat."""

from providers.canonical.errors import InvalidUpstreamResponse
from providers.dialects.openai_responses.response_schema import Item, WireResponse

_FINISH_REASONS = {"max_output_tokens": "length", "content_filter": "content_filter"}
INCOMPLETE_REASONS = {finish_reason: reason for reason, finish_reason in _FINISH_REASONS.items()}


def read_finish_reason(wire: WireResponse, items: list[Item]) -> str:
    """The finish reason as OpenAI chat names it. Raises InvalidUpstreamResponse for a response that is not finished."""
    if wire.status in ("queued", "in_progress"):
        raise InvalidUpstreamResponse(f"The engine's answer is not finished: its status is {wire.status}.")
    if wire.status == "incomplete" or (wire.status is None and wire.incomplete_details is not None):
        incomplete_reason = wire.incomplete_details.reason if wire.incomplete_details else None
        return _FINISH_REASONS.get(incomplete_reason or "", "length")
    return "tool_calls" if any(item.type in ("function_call", "custom_tool_call") for item in items) else "stop"
