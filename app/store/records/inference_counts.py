"""How many inferences match a filter: counted exactly up to a bound of work, and beyond it from sums, where these know the filter."""

import datetime
import time
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct, structs
from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.domain.errors import InvalidKeyField
from app.store.postgres import tables
from app.store.postgres.partitions import DAY_MS, partition_days
from app.store.records import matching_hours
from app.store.records.inference_filter import InferenceFilter, check_names, conditions, fields_given, has_index, id_conditions
from app.store.records.inference_queries import searched_ranges, with_episode_ids

COUNTED_ROWS = 10_000
_COUNT_S = 0.5
_DAY = datetime.timedelta(days=1)
_FIRST_STEP, _LARGEST_STEP = 5_000, 100_000
# What groups of sums tell apart; by anything else sums know no count.
_SUMMED = frozenset(
    {
        *("model", "team", "team_id", "outcome", "key", "provider", "served_model", "route", "function", "variant"),
        *("status", "status_class", "error", "since_ms", "until_ms"),
    }
)
_PARTITIONS = text("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'inferences'::regclass")


class InferenceCount(Struct, frozen=True):
    """The number of inferences that a filter matches."""

    count: int
    capped: bool  # whether there are at least `count`, and counting stopped there


async def count_inferences(connection: AsyncConnection, filters: InferenceFilter, *, keep_hours_days: int) -> InferenceCount:
    """Counts the inferences that list_inferences() lists. Raises InvalidKeyField as it does, and for a filter by text."""
    if filters.text is not None:
        raise InvalidKeyField("text", "What is found by `text` is not counted: list it.")
    filters = await with_episode_ids(connection, filters)
    found = await _count_rows(connection, filters, keep_hours_days)
    await check_names(connection, filters, is_empty=found.count == 0 and not found.capped)
    return await _count_by_sums(connection, filters, keep_hours_days) or found if found.capped else found


async def _count_rows(connection: AsyncConnection, filters: InferenceFilter, keep_hours_days: int) -> InferenceCount:
    by_id = filters.episode is not None or filters.trace_id is not None or filters.request_id is not None
    if by_id or has_index(filters):
        await connection.execute(text("SELECT set_config('enable_seqscan', 'off', true)"))
        few = select(tables.inferences.c.id).where(*conditions(filters), *id_conditions(filters)).limit(COUNTED_ROWS + 1)
        number = int(await connection.scalar(select(func.count()).select_from(few.subquery())) or 0)
        return InferenceCount(min(number, COUNTED_ROWS), number > COUNTED_ROWS)
    deadline_s = time.monotonic() + _COUNT_S
    ids, step, number = tables.inferences.c.id, _FIRST_STEP, 0
    matching = select(func.count()).select_from(tables.inferences).where(*conditions(filters))
    async for begin_ms, end_ms in searched_ranges(connection, filters, keep_hours_days, None):
        begin, end = uuid7.lowest_at(begin_ms), uuid7.lowest_at(end_ms)
        if filters.since_ms is not None:
            begin = max(begin, uuid7.lowest_at(filters.since_ms))
        if filters.until_ms is not None:
            end = min(end, uuid7.lowest_at(filters.until_ms))
        while begin < end:
            if number > COUNTED_ROWS or time.monotonic() >= deadline_s:
                return InferenceCount(min(number, COUNTED_ROWS), True)
            within = select(ids).where(ids >= begin, ids < end).order_by(ids.desc())
            first = await connection.scalar(within.offset(step - 1).limit(1)) or begin
            number += int(await connection.scalar(matching.where(ids >= first, ids < end)) or 0)
            end, step = first, min(2 * step, _LARGEST_STEP)
    return InferenceCount(min(number, COUNTED_ROWS), number > COUNTED_ROWS)


async def _count_by_sums(connection: AsyncConnection, filters: InferenceFilter, keep_hours_days: int) -> InferenceCount | None:
    """The exact number: whole hours from sums, and what is before and after them row by row. None: sums do not know it.

    Whoever sees only some teams does not see every shadow that these pay for, which sums do not tell apart.
    """
    given = fields_given(filters) | (set[str]() if filters.excluded is None else fields_given(filters.excluded))
    if not given <= _SUMMED:
        return None
    oldest_ms = await _oldest_partition_ms(connection)  # sums are kept longer than inferences
    since_ms = max(filters.since_ms or 0, oldest_ms)
    known_since = await matching_hours.kept_since(connection, keep_hours_days)
    if matching_hours.to_ms(known_since) > since_ms:
        return None
    first = matching_hours.next_hour(matching_hours.moment_of(since_ms))
    last = None if filters.until_ms is None else matching_hours.hour_of(filters.until_ms)
    if last is not None and last < first:
        return None
    await connection.execute(text("SET LOCAL jit = off"))
    number = sum([await _sum(connection, filters, *piece) for piece in _pieces(first, last)])
    edges = [(since_ms, matching_hours.to_ms(first))]
    if last is not None and filters.until_ms is not None:
        edges.append((matching_hours.to_ms(last), filters.until_ms))
    for begin_ms, end_ms in edges:
        if begin_ms < end_ms:
            within = structs.replace(filters, since_ms=begin_ms, until_ms=end_ms)
            rows = select(func.count()).select_from(tables.inferences).where(*conditions(within), *id_conditions(within))
            number += int(await connection.scalar(rows) or 0)
    return InferenceCount(number, False)


_Piece = tuple[Literal["hour", "day"], datetime.datetime, datetime.datetime | None]


def _pieces(first: datetime.datetime, last: datetime.datetime | None) -> Iterator[_Piece]:
    """Splits whole hours into whole days, and the hours before and after them. `last` None means until whenever there are sums."""
    midnight = first.replace(hour=0)
    first_day = midnight if midnight == first else midnight + _DAY
    last_day = None if last is None else last.replace(hour=0)
    if last is not None and last_day is not None and last_day <= first_day:
        yield "hour", first, last
        return
    yield "hour", first, first_day
    yield "day", first_day, last_day
    if last_day is not None:
        yield "hour", last_day, last


async def _sum(
    connection: AsyncConnection,
    filters: InferenceFilter,
    level: Literal["hour", "day"],
    begin: datetime.datetime,
    end: datetime.datetime | None,
) -> int:
    rollups, groups = matching_hours.broadest_table(filters, level), tables.rollup_groups
    query = (
        select(func.sum(rollups.c.requests))
        .select_from(rollups.join(groups, groups.c.id == rollups.c.group_id))
        .where(rollups.c.time >= begin, *matching_hours.rollup_conditions(filters, rollups))
    )
    if end is not None:
        query = query.where(rollups.c.time < end)
    return int(await connection.scalar(query) or 0)


async def _oldest_partition_ms(connection: AsyncConnection) -> int:
    days = [days[0] for name in (await connection.execute(_PARTITIONS)).scalars() if (days := partition_days(name)) is not None]
    return min(days, default=0) * DAY_MS
