"""AWS event-stream messages with JSON payloads: decoded by botocore, independent of providers/; and encoded for constructed cases."""

import json
from collections.abc import Iterator
from typing import Any

from botocore.eventstream import EventStreamBuffer  # pyright: ignore[reportMissingTypeStubs]

from tests.support.strategies import aws_event_frames as frames


def decode_events(raw: bytes) -> Iterator[tuple[str, Any]]:
    """The type and the payload of each event."""
    buffer: Any = EventStreamBuffer()
    buffer.add_data(raw)
    for message in buffer:
        yield message.headers[":event-type"], json.loads(message.payload)


def event(kind: str, body: Any) -> bytes:
    return frames.event(kind, json.dumps(body).encode(), "application/json")


def exception(kind: str, message: str) -> bytes:
    return frames.exception(kind, json.dumps({"message": message}).encode())
