"""Errors of hosts and engines as relays, clouds and engines around another engine pass them on."""

import re
from typing import Any

import msgspec

from providers.canonical.raw_json import DECODE_ERRORS

# What relays and clouds write before a host's own message. Sources: those of providers/learned_rules/rows.py; ollama/ollama#18241;
# OpenRouter's errors (docs/sources.md#host-errors).
_BEFORE = re.compile(
    r"(?:The model returned the following errors: |<400> InternalError\.Algo\.InvalidParameter: |"
    r"Error from provider \([\w .-]{1,40}\): |Provider returned error: |Invalid request: |500 Internal Server Error: )"
)


def unwrap_relayed(message: str) -> str:
    """The host's own message: without what a relay writes before it, and read from JSON that stands in its place."""
    text = message.strip()
    if before := _BEFORE.match(text):
        text = text[before.end() :].strip()
    if text[:1] == "{":
        try:
            decoded: Any = msgspec.json.decode(text)
        except DECODE_ERRORS:
            return text
        match decoded:
            case {"error": {"message": str(inner)}} | {"message": str(inner)} | {"error": str(inner)}:
                return inner.strip()
            case _:
                pass
    return text
