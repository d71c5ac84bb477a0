"""Partitions of recorded tables: one for each day or month (UTC), by the time in the UUIDv7 of a row, or by its column `time`."""

import datetime
import logging
from collections.abc import Collection
from typing import Any, Literal, NamedTuple, TypeAlias

import asyncpg

from app.domain.uuid7 import created_ms, is_uuid7, lowest_at

logger = logging.getLogger(__name__)

Connection: TypeAlias = "asyncpg.Connection[Any]"  # generic for the type checker only


class PartitionedTable(NamedTuple):
    """A table whose partitions are made and dropped as time goes on."""

    name: str
    by: Literal["id", "time"] = "id"  # the column that partitions are bound by
    span: Literal["day", "month"] = "day"
    has_updates: bool = False  # whether its rows change, so pages keep free space for their new versions


TABLES = (
    PartitionedTable("inferences"),
    PartitionedTable("inference_content"),
    PartitionedTable("refusals"),
    PartitionedTable("inference_texts"),
    PartitionedTable("feedback", span="month", has_updates=True),
    PartitionedTable("rollups_by_minute", "time", has_updates=True),
    PartitionedTable("rollups_by_hour", "time", "month", has_updates=True),
    PartitionedTable("rollups_by_day", "time", "month", has_updates=True),
    PartitionedTable("rollups_by_hour_and_outcome", "time", "month", has_updates=True),
    PartitionedTable("rollups_by_hour_and_team", "time", "month", has_updates=True),
    PartitionedTable("rollups_by_hour_and_target", "time", "month", has_updates=True),
    PartitionedTable("rollups_by_hour_and_key", "time", "month", has_updates=True),
    PartitionedTable("rollups_by_day_and_outcome", "time", "month", has_updates=True),
    PartitionedTable("rollups_by_day_and_team", "time", "month", has_updates=True),
    PartitionedTable("rollups_by_day_and_target", "time", "month", has_updates=True),
    PartitionedTable("rollups_by_day_and_key", "time", "month", has_updates=True),
    PartitionedTable("subject_rollups_by_hour", "time", "month", has_updates=True),
    PartitionedTable("subject_rollups_by_day", "time", "month", has_updates=True),
    PartitionedTable("subject_rollups_by_day_and_team", "time", "month", has_updates=True),
)
DAY_MS = 86_400_000
_EPOCH = datetime.date(1970, 1, 1)
LOCK = 0x6E617274_70617274  # for pg_advisory_xact_lock: writers of several machines create the same partitions
OLDEST_DAYS = 400  # Postgres may have been unavailable for a while; records older than this, and than anything kept, have a wrong clock


def day_of(id: str) -> int:
    """The day since 1970 on which this UUIDv7 was created. Raises ValueError if it is not a UUIDv7."""
    if not is_uuid7(id):
        raise ValueError(f"{id!r} is not a UUIDv7")
    return created_ms(id) // DAY_MS


def today() -> int:
    return (datetime.datetime.now(datetime.UTC).date() - _EPOCH).days


def is_plausible(day: int, keep_days: int, now: int) -> bool:
    """Whether a record of that day is plausible. A clock may be some hours ahead."""
    return now - max(keep_days, OLDEST_DAYS) <= day <= now + 1


async def create_partitions(connection: Connection, days: Collection[int], tables: Collection[str] | None = None) -> None:
    """Create the missing partitions for these days; None: of all tables."""
    wanted = sorted({_Partition.of(table, day) for table in TABLES if tables is None or table.name in tables for day in days})
    names = [each.name for each in wanted]
    missing = {
        row["name"] for row in await connection.fetch("SELECT name FROM unnest($1::text[]) name WHERE to_regclass(name) IS NULL", names)
    }
    for each in wanted:
        if each.name in missing:
            await _create_partition(connection, each)


async def drop_expired(connection: Connection, table: str, keep_days: int, now: int) -> int:
    """Drop the partitions whose rows are all older than `keep_days`; returns how many. 0 days keeps everything.

    A partition that is being read is left for the next time: waiting for its lock would block everybody else.
    """
    if not keep_days:
        return 0
    rows = await connection.fetch("SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = $1::regclass", table)
    dropped = 0
    for name in sorted(row["name"] for row in rows):
        days = partition_days(name)
        if days is not None and days[1] <= now - keep_days:
            try:
                async with connection.transaction():
                    await connection.execute("SET LOCAL lock_timeout = '2s'")
                    await connection.execute(f"DROP TABLE IF EXISTS {name}")
            except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError) as error:
                logger.warning("The expired partition %s is in use and is dropped later: %s", name, error)
            else:
                dropped += 1
                logger.info("Dropped %s, which had expired", name)
    return dropped


class _Partition(NamedTuple):
    """A partition, from the day `begin` to the day `end`, in days since 1970."""

    table: PartitionedTable
    name: str
    begin: int
    end: int

    @classmethod
    def of(cls, table: PartitionedTable, day: int) -> "_Partition":
        date = _EPOCH + datetime.timedelta(days=day)
        if table.span == "day":
            return cls(table, f"{table.name}_{date:%Y%m%d}", day, day + 1)
        begin = date.replace(day=1)
        return cls(table, f"{table.name}_{begin:%Y%m}", (begin - _EPOCH).days, (_next_month(begin) - _EPOCH).days)

    @property
    def bounds(self) -> tuple[str, str]:
        if self.table.by == "id":
            return lowest_at(self.begin * DAY_MS), lowest_at(self.end * DAY_MS)
        begin, end = (_EPOCH + datetime.timedelta(days=day) for day in (self.begin, self.end))
        return f"{begin} 00:00:00+00", f"{end} 00:00:00+00"


async def _create_partition(connection: Connection, partition: _Partition) -> None:
    # Created separately and attached: CREATE TABLE ... PARTITION OF would wait for every reader of the table, and block new ones.
    table, name = partition.table, partition.name
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
        if await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", name):
            return
        options = " WITH (fillfactor = 70)" if table.has_updates else ""
        await connection.execute(
            f"CREATE TABLE {name} (LIKE {table.name} INCLUDING DEFAULTS INCLUDING STORAGE INCLUDING COMPRESSION){options}"
        )
        begin, end = partition.bounds
        await connection.execute(f"ALTER TABLE {table.name} ATTACH PARTITION {name} FOR VALUES FROM ('{begin}') TO ('{end}')")


def partition_days(name: str) -> tuple[int, int] | None:
    """The days since 1970 of a partition, by its name: the first, and the one after its last. None: it was not created here."""
    text = name.rpartition("_")[2]
    try:
        begin = datetime.datetime.strptime(text, "%Y%m" if len(text) == 6 else "%Y%m%d").date()
    except ValueError:
        return None
    first = (begin - _EPOCH).days
    return first, (_next_month(begin) - _EPOCH).days if len(text) == 6 else first + 1


def _next_month(first: datetime.date) -> datetime.date:
    return (first + datetime.timedelta(days=31)).replace(day=1)
