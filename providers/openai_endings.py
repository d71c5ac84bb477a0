"""Finish reasons of engines that are not OpenAI's words, told as those: an official client of another kind than ours may check them."""

import re
from collections.abc import Mapping

import msgspec
from msgspec import Raw

from providers.rest import as_raw
from providers.wire import NULL

# TGI (router/src/lib.rs, FinishReason) and Mistral; read 2026-11.
PLAIN: Mapping[str, str] = {
    "eos_token": "stop",
    "stop_sequence": "stop",
    "model_length": "length",
    "max_tokens": "length",
    "safety": "content_filter",
}

_may_be_told = re.compile(rb'"(?:%s)"' % "|".join(PLAIN).encode()).search
_choices = msgspec.json.Decoder(list[dict[str, Raw]]).decode


def with_plain_endings(choices: bytes) -> bytes:
    """The same bytes where there is nothing to be said otherwise."""
    if _may_be_told(choices) is None:
        return choices
    told = _choices(choices)
    changed = False
    for choice in told:
        reason = msgspec.json.decode(choice.get("finish_reason", NULL))
        if isinstance(reason, str) and reason in PLAIN:
            choice["finish_reason"] = as_raw(PLAIN[reason])
            changed = True
    return msgspec.json.encode(told) if changed else choices
