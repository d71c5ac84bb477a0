"""What Postgres tells of its own condition: for `doctor`, `status` and `migrate`."""

import asyncio
import contextlib
import secrets
import time
from typing import Any

import asyncpg
from alembic.script import ScriptDirectory
from msgspec import Struct
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import Directory
from app.store import directory
from app.store.database import connect, engine
from app.store.limit_checks import Known
from app.store.migrate import alembic_config

_NOTICE_S = 2.0


class WorkerRow(Struct, frozen=True):
    """A gateway process that was heard of within a minute: the configuration's version that it serves, and how long ago it said so."""

    id: str
    version: int
    seen_s: float


class Condition(Struct, frozen=True):
    """`revision`: of the tables that are there; None: there are none of ours. `newest`: the one that this Narthex needs.

    `skew_s`: how far its clock is ahead of ours. `hears`: whether a notification arrives. `directory`, `known` (what limits may name
    beside it) and `workers` None: the tables are not of our version.
    """

    version: str
    version_number: int
    revision: str | None
    newest: str
    answered_s: float
    skew_s: float
    is_read_only: bool
    connections: int
    most_connections: int
    hears: bool
    directory: Directory | None
    known: Known | None
    workers: tuple[WorkerRow, ...] | None


def newest_revision() -> str:
    return ScriptDirectory.from_config(alembic_config()).get_current_head() or ""


async def revisions(database_url: str) -> tuple[str | None, str]:
    """The revision of the tables there (None: none of ours), and the newest one."""
    database = engine(database_url)
    try:
        async with database.connect() as connection:
            return await _revision(connection), newest_revision()
    finally:
        await database.dispose()


async def look(database_url: str) -> Condition:
    """Raises one of AWAY if it cannot be asked."""
    database = engine(database_url)
    try:
        async with database.connect() as connection:
            await connection.execution_options(isolation_level="REPEATABLE READ")
            return await _look(connection, hears=await _hears(database_url))
    finally:
        await database.dispose()


async def _look(connection: AsyncConnection, *, hears: bool) -> Condition:
    asked_at = time.time()
    now = float(await connection.scalar(text("SELECT extract(epoch FROM clock_timestamp())")) or 0)
    answered_s = time.time() - asked_at
    row = (
        await connection.execute(
            text(
                "SELECT current_setting('server_version'), current_setting('server_version_num')::int,"
                " pg_is_in_recovery() OR current_setting('default_transaction_read_only') = 'on',"
                " (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'), current_setting('max_connections')::int"
            )
        )
    ).one()
    revision, newest = await _revision(connection), newest_revision()
    is_ours = revision == newest
    configured = await directory.read(connection) if is_ours else None
    return Condition(
        version=str(row[0]).split(" ")[0],
        version_number=row[1],
        revision=revision,
        newest=newest,
        answered_s=answered_s,
        skew_s=now - (asked_at + answered_s / 2),
        is_read_only=bool(row[2]),
        connections=row[3],
        most_connections=row[4],
        hears=hears,
        directory=configured,
        known=await _known(connection, configured) if configured else None,
        workers=await _workers(connection) if is_ours else None,
    )


async def _revision(connection: AsyncConnection) -> str | None:
    if await connection.scalar(text("SELECT to_regclass('alembic_version')")) is None:
        return None
    return await connection.scalar(text("SELECT version_num FROM alembic_version"))


async def _known(connection: AsyncConnection, configured: Directory) -> Known:
    teams = [name for (name,) in await connection.execute(text("SELECT name FROM teams"))]
    named = {of.removeprefix("nx-") for limit in configured.limits for dimension, of in limit.scope.items() if dimension == "key"}
    asked = text("SELECT prefix FROM keys WHERE prefix = ANY(:named)")
    return Known(teams, [f"nx-{prefix}" for (prefix,) in await connection.execute(asked, {"named": list(named)})])


async def _workers(connection: AsyncConnection) -> tuple[WorkerRow, ...]:
    found = await connection.execute(
        text(
            "SELECT id, version, extract(epoch FROM clock_timestamp() - seen_at)::float8 AS seen_s FROM workers"
            " WHERE seen_at > now() - interval '60 seconds' ORDER BY id"
        )
    )
    return tuple(WorkerRow(row.id, row.version, max(0.0, row.seen_s)) for row in found)


async def _hears(database_url: str) -> bool:
    """A proxy that lends connections by the transaction loses LISTEN without a word, so it is tried."""
    channel = f"narthex_doctor_{secrets.token_hex(4)}"
    heard = asyncio.Event()

    def hear(*_: object) -> None:
        heard.set()

    listening: asyncpg.Connection[Any] = await connect(database_url)
    try:
        await listening.add_listener(channel, hear)
        telling: asyncpg.Connection[Any] = await connect(database_url)
        try:
            await telling.execute("SELECT pg_notify($1, '')", channel)
        finally:
            await telling.close(timeout=_NOTICE_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_NOTICE_S):
                await heard.wait()
        return heard.is_set()
    finally:
        listening.terminate()
