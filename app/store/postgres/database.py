"""Connections to Postgres: the address for each library, an engine for SQLAlchemy, transactions.

A connection may lead to a pooler (PgBouncer in transaction mode), which gives a session of Postgres to whoever begins a transaction, and
to somebody else when that ends. So nothing may lean on a session: no statement has a name there, settings and locks are a transaction's.
docs/decisions/038-poolers.md says how that is known and kept.
"""

import contextlib
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

CONNECT_TIMEOUT_S = 10.0
COMMAND_TIMEOUT_S = 30.0
_ROLLBACK_TIMEOUT_S = 5.0
_CLOSE_TIMEOUT_S = 0.5


Database = str | AsyncEngine | AsyncConnection  # an address, an engine, or the connection of a transaction to take part in


class _Connection(asyncpg.Connection):  # pyright: ignore[reportMissingTypeArgument]
    """A connection whose close() and rollback are quick, as on a dead connection nobody answers them; and that suits a pooler.

    `is_pooled` says that a pooler, or another proxy that knows the protocol, is between. detect_pooler() sets it, before the first query.
    """

    is_pooled = False

    async def detect_pooler(self) -> None:
        # At the start a server names its process. A pooler makes up a number, as it serves a client with one process after the other.
        answer = await self.execute(f"SELECT WHERE pg_backend_pid() = {self.get_server_pid()}", timeout=CONNECT_TIMEOUT_S)
        if answer != "SELECT 1":
            self.is_pooled = True
            # As asyncpg.connect(statement_cache_size=0) would, if it had been known: no statement has a name, and each is parsed anew
            # by the message that executes it, in whichever session that is.
            self._stmt_cache_enabled = False
            # Else asyncpg turns it off for the session, see below.
            self._server_caps = self._server_caps._replace(jit=False)  # pyright: ignore[reportUnknownMemberType]

    async def _introspect_types(self, typeoids: Any, timeout: float | None) -> Any:
        """Types that asyncpg does not know, such as arrays: compiling that query would take longer than running it."""
        if not self.is_pooled:
            return await super()._introspect_types(typeoids, timeout)  # pyright: ignore
        async with contextlib.nullcontext() if self.is_in_transaction() else self.transaction():
            await self.execute("SET LOCAL jit = off", timeout=timeout)
            return await super()._introspect_types(typeoids, timeout)  # pyright: ignore

    async def close(self, *, timeout: float | None = None) -> None:
        with contextlib.suppress(TimeoutError):  # asyncpg has terminated it by then
            await super().close(timeout=min(timeout or _CLOSE_TIMEOUT_S, _CLOSE_TIMEOUT_S))

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str:
        if query.startswith("ROLLBACK"):
            timeout = _ROLLBACK_TIMEOUT_S  # on a dead connection it would keep a stopping process for as long as any command may take
        return await super().execute(query, *args, timeout=timeout)


def dsn(database_url: str) -> str:
    """The address for asyncpg, in libpq's form: postgresql://user:password@host:port/name?host=/socket/folder&sslmode=require."""
    scheme, separator, remainder = database_url.partition("://")
    if not separator or scheme.partition("+")[0] not in ("postgresql", "postgres"):
        raise ValueError("DATABASE_URL must be the address of a PostgreSQL server: postgresql://user:password@host:port/name")
    return f"postgresql://{remainder}"


def sqlalchemy_url(database_url: str) -> str:
    """The address for SQLAlchemy, which does not take `sslmode` and the like; create_database_engine() takes everything."""
    return dsn(database_url).replace("postgresql://", "postgresql+asyncpg://", 1)


def create_database_engine(database_url: str, *, command_timeout_s: float | None = COMMAND_TIMEOUT_S, **options: Any) -> AsyncEngine:
    """An engine whose connections are opened by connect(); `options` are create_async_engine's.

    Any command, the pool's own rollback included, may take at most `command_timeout_s`; None is for migrations only. An asyncio.timeout()
    around a query does not end the rollback that follows, which on a dead connection would last for ever.
    """

    async def open_connection() -> "asyncpg.Connection[Any]":
        return await connect(database_url, command_timeout_s)

    return create_async_engine("postgresql+asyncpg://", async_creator=open_connection, hide_parameters=True, **options)


async def connect(database_url: str, command_timeout_s: float | None = None) -> "asyncpg.Connection[Any]":
    """Open one connection; no command may take longer than `command_timeout_s`.

    Raises OSError, TimeoutError or asyncpg.PostgresError.
    """
    address = dsn(database_url)
    is_named = "application_name" in parse_qs(urlsplit(address).query)
    connection = await asyncpg.connect(
        address,
        timeout=CONNECT_TIMEOUT_S,
        command_timeout=command_timeout_s,
        connection_class=_Connection,
        server_settings=None if is_named else {"application_name": _application_name()},
    )
    try:
        await connection.detect_pooler()
    except BaseException:
        connection.terminate()
        raise
    return connection


def is_pooled(connection: "asyncpg.Connection[Any]") -> bool:
    """Whether this connection, of connect(), leads to a pooler: its session may be another one in each transaction."""
    return isinstance(connection, _Connection) and connection.is_pooled


def _application_name() -> str:
    """Returns the name of this process in pg_stat_activity.

    It says that this is Narthex, and which of its commands or processes.
    """
    program = Path(sys.argv[0]).stem
    name = sys.argv[1] if program == "narthex" and len(sys.argv) > 1 else program.removeprefix("run_")
    return f"narthex {name}"[:63]


@contextlib.asynccontextmanager
async def transaction(database: Database) -> AsyncGenerator[AsyncConnection, None]:
    """A transaction. With an address it opens a connection of its own, for commands that run once and exit.

    With a connection it is part of that one's transaction, which the caller commits.
    """
    if isinstance(database, AsyncConnection):
        yield database
        return
    opened = create_database_engine(database) if isinstance(database, str) else database
    try:
        async with opened.begin() as connection:
            yield connection
    finally:
        if opened is not database:
            await opened.dispose()
