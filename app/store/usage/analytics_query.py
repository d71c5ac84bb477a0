"""Queries of analytics: groups, filters, and a period in which rollups are kept."""

import datetime
from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct

from app.domain.errors import InvalidKeyField
from app.store.postgres.conditions import AnyOf
from app.store.postgres.time_zones import UnknownTimeZone, find_time_zone, has_full_hours
from app.store.usage.rollups import Breadth, Period

Interval = Literal["minute", "hour", "day", "week", "month"]
Order = Literal[
    "requests",
    "refused",
    "failed",
    "input_tokens",
    "output_tokens",
    "cost_microusd",
    "mean_duration_us",
    "max_duration_us",
    "p95_duration_us",
]
# Beside `tag:NAME`, which groups by the values of a tag.
DIMENSIONS = (
    *("team", "key", "end_user", "model", "provider", "target", "function", "variant", "route"),
    *("status", "outcome", "error", "rule"),
)
SUBJECT_DIMENSIONS = ("end_user",)
# See BROAD_COLUMNS in app/store/usage/rollups.py. Those with the fewest groups first.
_BREADTHS: Mapping[Breadth, frozenset[str]] = {
    "outcome": frozenset({"outcome"}),
    "target": frozenset({"model", "provider", "target", "outcome"}),
    "team": frozenset({"team", "outcome"}),
    "key": frozenset({"team", "key", "outcome"}),
}

MAX_GROUPS = 1000
MAX_ROWS = 10_000
MAX_ROWS_WITH_QUANTILES = 2_000
_MAX_GROUPED = 4

_HOUR = datetime.timedelta(hours=1)
_DAY = datetime.timedelta(days=1)
_STEPS: Mapping[str, datetime.timedelta] = {
    "minute": datetime.timedelta(minutes=1),
    "hour": _HOUR,
    "day": _DAY,
    "week": 7 * _DAY,
    "month": 28 * _DAY,
}
_DEFAULT_PERIODS: Mapping[str | None, datetime.timedelta] = {"minute": _HOUR, "hour": _DAY, "month": 365 * _DAY}
_MAX_DAYS = 1200
_MAX_HOURLY_DAYS = 100


class Piece(Struct, frozen=True):
    """A part of the period, from `begin` until before `end`, and the rollups that are read for it."""

    level: Period
    begin: datetime.datetime
    end: datetime.datetime


class AnalyticsQuery(Struct, frozen=True):
    """A query for sums, checked."""

    pieces: tuple[Piece, ...]
    interval: Interval | None  # None: one row for the whole period
    time_zone: str
    zone: datetime.tzinfo
    group_by: tuple[str, ...]
    filters: Mapping[str, AnyOf]  # a value by dimension, or several of which any will do
    order_by: Order
    limit: int  # groups, the first by `order_by`
    quantiles: bool
    fill: bool = False  # rows of zero for intervals without requests
    # Values by dimension: groups with any of these are left out, and those without a value stay.
    excluded: Mapping[str, AnyOf] = {}

    @property
    def begin(self) -> datetime.datetime:
        return self.pieces[0].begin

    @property
    def end(self) -> datetime.datetime:
        return self.pieces[-1].end

    def interval_begins(self) -> Iterator[datetime.datetime]:
        """Yields when each interval of the period begins, as Postgres cuts time in the time zone."""
        assert self.interval is not None, "there is one row for the whole period"
        at = _interval_begin(self.begin.astimezone(self.zone), self.interval)
        while at < self.end:
            yield at
            at = _next_interval(at, self.interval)

    @property
    def most_rows(self) -> int:
        """Returns how many rows the result has at most."""
        periods = 1 if self.interval is None else (self.end - self.begin) // _STEPS[self.interval] + 1
        return periods * (self.limit if self.group_by else 1)

    def breadth(self, *, by_team: bool) -> Breadth | None:
        """Returns the broadest groups that tell apart all that is in the query.

        Returns None if only the groups themselves do. `by_team` says that teams must be told apart, too.
        """
        by_team_too = ("team",) if by_team else ()
        needed = {name for name in (*self.group_by, *self.filters, *self.excluded, *by_team_too) if not is_subject(name)}
        return next((breadth for breadth, names in _BREADTHS.items() if needed <= names), None)

    @property
    def groups_by_subject(self) -> bool:
        return any(map(is_subject, self.group_by))

    @property
    def subject_dimension(self) -> str | None:
        """The dimension by end user or tag; None: neither is in the query."""
        return next(filter(is_subject, (*self.group_by, *self.filters)), None)


def is_subject(dimension: str) -> bool:
    return dimension in SUBJECT_DIMENSIONS or dimension.startswith("tag:")


def make_query(
    *,
    since: datetime.datetime | None,
    until: datetime.datetime | None,
    now: datetime.datetime,
    keep_minutes_days: int,
    keep_hours_days: int,
    interval: Interval | None = None,
    time_zone: str = "UTC",
    group_by: str = "",
    filters: Mapping[str, AnyOf] | None = None,
    order_by: Order = "requests",
    limit: int = 20,
    quantiles: bool = False,
    fill: bool = False,
    excluded: Mapping[str, AnyOf] | None = None,
) -> AnalyticsQuery:
    """A query of rollups. The period is widened to whole minutes, hours or days, by which they are kept. `group_by` has names with commas.

    Raises InvalidKeyField for what cannot be answered, with what could be.
    """
    try:
        zone = find_time_zone(time_zone)
    except UnknownTimeZone as fault:
        raise InvalidKeyField("time_zone", f"`time_zone`: {fault}") from None
    groups = _parse_groups(group_by)
    end = now if until is None else until
    begin = end - _DEFAULT_PERIODS.get(interval, 30 * _DAY) if since is None else since
    if fill and interval is None:
        raise InvalidKeyField("fill", "`fill` adds intervals: give an `interval`, too.")
    if begin >= end:
        raise InvalidKeyField("since", "`since` must be before `until`.")
    if end - begin > _MAX_DAYS * _DAY:
        raise InvalidKeyField("since", f"The time between `since` and `until` may be {_MAX_DAYS} days at most.")
    pieces = tuple(_split(begin, end, interval, zone, time_zone, now, keep_minutes_days, keep_hours_days))
    query = AnalyticsQuery(pieces, interval, time_zone, zone, groups, filters or {}, order_by, limit, quantiles, fill, excluded or {})
    _check_subjects(query)
    _check_rows(query)
    return query


def _parse_groups(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",")) if text.strip() else ()
    for name in names:
        if name not in DIMENSIONS and not (name.startswith("tag:") and len(name) > len("tag:")):
            raise InvalidKeyField(
                "group_by", f"`group_by` may be {', '.join(DIMENSIONS)} and tag:NAME, separated by commas, not {name!r:.60}."
            )
    if len(set(names)) < len(names):
        raise InvalidKeyField("group_by", "`group_by` takes each name once.")
    if len(names) > _MAX_GROUPED:
        raise InvalidKeyField("group_by", f"`group_by` takes at most {_MAX_GROUPED} names.")
    return names


def _check_subjects(query: AnalyticsQuery) -> None:
    subjects = {name for name in (*query.group_by, *query.filters) if is_subject(name)}
    if len(subjects) > 1:
        raise InvalidKeyField(
            "group_by",
            f"Sums are kept by the end user or by one tag, not by several at once: {', '.join(sorted(subjects))}. Group and filter by one.",
        )
    for name in query.excluded:
        if is_subject(name) and name not in subjects:  # nothing has the sums of all but one: many requests have no value there
            raise InvalidKeyField(f"not_{name}", f"Sums leave out values of {name} only from groups by it: add `group_by={name}`.")
    if subjects and query.interval == "minute":
        raise InvalidKeyField("interval", "By end user or tag `interval` may be hour, day, week or month: no sums by minute are kept.")


def _check_rows(query: AnalyticsQuery) -> None:
    rows = query.most_rows
    maximum = MAX_ROWS_WITH_QUANTILES if query.quantiles else MAX_ROWS
    if rows > maximum:
        kind = "rows with quantiles" if query.quantiles else "rows"
        groups = query.limit if query.group_by else 1
        raise InvalidKeyField(
            "interval",
            f"{rows // groups} times {groups} groups are more than {maximum} {kind}: choose a longer `interval`,"
            " a shorter time or a smaller `limit`.",
        )


def _split(
    begin: datetime.datetime,
    end: datetime.datetime,
    interval: Interval | None,
    zone: datetime.tzinfo,
    time_zone: str,
    now: datetime.datetime,
    keep_minutes_days: int,
    keep_hours_days: int,
) -> Iterator[Piece]:
    begin, end = begin.astimezone(datetime.UTC), end.astimezone(datetime.UTC)
    if interval == "minute":
        if keep_minutes_days and begin < now - keep_minutes_days * _DAY:
            raise InvalidKeyField("since", f"Sums by minute are kept for {keep_minutes_days} days: choose a later `since`, or hours.")
        yield Piece("minute", floor_time(begin, "minute"), ceil_time(end, "minute"))
        return
    first, last = floor_time(begin, "hour"), ceil_time(end, "hour")
    hours_since = now - keep_hours_days * _DAY if keep_hours_days else first
    has_hours = first >= hours_since
    if interval == "hour" or (interval is not None and time_zone != "UTC"):
        if not has_hours:
            raise InvalidKeyField("since", f"Sums by hour are kept for {keep_hours_days} days: choose a later `since`, or days of UTC.")
        if interval == "hour" and last - first > _MAX_HOURLY_DAYS * _DAY:
            raise InvalidKeyField("since", f"By the hour `since` and `until` may be {_MAX_HOURLY_DAYS} days apart at most.")
        if interval != "hour" and not has_full_hours(zone, first, last):
            raise InvalidKeyField(
                "time_zone", f"Days in {time_zone} do not begin on a full hour of UTC, by which sums are kept: use UTC, or hours."
            )
        yield Piece("hour", first, last)
        return
    # Where the hours of a day are no longer kept, the whole day is the least that is known.
    if not has_hours:
        first = floor_time(first, "day")
        if floor_time(last, "day") < hours_since:
            last = ceil_time(last, "day")
    whole_begin, whole_end = ceil_time(first, "day"), floor_time(last, "day")
    if whole_begin >= whole_end:
        yield Piece("hour", first, last)
        return
    if first < whole_begin:
        yield Piece("hour", first, whole_begin)
    yield Piece("day", whole_begin, whole_end)
    if whole_end < last:
        yield Piece("hour", whole_end, last)


def _interval_begin(moment: datetime.datetime, interval: Interval) -> datetime.datetime:
    begin = moment.replace(second=0, microsecond=0)
    if interval == "minute":
        return begin
    begin = begin.replace(minute=0)
    if interval == "hour":
        return begin
    begin = begin.replace(hour=0, fold=0)
    if interval == "week":
        return begin - datetime.timedelta(days=begin.weekday())  # wall-clock days, as both are of the same zone
    return begin.replace(day=1) if interval == "month" else begin


def _next_interval(begin: datetime.datetime, interval: Interval) -> datetime.datetime:
    if interval in ("minute", "hour"):  # of elapsed time, also where the clock is put back
        return (begin.astimezone(datetime.UTC) + _STEPS[interval]).astimezone(begin.tzinfo)
    if interval == "month":
        return begin.replace(year=begin.year + begin.month // 12, month=begin.month % 12 + 1)
    return begin + _STEPS[interval]


def floor_time(moment: datetime.datetime, level: Period) -> datetime.datetime:
    rounded = moment.replace(second=0, microsecond=0)
    if level == "minute":
        return rounded
    return rounded.replace(minute=0) if level == "hour" else rounded.replace(minute=0, hour=0)


def ceil_time(moment: datetime.datetime, level: Period) -> datetime.datetime:
    rounded = floor_time(moment, level)
    return rounded if rounded == moment else rounded + _STEPS[level]
