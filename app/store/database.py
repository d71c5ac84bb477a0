"""Connections to Postgres: the address for each library, an engine for SQLAlchemy, transactions."""

import contextlib
from collections.abc import AsyncGenerator
from typing import Any

import asyncpg
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

CONNECT_TIMEOUT_S = 10.0
COMMAND_TIMEOUT_S = 30.0
_ROLLBACK_TIMEOUT_S = 5.0
_CLOSE_TIMEOUT_S = 0.5


Database = str | AsyncEngine | AsyncConnection  # an address, an engine, or the connection of a transaction to take part in


class _FastCloseConnection(asyncpg.Connection):  # pyright: ignore[reportMissingTypeArgument]
    """A connection whose close() and rollback are quick: on a dead connection nobody answers them."""

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

    `command_timeout_s`: the longest any command may take, the pool's own rollback included; None is for migrations only. An
    asyncio.timeout() around a query does not end the rollback that follows, which on a dead connection would last for ever.
    """

    async def open_connection() -> "asyncpg.Connection[Any]":
        return await connect(database_url, command_timeout_s)

    return create_async_engine("postgresql+asyncpg://", async_creator=open_connection, hide_parameters=True, **options)


async def connect(database_url: str, command_timeout_s: float | None = None) -> "asyncpg.Connection[Any]":
    """Open one connection; no command may take longer than `command_timeout_s`.

    Raises OSError, TimeoutError or asyncpg.PostgresError.
    """
    return await asyncpg.connect(
        dsn(database_url), timeout=CONNECT_TIMEOUT_S, command_timeout=command_timeout_s, connection_class=_FastCloseConnection
    )


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
