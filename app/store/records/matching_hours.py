"""Hours that hold inferences that a filter matches, found in rollups: what need not be searched is not read."""

import datetime
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Literal

from sqlalchemy import ColumnElement, Table, and_, or_, select, true
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.postgres import tables
from app.store.postgres.conditions import values_of
from app.store.postgres.tables import RollupLevel
from app.store.records.inference_filter import InferenceFilter, equal_conditions, status_conditions
from app.store.usage.rollups import OTHER, REFUSED

# See BROAD_COLUMNS in app/store/usage/rollups.py. The one with the fewest groups first.
_OF_TARGETS = frozenset({"model", "provider", "served_model", "outcome"})
_OF_TEAMS = frozenset({"team_id", "team", "only_teams", "outcome"})
_OF_ALL, _OF_KEYS = frozenset({"outcome"}), _OF_TEAMS | {"key"}
_BROAD_LEVELS: Mapping[Literal["hour", "day"], Sequence[tuple[RollupLevel, frozenset[str]]]] = {
    "hour": (
        *(("hour_and_outcome", _OF_ALL), ("hour_and_target", _OF_TARGETS)),
        *(("hour_and_team", _OF_TEAMS), ("hour_and_key", _OF_KEYS)),
    ),
    "day": (("day_and_outcome", _OF_ALL), ("day_and_target", _OF_TARGETS), ("day_and_team", _OF_TEAMS), ("day_and_key", _OF_KEYS)),
}
# Those of _group_conditions().
_GROUP_FIELDS = (
    *("team_id", "model", "outcome", "provider", "served_model", "route", "error", "function", "variant"),
    *("status", "status_class", "team", "only_teams", "key"),
)
_HOUR = datetime.timedelta(hours=1)
_DAY = datetime.timedelta(days=1)
_FIRST_WINDOW = 2 * _DAY
_LONGEST_WINDOW = 64 * _DAY
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def can_narrow(filters: InferenceFilter) -> bool:
    """Whether there is a filter by anything that rollups have, beside the time. Shadows and replays are in no sums by subject."""
    values = (
        *(filters.team_id, filters.team, filters.only_teams, filters.key, filters.end_user, filters.tag, filters.provider),
        *(filters.model, filters.outcome, filters.served_model, filters.route, filters.status, filters.status_class, filters.error),
        *(filters.function, filters.variant),
        *(filters.min_cost_microusd, filters.min_duration_us),
    )
    is_of_repeats = (filters.end_user is not None or filters.tag is not None) and filters.has_repeats
    return not is_of_repeats and (any(each is not None for each in values) or _excludes_groups(filters))


def _excludes_groups(filters: InferenceFilter) -> bool:
    return filters.excluded is not None and next(_group_conditions(filters.excluded), None) is not None


async def ranges(
    connection: AsyncConnection, filters: InferenceFilter, before_ms: int, keep_hours_days: int
) -> AsyncIterator[tuple[int, int]]:
    """Ranges of Unix time in ms, from the newest on, outside which nothing before `before_ms` matches.

    The last one may be of a time from which there are no rollups.
    """
    hours = hourly_table(filters).c.time
    newest = await connection.scalar(select(hours).order_by(hours.desc()).limit(1)) or _EPOCH
    first = await connection.scalar(select(hours).order_by(hours).limit(1)) or newest
    since = await kept_since(connection, keep_hours_days)
    # A database that is younger than its rollups has them since 1970.
    oldest = _hour_of(max(since, first, _EPOCH if filters.since_ms is None else moment_of(filters.since_ms)))
    end = newest + _HOUR
    if before_ms < to_ms(end):
        end = _hour_of(moment_of(before_ms)) + _HOUR
    window = _FIRST_WINDOW
    while end > oldest:
        begin = max(end - window, oldest)
        for first, after in _runs(await _hours(connection, filters, begin, end)):
            yield to_ms(max(first, since)), to_ms(after)
        end, window = begin, min(2 * window, _LONGEST_WINDOW)
    if filters.since_ms is None or filters.since_ms < to_ms(since):
        yield 0, to_ms(since)


async def kept_since(connection: AsyncConnection, keep_hours_days: int) -> datetime.datetime:
    """Every inference that was received from then on is in the rollups by hour."""
    since = (await connection.execute(select(tables.rollups_since.c.since))).scalar_one()
    if not keep_hours_days:
        return since
    return max(since, datetime.datetime.now(datetime.UTC) - keep_hours_days * _DAY)


async def _hours(
    connection: AsyncConnection, filters: InferenceFilter, begin: datetime.datetime, end: datetime.datetime
) -> list[datetime.datetime]:
    """The newest first."""
    rollups, groups = hourly_table(filters), tables.rollup_groups
    query = (
        select(rollups.c.time)
        .select_from(rollups.join(groups, groups.c.id == rollups.c.group_id))
        .where(rollups.c.time >= begin, rollups.c.time < end, *rollup_conditions(filters, rollups))
        .distinct()
        .order_by(rollups.c.time.desc())
    )
    return list((await connection.execute(query)).scalars())


def hourly_table(filters: InferenceFilter) -> Table:
    """The one with the fewest rows whose groups tell apart what the filters are about."""
    if filters.end_user is not None or filters.tag is not None:
        return tables.subject_rollup_tables["hour"]
    return broadest_table(filters, "hour")


def broadest_table(filters: InferenceFilter, period: Literal["hour", "day"]) -> Table:
    """The one of all requests, which knows no end users and tags."""
    given = _group_fields(filters) | (set[str]() if filters.excluded is None else _group_fields(filters.excluded))
    for level, names in _BROAD_LEVELS[period]:
        if given <= names:
            return tables.rollup_tables[level]
    return tables.rollup_tables[period]


def _group_fields(filters: InferenceFilter) -> set[str]:
    return {name for name in _GROUP_FIELDS if getattr(filters, name) is not None}


def rollup_conditions(filters: InferenceFilter, rollups: Table) -> Iterator[ColumnElement[bool]]:
    """Yields the conditions on rollups, joined with their groups, without those on the time: whatever has a match is among them."""
    yield tables.rollup_groups.c.outcome != REFUSED
    yield from _group_conditions(filters)
    if filters.excluded is not None:
        yield from (each.is_not(true()) for each in _group_conditions(filters.excluded))
    if filters.min_cost_microusd is not None:
        yield rollups.c.max_cost_microusd >= filters.min_cost_microusd
    if filters.min_duration_us is not None:
        yield rollups.c.max_duration_us >= filters.min_duration_us
    # One subject suffices: whoever has both has either.
    if filters.end_user is not None:
        yield and_(rollups.c.dimension == "end_user", rollups.c.value.in_([*values_of(filters.end_user), OTHER]))
    elif filters.tag is not None:
        name, value = filters.tag
        yield or_(
            and_(rollups.c.dimension == f"tag:{name}", rollups.c.value == value),
            and_(rollups.c.dimension == f"tag:{OTHER}", rollups.c.value == OTHER),
        )


def _group_conditions(filters: InferenceFilter) -> Iterator[ColumnElement[bool]]:
    """Yields the conditions on groups: all inferences of one meet them, or none."""
    groups, teams, keys = tables.rollup_groups.c, tables.teams.c, tables.keys.c
    names = ("team_id", "model", "outcome", "provider", "served_model", "route", "error", "function", "variant")
    yield from equal_conditions(filters, {name: groups[name] for name in names})
    yield from status_conditions(filters, groups.status)
    for wanted in (None if filters.team is None else values_of(filters.team), filters.only_teams):
        if wanted is not None:
            yield groups.team_id.in_(select(teams.id).where(teams.name.in_(list(wanted))))
    if filters.key is not None:
        yield groups.key_id.in_(select(keys.id).where(keys.prefix.in_(values_of(filters.key))))


def _runs(hours: list[datetime.datetime]) -> Iterator[tuple[datetime.datetime, datetime.datetime]]:
    """Consecutive hours together, as their begin and end; `hours` descend."""
    first = after = None
    for hour in hours:
        if first is None or hour + _HOUR != first:
            if first is not None and after is not None:
                yield first, after
            after = hour + _HOUR
        first = hour
    if first is not None and after is not None:
        yield first, after


def moment_of(milliseconds: int) -> datetime.datetime:
    return _EPOCH + datetime.timedelta(milliseconds=milliseconds)


def hour_of(milliseconds: int) -> datetime.datetime:
    """The beginning of the hour of a Unix time in ms."""
    return _hour_of(moment_of(milliseconds))


def next_hour(moment: datetime.datetime) -> datetime.datetime:
    """The moment, or the beginning of the next hour if it is within one."""
    hour = _hour_of(moment)
    return hour if hour == moment else hour + _HOUR


def _hour_of(moment: datetime.datetime) -> datetime.datetime:
    return moment.replace(minute=0, second=0, microsecond=0)


def to_ms(moment: datetime.datetime) -> int:
    return round((moment - _EPOCH).total_seconds() * 1000)
