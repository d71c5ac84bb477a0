"""Partitions: one for each day (UTC) of each recorded table, by the time in the UUIDv7 of its rows."""

import datetime
import logging
from collections.abc import Collection
from typing import Any, TypeAlias

import asyncpg

from app.uuid7 import created_ms, is_uuid7, lowest_at

logger = logging.getLogger(__name__)

Connection: TypeAlias = "asyncpg.Connection[Any]"  # generic for the type checker only

TABLES = ("inferences", "inference_content")
DAY_MS = 86_400_000
LOCK = 0x6E617274_70617274  # for pg_advisory_xact_lock: writers of several machines create the same partitions
OLDEST_DAYS = 400  # Postgres may have been unavailable for a while; records older than this, and than anything kept, have a wrong clock


def day_of(id: str) -> int:
    """The day since 1970 on which this UUIDv7 was created. Raises ValueError if it is not a UUIDv7."""
    if not is_uuid7(id):
        raise ValueError(f"{id!r} is not a UUIDv7")
    return created_ms(id) // DAY_MS


def today() -> int:
    return (datetime.datetime.now(datetime.UTC).date() - datetime.date(1970, 1, 1)).days


def is_plausible(day: int, keep_days: int, now: int) -> bool:
    """Whether a record of that day is plausible. A clock may be some hours ahead."""
    return now - max(keep_days, OLDEST_DAYS) <= day <= now + 1


async def create_partitions(connection: Connection, days: Collection[int]) -> None:
    """Create the missing partitions of these days."""
    partitions = [(table, day) for table in TABLES for day in sorted(days)]
    names = [_partition_name(table, day) for table, day in partitions]
    missing = {
        row["name"] for row in await connection.fetch("SELECT name FROM unnest($1::text[]) name WHERE to_regclass(name) IS NULL", names)
    }
    for (table, day), name in zip(partitions, names, strict=True):
        if name in missing:
            await _create_partition(connection, table, name, day)


async def drop_expired(connection: Connection, table: str, keep_days: int, now: int) -> int:
    """Drop the partitions whose rows are all older than `keep_days`; returns how many. 0 days keeps everything.

    A partition that is being read is left for the next time: waiting for its lock would block everybody else.
    """
    if not keep_days:
        return 0
    rows = await connection.fetch("SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = $1::regclass", table)
    dropped = 0
    for name in sorted(row["name"] for row in rows):
        day = partition_day(name)
        if day is not None and day < now - keep_days:
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


async def _create_partition(connection: Connection, table: str, name: str, day: int) -> None:
    # Created separately and attached: CREATE TABLE ... PARTITION OF would wait for every reader of the table, and block new ones.
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
        if await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", name):
            return
        await connection.execute(f"CREATE TABLE {name} (LIKE {table} INCLUDING DEFAULTS INCLUDING STORAGE INCLUDING COMPRESSION)")
        begin, end = lowest_at(day * DAY_MS), lowest_at((day + 1) * DAY_MS)
        await connection.execute(f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ('{begin}') TO ('{end}')")


def _partition_name(table: str, day: int) -> str:
    return f"{table}_{datetime.date(1970, 1, 1) + datetime.timedelta(days=day):%Y%m%d}"


def partition_day(name: str) -> int | None:
    """The day since 1970 of a partition, by its name; None: it has none."""
    try:
        date = datetime.datetime.strptime(name.rpartition("_")[2], "%Y%m%d").date()
    except ValueError:
        return None
    return (date - datetime.date(1970, 1, 1)).days
