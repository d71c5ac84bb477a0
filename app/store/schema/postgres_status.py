"""The status of Postgres and of its tables, for `doctor`, `status` and `migrate`."""

import asyncio
import contextlib
import secrets
import time
from typing import Any

import asyncpg
from msgspec import Struct
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.snapshot import Snapshot
from app.store.configuration import snapshots
from app.store.configuration.validation.known_names import KnownNames
from app.store.postgres.database import connect, create_database_engine, is_pooled
from app.store.schema.migrations_folder import newest_revision
from app.store.schema.server_versions import check_postgres
from app.store.usage.uncounted_inferences import count_uncounted

_NOTIFY_TIMEOUT_S = 2.0


class WorkerRow(Struct, frozen=True):
    """A gateway process that reported within a minute: the version of the configuration that it serves, and how long ago it reported."""

    id: str
    version: int
    last_seen_s: float


class PostgresStatus(Struct, frozen=True):
    """The facts about Postgres that `narthex doctor` and `narthex status` need."""

    version: str
    version_number: int
    revision: str | None  # of the existing tables; None: there are none
    newest_revision: str  # the one that this Narthex needs
    response_s: float
    skew_s: float  # how far Postgres's clock is ahead of this machine's
    is_read_only: bool
    connections: int
    max_connections: int
    is_pooled: bool
    receives_notifications: bool | None  # None: nobody listens, as a pooler is between and no direct address is known (`is_pooled`)
    snapshot: Snapshot | None  # None: the tables are of another revision; so it is for the three below
    known_names: KnownNames | None  # the names that limits may use
    workers: tuple[WorkerRow, ...] | None
    uncounted: int | None  # inferences that are in no analytics


async def revisions(database_url: str) -> tuple[str | None, str]:
    """The revision of the existing tables (None: there are none), and the newest one. Raises UnsupportedServer."""
    database = create_database_engine(database_url)
    try:
        async with database.connect() as connection:
            await check_postgres(connection)
            return await _read_revision(connection), newest_revision()
    finally:
        await database.dispose()


async def read_postgres_status(database_url: str, direct_url: str = "") -> PostgresStatus:
    """Read the status. `direct_url` leads past a pooler, if there is one. Raises one of DB_UNAVAILABLE_ERRORS."""
    database = create_database_engine(database_url)
    try:
        async with database.connect() as connection:
            await connection.execution_options(isolation_level="REPEATABLE READ")
            raw: Any = (await connection.get_raw_connection()).driver_connection
            pooled = is_pooled(raw)
            received = None if pooled and not direct_url else await _receives_notifications(direct_url or database_url, database_url)
            return await _read_status(connection, is_pooled=pooled, receives_notifications=received)
    finally:
        await database.dispose()


async def _read_status(connection: AsyncConnection, *, is_pooled: bool, receives_notifications: bool | None) -> PostgresStatus:
    started_at = time.time()
    now = float(await connection.scalar(text("SELECT extract(epoch FROM clock_timestamp())")) or 0)
    response_s = time.time() - started_at
    row = (
        await connection.execute(
            text(
                "SELECT current_setting('server_version'), current_setting('server_version_num')::int,"
                " pg_is_in_recovery() OR current_setting('default_transaction_read_only') = 'on',"
                " (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'), current_setting('max_connections')::int"
            )
        )
    ).one()
    revision, newest = await _read_revision(connection), newest_revision()
    is_current = revision == newest
    snapshot = await snapshots.read_snapshot(connection) if is_current else None
    return PostgresStatus(
        version=str(row[0]).split(" ")[0],
        version_number=row[1],
        revision=revision,
        newest_revision=newest,
        response_s=response_s,
        skew_s=now - (started_at + response_s / 2),
        is_read_only=bool(row[2]),
        connections=row[3],
        max_connections=row[4],
        is_pooled=is_pooled,
        receives_notifications=receives_notifications,
        snapshot=snapshot,
        known_names=await _read_known_names(connection, snapshot) if snapshot else None,
        workers=await _read_workers(connection) if is_current else None,
        uncounted=await count_uncounted(connection) if is_current else None,
    )


async def _read_revision(connection: AsyncConnection) -> str | None:
    if await connection.scalar(text("SELECT to_regclass('alembic_version')")) is None:
        return None
    return await connection.scalar(text("SELECT version_num FROM alembic_version"))


async def _read_known_names(connection: AsyncConnection, snapshot: Snapshot) -> KnownNames:
    teams = [name for (name,) in await connection.execute(text("SELECT name FROM teams"))]
    prefixes = {
        subject.removeprefix("nx-") for limit in snapshot.limits for dimension, subject in limit.scope.items() if dimension == "key"
    }
    query = text("SELECT prefix FROM keys WHERE prefix = ANY(:named)")
    return KnownNames(teams, [f"nx-{prefix}" for (prefix,) in await connection.execute(query, {"named": list(prefixes)})])


async def _read_workers(connection: AsyncConnection) -> tuple[WorkerRow, ...]:
    rows = await connection.execute(
        text(
            "SELECT id, version, extract(epoch FROM clock_timestamp() - seen_at)::float8 AS seen_s FROM workers"
            " WHERE seen_at > now() - interval '60 seconds' ORDER BY id"
        )
    )
    return tuple(WorkerRow(row.id, row.version, max(0.0, row.seen_s)) for row in rows)


async def _receives_notifications(listen_url: str, database_url: str) -> bool:
    """Whether a notification arrives, by trying: behind a pooler LISTEN has no effect, and another database sends none."""
    channel = f"narthex_doctor_{secrets.token_hex(4)}"
    received = asyncio.Event()

    def on_notification(*_: object) -> None:
        received.set()

    listener: asyncpg.Connection[Any] = await connect(listen_url)
    try:
        await listener.add_listener(channel, on_notification)
        notifier: asyncpg.Connection[Any] = await connect(database_url)
        try:
            await notifier.execute("SELECT pg_notify($1, '')", channel)
        finally:
            await notifier.close(timeout=_NOTIFY_TIMEOUT_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_NOTIFY_TIMEOUT_S):
                await received.wait()
        return received.is_set()
    finally:
        listener.terminate()
