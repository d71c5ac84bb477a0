"""Finish reasons of engines beyond OpenAI's own, replaced by OpenAI's: official clients may validate them."""

from collections.abc import Mapping

import msgspec
from msgspec import Raw

from providers.canonical.errors import UpstreamFailed
from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import NULL

# TGI (router/src/lib.rs, FinishReason), Mistral, and Together's older models (`eos`); read 2026-11.
FINISH_REASONS: Mapping[str, str] = {
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "model_length": "length",
    "max_tokens": "length",
    "safety": "content_filter",
}

# What needs no change in OpenAI's dialects: its own finish reasons, and none.
UNCHANGED_FINISH_REASONS = frozenset({"stop", "length", "tool_calls", "content_filter", "function_call", None})

# Finish reasons of vLLM, SGLang, LMDeploy, OpenRouter and DeepSeek that mean a failed response.
_FAILED_FINISH_REASONS = frozenset({"error", "abort", "parse_error", "insufficient_system_resource"})

_decode_choices = msgspec.json.Decoder(list[dict[str, Raw]]).decode


def normalize_finish_reasons(choices: bytes, empty_as: Raw = NULL) -> bytes:
    """The choices with OpenAI's finish reasons, which official clients validate. An unknown one is a stop; failures stay as they are.

    `empty_as`: in place of none and of "", which some engines send in every chunk that finishes nothing.
    Call it only if a choice has a reason that is not in UNCHANGED_FINISH_REASONS: searching the bytes of every chunk costs too much.
    """
    decoded = _decode_choices(choices)
    for choice in decoded:
        reason = msgspec.json.decode(choice.get("finish_reason", NULL))
        if not reason:
            choice["finish_reason"] = empty_as
        elif isinstance(reason, str) and reason not in UNCHANGED_FINISH_REASONS and reason not in _FAILED_FINISH_REASONS:
            choice["finish_reason"] = as_raw(FINISH_REASONS.get(reason, "stop"))
    return msgspec.json.encode(decoded)


def check_finish_reason(reason: str | None) -> None:
    """Raises UpstreamFailed for a finish reason that means that the response failed."""
    if reason in _FAILED_FINISH_REASONS:
        raise UpstreamFailed(f"The engine aborted its response (finish_reason {reason!r}).")
