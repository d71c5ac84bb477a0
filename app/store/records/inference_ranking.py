"""The inferences that took longest or cost most.

There is an index of each measurement, which finds the most of all. Those that match a filter are found by the most of each hour, which
rollups keep: as many hours as a page has rows say how much the last of the page has at least. Where sums by hour do not know the filter,
hours are read from the one with the largest maximum on, until none that is left can hold a row that belongs to the page: a page of N rows
reads little more than N hours, however many inferences there are.
"""

import datetime
from collections.abc import Sequence
from typing import Any

from msgspec import Struct, structs
from sqlalchemy import and_, func, or_, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.domain.errors import InvalidKeyField
from app.store.postgres import tables
from app.store.postgres.paging import read_cursor, write_cursor
from app.store.records import matching_hours
from app.store.records.inference_filter import InferenceFilter, check_names, fields_given
from app.store.records.inference_queries import InferencePage, row_to_dict, select_inferences, with_episode_ids

MAX_DAYS = 93
_HOUR_MS = 3_600_000
_DAY_MS = 86_400_000
_SCOPE = "most"
_TIME = frozenset({"since_ms", "until_ms"})


class Position(Struct, frozen=True):
    """The place where a page ended: the measurement and the id of its last row."""

    measure: str
    amount: int
    id: str


class _Range(Struct, frozen=True):
    """A range of time in ms, and the most that an inference in it may have; None: that is not known."""

    begin_ms: int
    end_ms: int
    most: int | None


def read_position(cursor: str) -> Position:
    """Reads a `next` of page_most(). Raises InvalidKeyField."""
    try:
        measure, amount, id = read_cursor(cursor, _SCOPE, [str, int, str])
        if not uuid7.is_uuid7(id):
            raise InvalidKeyField("before", "")
    except InvalidKeyField:
        raise InvalidKeyField("before", "`before` must be the `next` of a page of this list with the same `sort`.") from None
    return Position(measure, amount, id)


async def page_most(
    connection: AsyncConnection,
    filters: InferenceFilter,
    measure: str,
    *,
    keep_hours_days: int,
    after: Position | None,
    limit: int,
) -> InferencePage:
    """Returns a page of the inferences with most of `measure`, which is duration_us or cost_microusd; the newest first of those with equal.

    What was not measured is left out. Raises InvalidKeyField for filters that it cannot answer.
    """
    _check(filters, measure, after)
    filters = await with_episode_ids(connection, filters)
    columns = tables.inferences.c
    column = columns[measure]
    query = select_inferences(filters).where(column.isnot(None)).order_by(column.desc(), columns.id.desc()).limit(limit + 1)
    if after is not None:
        query = query.where(column <= after.amount, or_(column < after.amount, columns.id < after.id))
    found: list[dict[str, Any]] = []
    if fields_given(filters) <= _TIME and filters.excluded is None:
        found = [row_to_dict(row) for row in await connection.execute(query)]
        return _page(found, measure, limit)
    ranges = await _ranges(connection, filters, measure, keep_hours_days)
    least = _known_least(ranges, filters, after, limit)
    if least is not None:
        found = [row_to_dict(row) for row in await connection.execute(query.where(column >= least))]
        if len(found) > limit:
            return _page(found, measure, limit)
        found = []
    for each in ranges:
        within = query.where(and_(columns.id >= uuid7.lowest_at(each.begin_ms), columns.id < uuid7.lowest_at(each.end_ms)))
        if len(found) > limit:
            if not _may_hold_more(each, found[limit], measure):
                break
            within = within.where(column >= found[limit][measure])
        found += [row_to_dict(row) for row in await connection.execute(within)]
        found.sort(key=lambda row: (row[measure], row["id"]), reverse=True)
        del found[limit + 1 :]
    if after is None:
        await check_names(connection, filters, is_empty=not found)
    return _page(found, measure, limit)


def _page(found: list[dict[str, Any]], measure: str, limit: int) -> InferencePage:
    rows = found[:limit]
    more = len(found) > limit
    return InferencePage(rows, write_cursor(_SCOPE, [measure, rows[-1][measure], rows[-1]["id"]]) if more else None)


def _check(filters: InferenceFilter, measure: str, after: Position | None) -> None:
    if after is not None and after.measure != measure:
        raise InvalidKeyField("before", "`before` must be the `next` of a page of this list with the same `sort`.")
    if filters.text is not None:
        raise InvalidKeyField("sort", "What was found by `text` comes newest first: leave out `sort`.")
    now_ms = int(datetime.datetime.now(datetime.UTC).timestamp() * 1000)
    until_ms = now_ms if filters.until_ms is None else min(filters.until_ms, now_ms)
    if filters.since_ms is None or until_ms - filters.since_ms > MAX_DAYS * _DAY_MS:
        raise InvalidKeyField(
            "since", f"Sorted so, a list is of {MAX_DAYS} days at most: give it a `since`, and an `until` if it shall not end now."
        )


def _known_least(ranges: Sequence[_Range], filters: InferenceFilter, after: Position | None, limit: int) -> int | None:
    """Returns a measurement that more than `limit` matches reach, if the most of each hour is that of a match; None: it is not known.

    It is that of a match if sums by hour know all that is filtered by. Otherwise too few are found above it, and all hours are read.
    """
    until_ms = filters.until_ms
    known = [
        each.most
        for each in ranges
        if each.most is not None
        and each.begin_ms >= (filters.since_ms or 0)
        and (until_ms is None or each.end_ms <= until_ms)
        and (after is None or each.most < after.amount)
    ]
    return known[limit] if len(known) > limit else None


def _may_hold_more(candidate: _Range, last: dict[str, Any], measure: str) -> bool:
    """Whether a range may hold a row that comes before `last`."""
    return candidate.most is None or (candidate.most, uuid7.lowest_at(candidate.end_ms)) > (last[measure], last["id"])


async def _ranges(connection: AsyncConnection, filters: InferenceFilter, measure: str, keep_hours_days: int) -> Sequence[_Range]:
    """All that may hold a match: first those of which nothing is known, then the hours with the largest maximum."""
    assert filters.since_ms is not None, "it was checked before"
    begin = matching_hours.hour_of(filters.since_ms)
    if filters.has_repeats:  # shadows and replays are in no sums by subject, but in those of all
        filters = structs.replace(filters, end_user=None, tag=None)
    await connection.execute(text("SET LOCAL jit = off"))
    known_since = max(begin, matching_hours.next_hour(await matching_hours.kept_since(connection, keep_hours_days)))
    rollups, groups = matching_hours.hourly_table(filters), tables.rollup_groups
    most = func.max(rollups.c[f"max_{measure}"])
    query = (
        select(rollups.c.time, most.label("most"))
        .select_from(rollups.join(groups, groups.c.id == rollups.c.group_id))
        .where(rollups.c.time >= known_since, *matching_hours.rollup_conditions(filters, rollups))
        .group_by(rollups.c.time)
        .order_by(most.desc(), rollups.c.time.desc())
    )
    if filters.until_ms is not None:
        query = query.where(rollups.c.time <= matching_hours.hour_of(filters.until_ms))
    found = [_Range(at := matching_hours.to_ms(row.time), at + _HOUR_MS, int(row.most)) for row in await connection.execute(query)]
    unknown = [_Range(0, matching_hours.to_ms(known_since), None)] if known_since > begin else []
    return [*unknown, *found]
