"""Sums of a group in a period, as rollups have them, and the lock of those who change what is stored of them."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

import asyncpg

from app.store.postgres.partitions import Connection
from app.store.usage.sketches import COUNT_BITS

SUM_COLUMNS = (
    *("requests", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens"),
    *("cost_microusd", "estimated_microusd", "unpriced", "duration_us"),
)
MAX_COLUMNS = ("max_duration_us", "max_cost_microusd")
SKETCH_COLUMNS = ("duration_sketch", "first_token_sketch")

_SUMMED = len(SUM_COLUMNS)
_REQUESTS = SUM_COLUMNS.index("requests")
_COUNT_MASK = (1 << COUNT_BITS) - 1
_LOCK = 0x6E617274_73756D73  # for pg_advisory_xact_lock
_TRY_EVERY_S = 0.02


class Sums:
    """The sums that a group adds to a time.

    They are `values` of SUM_COLUMNS and MAX_COLUMNS, and counts by bucket of each of SKETCH_COLUMNS.
    """

    __slots__ = ("durations", "first_tokens", "values")

    def __init__(self) -> None:
        self.values = [0] * (len(SUM_COLUMNS) + len(MAX_COLUMNS))
        self.durations: dict[int, int] = {}
        self.first_tokens: dict[int, int] = {}

    def count(self, values: Sequence[int], duration: int, first_token: int | None) -> None:
        """Count one inference: its values, and the buckets of its times."""
        mine = self.values
        for at in range(_SUMMED):
            mine[at] += values[at]
        for at in range(_SUMMED, len(mine)):
            if values[at] > mine[at]:
                mine[at] = values[at]
        self.durations[duration] = self.durations.get(duration, 0) + 1
        if first_token is not None:
            self.first_tokens[first_token] = self.first_tokens.get(first_token, 0) + 1

    @property
    def requests(self) -> int:
        return self.values[_REQUESTS]

    @property
    def summed(self) -> list[int]:
        """The values of SUM_COLUMNS."""
        return self.values[:_SUMMED]

    def add_requests(self, requests: int) -> None:
        """Count requests of which nothing else is summed up."""
        self.values[_REQUESTS] += requests

    def difference(self, other: "Sums") -> "Sums":
        """Returns what is to be added to `other`. Maxima are those of this one, and times are left out."""
        added = Sums()
        added.values = [
            mine - theirs if at < _SUMMED else mine for at, (mine, theirs) in enumerate(zip(self.values, other.values, strict=True))
        ]
        return added

    def without(self, part: "Sums") -> "Sums":
        """Returns what is left of these when a part of them is taken away; maxima stay as they are."""
        left = self.difference(part)
        left.durations = _counts_without(self.durations, part.durations)
        left.first_tokens = _counts_without(self.first_tokens, part.first_tokens)
        return left

    def copy(self) -> "Sums":
        copied = Sums()
        copied.values, copied.durations, copied.first_tokens = [*self.values], {**self.durations}, {**self.first_tokens}
        return copied

    def add(self, other: "Sums") -> None:
        mine, theirs = self.values, other.values
        for at in range(_SUMMED):
            mine[at] += theirs[at]
        for at in range(_SUMMED, len(mine)):
            mine[at] = max(mine[at], theirs[at])
        for counts, added in ((self.durations, other.durations), (self.first_tokens, other.first_tokens)):
            for bucket, count in added.items():
                counts[bucket] = counts.get(bucket, 0) + count


def sums_of(row: asyncpg.Record) -> Sums:
    """The sums of a stored row."""
    sums = Sums()
    sums.values = [row[name] for name in (*SUM_COLUMNS, *MAX_COLUMNS)]
    sums.durations, sums.first_tokens = (_counts(row[name]) for name in SKETCH_COLUMNS)
    return sums


async def lock_sums_shared(connection: Connection) -> None:
    """Takes the lock of sums, shared with others, until the end of the transaction.

    It is for a transaction that changes inferences, and then what of them is in sums, and is taken between
    the two. Whoever has the lock alone finds inferences and sums that agree, but for what was never counted:
    see uncounted_inferences. The writers, who add to both, do not need it.
    """
    await connection.execute("SELECT pg_advisory_xact_lock_shared($1)", _LOCK)


async def lock_sums(connection: Connection) -> None:
    """Takes the lock of sums alone, until the end of the transaction.

    It tries until it succeeds: those who have the lock shared may wait for each other's inferences, and one
    of them must not wait in a queue behind this.
    """
    while not await connection.fetchval("SELECT pg_try_advisory_xact_lock($1)", _LOCK):  # noqa: ASYNC110
        await asyncio.sleep(_TRY_EVERY_S)


def _counts_without(counts: Mapping[int, int], part: Mapping[int, int]) -> dict[int, int]:
    return {bucket: left for bucket, count in counts.items() if (left := count - part.get(bucket, 0)) > 0}


def _counts(sketch: Iterable[int]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for entry in sketch:
        bucket = entry >> COUNT_BITS
        counts[bucket] = counts.get(bucket, 0) + (entry & _COUNT_MASK)
    return counts
