"""Finish reasons of engines that are not OpenAI's words, told as those: an official client of another kind than ours may check them."""

from collections.abc import Mapping

import msgspec
from msgspec import Raw

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

_choices = msgspec.json.Decoder(list[dict[str, Raw]]).decode


def normalize_finish_reasons(choices: bytes) -> bytes:
    """For choices of which one at least has ended in one of the others: to look for those in every chunk's bytes costs too much."""
    decoded = _choices(choices)
    for choice in decoded:
        reason = msgspec.json.decode(choice.get("finish_reason", NULL))
        if isinstance(reason, str) and reason in FINISH_REASONS:
            choice["finish_reason"] = as_raw(FINISH_REASONS[reason])
    return msgspec.json.encode(decoded)
