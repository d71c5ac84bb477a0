"""Finish reasons of generate as OpenAI's."""

from collections.abc import Mapping

from providers.canonical.finish_reasons import openai_reason
from providers.dialects.tgi_generate.response_schema import Details

_FINISH_REASONS: Mapping[str, tuple[str, str | None]] = {
    "length": ("length", None),
    "eos_token": ("stop", None),
    "stop_sequence": ("stop", "stop_sequence"),
}


def read_finish_reason(details: Details) -> tuple[str, str | None]:
    """OpenAI's finish reason, and the engine's own if it says more. Without details the response is complete.

    Raises UpstreamError for a reason that means that the response failed.
    """
    reason = details.finish_reason or details.finish_reason_spaced or "eos_token"
    return _FINISH_REASONS.get(reason) or (openai_reason(reason), reason)
