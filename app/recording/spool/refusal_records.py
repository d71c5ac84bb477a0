"""Refused requests as they are written to the spool: how many of each kind, and a sample of them."""

import datetime
from collections.abc import Iterable
from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from app.recording.writes.refusal_writes import REFUSAL_COLUMNS
from app.store.postgres.partitions import day_of

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MINUTES_A_DAY = 24 * 60
_MAX_US = 2**53

_Status = Annotated[int, Meta(ge=100, le=599)]


class RefusalCount(Struct, frozen=True, array_like=True):
    """The number of requests of a minute (since 1970) that were refused for the same reason.

    Fields are only ever appended, with defaults.
    """

    minute: Annotated[int, Meta(ge=0, le=_MAX_US)]
    team_id: str | None  # None, as `key_id` is, if no key was sent, or an unknown one
    key_id: str | None
    route: str
    # A configured one; `(unknown)`, as callers can make up any number of names; or empty if none was read.
    model: str
    status: _Status
    error: str  # its class
    rule: str  # the limit that refused; empty if none did
    requests: Annotated[int, Meta(ge=1, le=2**40)]


class RefusalSample(Struct, frozen=True, array_like=True):
    """One refused request. It holds nothing of what was written.

    Fields are only ever appended, with defaults.
    """

    id: str  # of the inference that it would have been
    received_us: Annotated[int, Meta(ge=0, le=_MAX_US)]
    team_id: str | None
    key_id: str | None
    unknown_key: str | None  # the public part of a key that is not known, or no longer
    route: str
    model: str  # as it was requested
    status: _Status
    error: str
    code: str | None
    param: str | None
    rule: str
    message: str | None  # None if it might quote the request
    request_id: str | None
    trace_id: str | None


class Refusals(Struct, frozen=True, array_like=True):
    """The requests that one gateway process refused since its last record."""

    counts: list[RefusalCount]
    samples: list[RefusalSample]

    @property
    def days(self) -> set[int]:
        """The days of these requests, counted since 1970."""
        return {each.minute // _MINUTES_A_DAY for each in self.counts} | {day_of(each.id) for each in self.samples}


def sample_row(sample: RefusalSample) -> tuple[Any, ...]:
    """The row of a sample, in the order of REFUSAL_COLUMNS."""
    return tuple(_to_column(sample, name) for name in REFUSAL_COLUMNS)


def _to_column(sample: RefusalSample, name: str) -> Any:
    return _EPOCH + datetime.timedelta(microseconds=sample.received_us) if name == "received_at" else getattr(sample, name)


encode_refusals = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Refusals).decode


def decode_refusals(body: bytes) -> Refusals:
    """Raises msgspec.DecodeError or ValueError for what Postgres would not take."""
    refusals = _decode(body)
    for each in (*refusals.counts, *refusals.samples):
        for id in (each.team_id, each.key_id):
            if id is not None and str(UUID(id)) != id:
                raise ValueError(f"{id!r:.60} is not a UUID as it is written")
        if _has_nul(getattr(each, name) for name in each.__struct_fields__):
            raise ValueError("a text holds NUL")
    for sample in refusals.samples:
        day_of(sample.id)
    return refusals


def _has_nul(values: Iterable[object]) -> bool:
    return any(isinstance(value, str) and "\0" in value for value in values)
