"""Retention: how long the rows of each table that grows are kept, what of it is stored, and the deletion of what has expired.

Tables with a partition for each day or month lose whole partitions; the small others lose rows, in batches. The tables are declared in
retained_tables.
"""

import datetime
from collections.abc import Sequence

from msgspec import Struct
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.recording.writes.retained_tables import TABLES, Method, RetainedTable
from app.settings import Settings
from app.store.configuration.expiry import delete_expired_versions
from app.store.postgres import partitions
from app.store.postgres.partitions import Connection, drop_expired

_BATCH_ROWS = 5_000
_MAX_BATCHES = 20  # in an hour, as nothing is stored meanwhile

# Of a table, or of its partitions. Postgres counts rows as they come and go, and forgets that when it crashes; then what the last vacuum
# found remains.
_SIZES = text("""
    SELECT coalesce(sum(pg_total_relation_size(class.oid)), 0)::bigint AS size_bytes,
        coalesce(sum(CASE WHEN n_live_tup > 0 THEN n_live_tup ELSE greatest(reltuples, 0)::bigint END), 0)::bigint AS rows
    FROM pg_class AS class LEFT JOIN pg_stat_user_tables ON relid = class.oid
    WHERE class.relkind = 'r' AND (
        class.oid = CAST(:name AS regclass) OR class.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = CAST(:name AS regclass))
    )
""")
_PARTITIONS = text("SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = CAST(:name AS regclass)")


class TableRetention(Struct, frozen=True):
    """The time for which a table's rows are kept, by the settings of the responding process; the writers'
    decide.

    `setting` is its environment variable, or null if there is none. A `keep_days` of null means for ever, or
    until what `note` says. `method` is what is deleted at once: `partitions` of a day or month, `rows`, or
    `versions` of the configuration; `experiments`: the rows of those that ended so many days ago;
    `with_another`: with a row of another table; `when_done`: as soon as it is no longer needed; `never`.
    `oldest` is the day (UTC) of the oldest rows, or null if there are none, or they have no time.
    `partitions` is how many there are, and `rows` about how many, by Postgres's statistics. `note` says why
    it is kept, or what else there is to say.
    """

    table: str
    setting: str | None
    keep_days: int | None
    method: Method
    oldest: str | None
    partitions: int
    rows: int
    size_bytes: int
    note: str | None


async def list_retention(connection: AsyncConnection, settings: Settings) -> Sequence[TableRetention]:
    return [await _describe(connection, settings, each) for each in TABLES]


async def _describe(connection: AsyncConnection, settings: Settings, table: RetainedTable) -> TableRetention:
    sizes = (await connection.execute(_SIZES, {"name": table.name})).one()
    if table.method == "partitions":
        rows = (await connection.execute(_PARTITIONS, {"name": table.name})).all()
        days = [found[0] for row in rows if (found := partitions.partition_days(row.name)) is not None]
        oldest, count = min(days, default=None), len(rows)
        first = None if oldest is None else datetime.date(1970, 1, 1) + datetime.timedelta(days=oldest)
    else:
        # Names of retained_tables, and no table is large: an index has the first, or there are few rows.
        query = None if table.time_column is None else text(f"SELECT min({table.time_column}) FROM {table.name}")  # noqa: S608
        at = None if query is None else await connection.scalar(query)
        first, count = None if at is None else at.astimezone(datetime.UTC).date(), 0
    return TableRetention(
        table=table.name,
        setting=None if table.setting is None else f"NARTHEX_{table.setting.upper()}",
        keep_days=table.keep_days(settings) or None,
        method=table.method,
        oldest=None if first is None else first.isoformat(),
        partitions=count,
        rows=sizes.rows,
        size_bytes=sizes.size_bytes,
        note=table.note,
    )


async def delete_expired(connection: Connection, settings: Settings) -> None:
    """Delete what has expired from every table: each partition, or batch, in a transaction of its own."""
    today = partitions.today()
    for table in TABLES:
        keep_days = table.keep_days(settings)
        if table.method == "partitions":
            await drop_expired(connection, table.name, keep_days, today)
        elif keep_days and table.method in ("rows", "versions"):
            before = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=keep_days)
            await (_delete_versions(connection, before) if table.method == "versions" else _delete_rows(connection, table, before))


async def _delete_versions(connection: Connection, before: datetime.datetime) -> None:
    for _ in range(_MAX_BATCHES):
        if not await delete_expired_versions(connection, before):
            return


async def _delete_rows(connection: Connection, table: RetainedTable, before: datetime.datetime) -> None:
    # The lock keeps the writers of several machines from waiting for each other's rows.
    delete = (
        f"DELETE FROM {table.name} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {table.name} WHERE {table.time_column} < $1"  # noqa: S608
        f" LIMIT {table.batch_rows or _BATCH_ROWS} FOR UPDATE SKIP LOCKED))"
    )
    for _ in range(_MAX_BATCHES):
        if await connection.execute(delete, before) == "DELETE 0":
            return
