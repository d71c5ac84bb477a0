"""Counting what a version from before rollups stored: an hour at a time, from the newest back, while writers go on.

What is missing in an hour is the difference between its inferences and its sums, so nothing is counted twice, whatever was counted before:
part of an hour, or all of it. Both are read at one moment, from one snapshot of the database; what writers store later, they count
themselves. The difference is added in the transaction that moves `rollups_since` back to the hour: a kill loses one hour's work.
"""

import datetime
from collections.abc import AsyncGenerator, Mapping
from typing import NamedTuple, TypeVar

from app.recording.rows.rollup_sums import RollupSummer, sum_by_day, sum_subjects
from app.settings import Settings
from app.store.postgres import partitions
from app.store.postgres.database import connect
from app.store.postgres.partitions import Connection
from app.store.postgres.tables import rollup_tables, subject_rollup_tables
from app.store.usage.rollups import SECONDS, Group, Level, Period, RollupSums, SubjectKey, add_rollups
from app.store.usage.sums import Sums, lock_sums
from app.store.usage.uncounted_inferences import (
    EPOCH,
    count_in_sums,
    count_inferences,
    find_newest,
    lock_since,
    move_since,
    read_inferences,
    read_subject_sums,
    read_sums,
)

K = TypeVar("K")


class Counted(NamedTuple):
    """The hour, or the day, whose missing `requests` were counted; there may have been none.

    `begin` is its beginning.
    """

    begin: datetime.datetime
    requests: int


class _Span(NamedTuple):
    """An hour, or a day of which sums by hour have expired.

    `has_minutes` says that sums by minute have not.
    """

    period: Period
    begin: datetime.datetime
    end: datetime.datetime
    has_minutes: bool


async def count_all_uncounted(database_url: str, settings: Settings) -> AsyncGenerator[Counted]:
    """Yields each hour that is done. It may be interrupted, and be called again, also by several at once.

    `settings` are those of the writers, which say what has expired.
    """
    writing = await connect(database_url)
    try:
        reading = await connect(database_url)
        try:
            while (counted := await _count_next(writing, reading, settings)) is not None:
                yield counted
        finally:
            await reading.close()
    finally:
        await writing.close()


async def _count_next(writing: Connection, reading: Connection, settings: Settings) -> Counted | None:
    """Counts what is missing of the newest hour that was not looked at; returns None if there is none."""
    async with writing.transaction():
        since = await lock_since(writing)
        await lock_sums(writing)
        async with reading.transaction(isolation="repeatable_read", readonly=True):
            newest = await find_newest(reading, since)
            if newest is None:
                if since > EPOCH:
                    await move_since(writing, EPOCH)
                return None
            span = await _find_span(reading, newest, settings)
            missing = await _find_missing(reading, span)
        requests = 0
        if missing is not None:
            names = {rollup_tables[level].name for level in missing.by_level}
            names |= {subject_rollup_tables[level].name for level in missing.by_subject}
            await partitions.create_partitions(writing, [(span.begin - EPOCH).days], names)
            await add_rollups(writing, missing, ())
            requests = sum(sums.requests for sums in missing.by_level["day"].values())
        await move_since(writing, span.begin)
        return Counted(span.begin, requests)


async def _find_span(reading: Connection, moment: datetime.datetime, settings: Settings) -> _Span:
    """Returns the span to count, from one moment in it.

    Whatever the settings say, hours that have less than their day have expired: then only the day says what
    was counted.
    """
    hour = moment.replace(minute=0, second=0, microsecond=0)
    day = hour.replace(hour=0)
    of_day = day, day + datetime.timedelta(days=1)
    age_days = partitions.today() - (day - EPOCH).days
    has_hours, has_minutes = (not days or age_days < days for days in (settings.keep_hours_days, settings.keep_minutes_days))
    if has_hours and await count_in_sums(reading, "hour", *of_day) >= await count_in_sums(reading, "day", *of_day):
        return _Span("hour", hour, hour + datetime.timedelta(seconds=SECONDS["hour"]), has_minutes)
    return _Span("day", *of_day, has_minutes=False)


async def _find_missing(reading: Connection, span: _Span) -> RollupSums | None:
    """Returns what sums of a span are missing, or None if nothing is.

    If sums have more, inferences were deleted, and all that there are were counted.
    """
    of_span = span.begin, span.end
    if await count_inferences(reading, *of_span) <= await count_in_sums(reading, span.period, *of_span):
        return None
    groups: dict[int, Group] = {}
    exact: dict[Level, dict[tuple[int, int], Sums]] = {}
    subjects: dict[SubjectKey, Sums] = {}
    summer = RollupSummer(reading)
    async for rows in read_inferences(reading, *of_span):
        batch = await summer.sum(rows)
        groups.update(batch.groups)
        for level, sums in batch.by_level.items():
            _add_all(exact.setdefault(level, {}), sums)
        _add_all(subjects, batch.by_subject["hour"])

    levels: list[Level] = [level for level in exact if level.startswith(span.period) or (level == "minute" and span.has_minutes)]
    by_level: dict[Level, Mapping[tuple[int, int], Sums]] = {
        level: _differences(exact[level], await read_sums(reading, level, *of_span)) for level in levels
    }
    if span.period == "hour":
        by_level |= {"day": sum_by_day(by_level["hour"])}
        by_level |= {"day_and_team": sum_by_day(by_level["hour_and_team"]), "day_and_target": sum_by_day(by_level["hour_and_target"])}
        by_level |= {"day_and_outcome": sum_by_day(by_level["hour_and_outcome"]), "day_and_key": sum_by_day(by_level["hour_and_key"])}
    stored = await read_subject_sums(reading, *of_span)
    missing = {key: sums.without(stored[key]) if key in stored else sums for key, sums in subjects.items()}
    # Sums have more of whom an erasure was about, and of what was once counted for subjects.
    missing = {key: sums for key, sums in missing.items() if sums.requests > 0}
    return RollupSums(groups, by_level, sum_subjects(missing, groups))


def _add_all(total: dict[K, Sums], added: Mapping[K, Sums]) -> None:
    for key, sums in added.items():
        if key in total:
            total[key].add(sums)
        else:
            total[key] = sums.copy()  # several levels of a batch have the same ones


def _differences(exact: Mapping[K, Sums], stored: Mapping[K, Sums]) -> dict[K, Sums]:
    """Returns what turns stored sums into those of all inferences.

    A difference may be negative, if an inference was counted in another group then.
    """
    nothing = Sums()
    pairs = ((key, exact.get(key, nothing), stored.get(key, nothing)) for key in {*exact, *stored})
    return {key: now.without(then) for key, now, then in pairs if now.summed != then.summed}
