"""Queries of which worker serves which version, and of the configurations that records name by hash."""

from datetime import datetime
from typing import Any

from msgspec import Struct
from sqlalchemy import Row, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.configuration import snapshots
from app.store.configuration.earlier import read_document
from app.store.postgres import tables
from app.store.postgres.paging import Keyset, Page, PageQuery, SortColumn
from app.store.workers.reports import seen_lately

_workers, _snapshots = tables.workers, tables.snapshots


class Worker(Struct, frozen=True):
    """A gateway process. `id`: its machine, home and number. `seen_at`: when it last reported.

    `current`: it serves the newest version, and has taken over the newest changes of keys and teams.
    """

    id: str
    version: int
    current: bool
    seen_at: str


class StoredSnapshot(Struct, frozen=True):
    """A configuration that was in force. `hash`: by which the `snapshot` of records names it. `created_at`: when it first was.

    `version`: the newest of the history with this content; 0: that of before the first change; null: from before the history was kept.
    """

    hash: str
    created_at: str
    version: int | None


class SnapshotDocument(StoredSnapshot, frozen=True):
    """A configuration with its content: providers, models, limits and prices, named as in a file."""

    document: dict[str, Any]


_WORKERS_KEYSET = Keyset(
    {
        "id": SortColumn(_workers.c.id),
        "version": SortColumn(_workers.c.version, int),
        "seen_at": SortColumn(_workers.c.seen_at, datetime),
    },
    SortColumn(_workers.c.id),
)
_SNAPSHOTS_KEYSET = Keyset({"created_at": SortColumn(_snapshots.c.created_at, datetime)}, SortColumn(_snapshots.c.hash))


async def page_workers(connection: AsyncConnection, query: PageQuery) -> Page[Worker]:
    """Returns the workers of all machines that were seen in the last minute."""
    newest = await snapshots.read_version(connection)
    newest_keys = await connection.scalar(select(tables.keys_version.c.version)) or 0

    def to_worker(row: Row[Any]) -> Worker:
        is_current = row.version >= newest and (row.keys_version is None or row.keys_version >= newest_keys)
        return Worker(row.id, row.version, is_current, row.seen_at.isoformat())

    rows = (await connection.execute(_WORKERS_KEYSET.page_query(select(_workers).where(seen_lately()), query))).all()
    return _WORKERS_KEYSET.page(rows, query, to_worker)


async def page_snapshots(connection: AsyncConnection, query: PageQuery) -> Page[StoredSnapshot]:
    selected = select(*(_snapshots.c[name] for name in ("hash", "created_at", "version")))  # documents are large
    rows = (await connection.execute(_SNAPSHOTS_KEYSET.page_query(selected, query))).all()
    return _SNAPSHOTS_KEYSET.page(rows, query, lambda row: StoredSnapshot(row.hash, row.created_at.isoformat(), row.version))


async def find_snapshot(connection: AsyncConnection, hash: str) -> SnapshotDocument | None:
    row = (await connection.execute(select(_snapshots).where(_snapshots.c.hash == hash))).one_or_none()
    if row is None:
        return None
    document = row.document if row.version is None else await read_document(connection, hash)
    return None if document is None else SnapshotDocument(row.hash, row.created_at.isoformat(), row.version, document)
