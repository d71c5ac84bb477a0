"""Reads a complete completion.

Source: https://platform.openai.com/docs/api-reference/completions/object, read 2026-11.
"""

import msgspec
from msgspec import UNSET, Raw

from providers.canonical.chat import ChatResponse, Choice, Text, Usage
from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.events import ResponseStarted
from providers.canonical.finish_reasons import openai_reason
from providers.canonical.raw_json import DECODE_ERRORS, NULL
from providers.dialects.openai.service_tiers import read_service_tier
from providers.dialects.openai.usage import read_usage
from providers.dialects.openai_completions.finish_reasons import COMPLETION_REASONS
from providers.dialects.openai_completions.logprobs import read_logprobs
from providers.dialects.openai_completions.response_schema import WireChoice, WireResponse, decode_response

_decode_text = msgspec.json.Decoder(str).decode


def read_finish_reason(choice: WireChoice) -> tuple[str, str | None, str | None] | None:
    """The finish reason, the engine's own reason if it is more specific, and the stop sequence that matched.

    None if the choice has not finished. Raises UpstreamError for a reason that means that the response failed.
    """
    reason = choice.finish_reason
    if not reason:
        return None
    stopped_by = _read_stop_sequence(choice.stop_reason)
    if stopped_by is not None and reason == "stop":
        return reason, "stop_sequence", stopped_by
    return (reason, None, None) if reason in COMPLETION_REASONS else (openai_reason(reason), reason, None)


def _read_stop_sequence(raw: Raw) -> str | None:
    """Returns None for an empty text and anything but a string: vLLM sends a number if a token id matched."""
    if raw is NULL:
        return None
    try:
        return _decode_text(raw) or None
    except DECODE_ERRORS:
        return None


def read_response_usage(parsed: WireResponse) -> Usage | None:
    return None if parsed.usage is NULL or parsed.usage == NULL else read_usage(parsed.usage, parsed.service_tier)


def read_started(parsed: WireResponse) -> ResponseStarted:
    created = None if parsed.created is None else int(parsed.created)
    return ResponseStarted(parsed.model or "", created, parsed.system_fingerprint or None, read_service_tier(parsed.service_tier))


def read_response(raw: bytes) -> ChatResponse:
    parsed = decode_response(raw)
    head = read_started(parsed)
    choices = tuple(_read_choice(choice) for choice in sorted(parsed.choices or (), key=lambda choice: choice.index or 0))
    return ChatResponse(choices, head.model, head.created, read_response_usage(parsed), head.system_fingerprint, head.service_tier)


def _read_choice(choice: WireChoice) -> Choice:
    if choice.text is UNSET:
        raise InvalidUpstreamResponse("A choice of the engine's answer has no text.")
    parts = (Text(choice.text),) if choice.text else ()
    logprobs = None if choice.logprobs is NULL else read_logprobs(choice.logprobs)
    ending = read_finish_reason(choice)
    return Choice(parts, None, logprobs) if ending is None else Choice(parts, ending[0], logprobs, ending[1], ending[2])
