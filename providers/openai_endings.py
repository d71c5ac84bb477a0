"""Finish reasons of engines that are not OpenAI's words, told as those: an official client of another kind than ours may check them."""

from collections.abc import Mapping

import msgspec
from msgspec import Raw

from providers.rest import as_raw
from providers.wire import NULL

# TGI (router/src/lib.rs, FinishReason), Mistral, and Together's older models (`eos`); read 2026-11.
PLAIN: Mapping[str, str] = {
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "model_length": "length",
    "max_tokens": "length",
    "safety": "content_filter",
}

_choices = msgspec.json.Decoder(list[dict[str, Raw]]).decode


def with_plain_endings(choices: bytes) -> bytes:
    """For choices of which one at least has ended in one of the others: to look for those in every chunk's bytes costs too much."""
    told = _choices(choices)
    for choice in told:
        reason = msgspec.json.decode(choice.get("finish_reason", NULL))
        if isinstance(reason, str) and reason in PLAIN:
            choice["finish_reason"] = as_raw(PLAIN[reason])
    return msgspec.json.encode(told)
