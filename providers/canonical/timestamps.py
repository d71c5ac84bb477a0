"""Timestamps of upstreams as Unix seconds."""

import datetime


def to_unix_seconds(timestamp: str | None) -> int | None:
    """Reads an ISO 8601 timestamp. None for a missing or unreadable one: that must not cost a good response."""
    try:
        return None if timestamp is None else int(datetime.datetime.fromisoformat(timestamp).timestamp())
    except (ValueError, OverflowError):
        return None
