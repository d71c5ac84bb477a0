"""Timestamps of upstreams as Unix seconds."""

import datetime

from msgspec import Raw


def to_unix_seconds(timestamp: str | None) -> int | None:
    """Reads an ISO 8601 timestamp. None for a missing or unreadable one: that must not cost a good response."""
    try:
        return None if timestamp is None else int(datetime.datetime.fromisoformat(timestamp).timestamp())
    except (ValueError, OverflowError):
        return None


def whole_seconds(created: Raw, default: int) -> Raw | int:
    """An engine's Unix time in whole seconds: some send a fraction, or a string, which strict clients reject."""
    text = bytes(created)
    if text.isdigit():
        return created
    try:
        return int(float(text.strip(b'"')))
    except (ValueError, OverflowError):
        return default
