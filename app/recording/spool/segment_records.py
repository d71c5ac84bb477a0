"""The content of a segment as its reader finds it: records, the parts of an exchange, and bytes that are neither."""

from typing import TypeAlias

from msgspec import Struct


class ExchangeRecord(Struct, frozen=True):
    """The record of an exchange, at [`offset`, `end`). `last_part` 0: `request` and `response` are its complete content."""

    offset: int
    end: int
    at_ms: int
    is_content_lost: bool
    last_part: int
    meta: bytes
    request: bytes
    response: bytes


class RefusalsRecord(Struct, frozen=True):
    """A record of refused requests, at [`offset`, `end`)."""

    offset: int
    end: int
    body: bytes


class FeedbackRecord(Struct, frozen=True):
    """The record of one feedback, at [`offset`, `end`)."""

    offset: int
    end: int
    body: bytes


class DamagedBytes(Struct, frozen=True):
    """Bytes that are not a record of this segment, up to the next record."""

    offset: int
    end: int
    reason: str


Record: TypeAlias = ExchangeRecord | RefusalsRecord | FeedbackRecord | DamagedBytes


class PartLocation(Struct, frozen=True):
    """The location of a part of a request or response: its record is at [`offset`, `end`)."""

    offset: int
    end: int
    is_request: bool


class BrokenPartChain(Exception):
    """An exchange whose parts cannot all be read."""


class UnknownSegmentVersion(Exception):
    """A segment of another version of this software, which only that version can read."""
