"""Reports of what every gateway process serves.

Each process reports the versions that it has taken over, so that whoever changes something can wait for all.
A process reports after each change and, as a sign of life, every few seconds.
"""

from collections.abc import Sequence
from typing import Any

import asyncpg
from msgspec import Struct
from sqlalchemy import ColumnElement, func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.postgres import tables

REPORT_EVERY_S = 5.0

_workers = tables.workers

# Without a wait for the disk: what a crash of Postgres loses is reported again within seconds.
_REPORT = """
INSERT INTO workers (id, version, keys_version)
SELECT $1, $2, $3 FROM (SELECT set_config('synchronous_commit', 'off', true) AS durable) AS setting WHERE durable = 'off'
ON CONFLICT (id) DO UPDATE SET version = excluded.version, keys_version = excluded.keys_version, seen_at = now()
"""
# A process that has not reported for so long has ended or hangs, and no change waits for it.
_READ_LIVE = "SELECT id, version, keys_version FROM workers WHERE seen_at > now() - interval '30 seconds' ORDER BY id"
# A row that this transaction has changed has its id as xmin. A savepoint's has another: what changes versions uses none.
_CHANGED = text("""
    SELECT coalesce((SELECT version FROM snapshot_version WHERE xmin = own.id), 0) AS configuration,
           coalesce((SELECT version FROM keys_version WHERE xmin = own.id), 0) AS keys
    FROM (SELECT pg_current_xact_id_if_assigned()::xid AS id) AS own
""")
_CURRENT = """
SELECT coalesce((SELECT version FROM snapshot_version), 0) AS configuration, coalesce((SELECT version FROM keys_version), 0) AS keys
"""


class ServedVersions(Struct, frozen=True):
    """Versions of the configuration, and of keys with their teams. As what a change made: 0 where it changed nothing of the kind."""

    configuration: int = 0
    keys: int = 0


class LiveWorker(Struct, frozen=True):
    """A gateway process of any machine, with what it serves."""

    id: str
    configuration: int
    keys: int | None  # None: it is of an earlier Narthex, which does not report them

    def serves(self, versions: ServedVersions) -> bool:
        return self.configuration >= versions.configuration and (self.keys or 0) >= versions.keys

    def will_report(self, versions: ServedVersions) -> bool:
        """Whether it is worth waiting for its report of these versions."""
        return not versions.keys or self.keys is not None


async def report_worker(connection: "asyncpg.Connection[Any]", id: str, versions: ServedVersions) -> None:
    await connection.execute(_REPORT, id, versions.configuration, versions.keys)


async def remove_worker(connection: AsyncConnection, id: str) -> None:
    """Remove a worker that ends, and those of yesterday that ended without this."""
    is_old = _workers.c.seen_at < func.now() - text("interval '1 day'")
    await connection.execute(_workers.delete().where((_workers.c.id == id) | is_old))


async def read_live_workers(connection: "asyncpg.Connection[Any]") -> Sequence[LiveWorker]:
    return [LiveWorker(row["id"], row["version"], row["keys_version"]) for row in await connection.fetch(_READ_LIVE)]


async def read_changed_versions(connection: AsyncConnection) -> ServedVersions:
    """The versions that the transaction of this connection has made so far."""
    row = (await connection.execute(_CHANGED)).one()
    return ServedVersions(row.configuration, row.keys)


async def read_current_versions(connection: "asyncpg.Connection[Any]") -> ServedVersions:
    row = await connection.fetchrow(_CURRENT)
    assert row is not None
    return ServedVersions(row["configuration"], row["keys"])


async def count_workers(connection: AsyncConnection) -> int:
    """How many workers, on all machines, were seen in the last minute."""
    return await connection.scalar(select(func.count()).select_from(_workers).where(seen_lately())) or 0


async def list_workers(connection: AsyncConnection) -> list[str]:
    """The ids of workers, on all machines, that were seen in the last minute."""
    return list(await connection.scalars(select(_workers.c.id).where(seen_lately())))


def seen_lately() -> ColumnElement[bool]:
    """Returns the condition on workers that may come back. A change waits for them for a shorter time."""
    return _workers.c.seen_at > func.now() - text("interval '60 seconds'")
