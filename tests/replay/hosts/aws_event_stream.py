"""AWS messages of JSON: those of a recording taken apart by botocore, which knows nothing of ours; and made, for cases of our own."""

import json
from collections.abc import Iterator
from typing import Any

from botocore.eventstream import EventStreamBuffer  # pyright: ignore[reportMissingTypeStubs]

from tests.support import aws_event_frames as frames


def decode_events(raw: bytes) -> Iterator[tuple[str, Any]]:
    """The type of each event, and what it says."""
    buffer: Any = EventStreamBuffer()
    buffer.add_data(raw)
    for message in buffer:
        yield message.headers[":event-type"], json.loads(message.payload)


def event(kind: str, body: Any) -> bytes:
    return frames.event(kind, json.dumps(body).encode(), "application/json")


def exception(kind: str, message: str) -> bytes:
    return frames.exception(kind, json.dumps({"message": message}).encode())
