"""The database's address, in the words of each library that takes it."""

import contextlib
from collections.abc import AsyncGenerator
from typing import Any

import asyncpg
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

CONNECT_TIMEOUT_S = 10.0
COMMAND_TIMEOUT_S = 30.0
_CLOSE_TIMEOUT_S = 0.5


class _FastCloseConnection(asyncpg.Connection):  # pyright: ignore[reportMissingTypeArgument]
    """Says farewell, and goes in any case: where a line is dead without a word, nobody answers that either."""

    async def close(self, *, timeout: float | None = None) -> None:
        with contextlib.suppress(TimeoutError):  # asyncpg has let go of it by then
            await super().close(timeout=min(timeout or _CLOSE_TIMEOUT_S, _CLOSE_TIMEOUT_S))


def dsn(database_url: str) -> str:
    """For asyncpg, libpq's form: postgresql://user:password@host:port/name?host=/folder/of/the/socket&sslmode=require."""
    scheme, separator, remainder = database_url.partition("://")
    if not separator or scheme.partition("+")[0] not in ("postgresql", "postgres"):
        raise ValueError("DATABASE_URL must be the address of a PostgreSQL server: postgresql://user:password@host:port/name")
    return f"postgresql://{remainder}"


def sqlalchemy_url(database_url: str) -> str:
    """For SQLAlchemy, whose asyncpg takes no `sslmode` and the like: engine() understands all that dsn() does."""
    return dsn(database_url).replace("postgresql://", "postgresql+asyncpg://", 1)


def create_database_engine(database_url: str, *, command_timeout_s: float | None = COMMAND_TIMEOUT_S, **options: Any) -> AsyncEngine:
    """An engine whose connections are asyncpg's own; `options` are create_async_engine's.

    `patience_s`: the longest any command may take, a pool's own rollback too; None is for migrations alone. For an asyncio.timeout()
    around a question does not end what the pool does with its connection afterwards, which on a dead line would be never.
    """

    async def open_connection() -> "asyncpg.Connection[Any]":
        return await connect(database_url, command_timeout_s)

    return create_async_engine("postgresql+asyncpg://", async_creator=open_connection, hide_parameters=True, **options)


async def connect(database_url: str, command_timeout_s: float | None = None) -> "asyncpg.Connection[Any]":
    """One connection; no command may take longer than `patience_s`. Raises OSError, TimeoutError or asyncpg.PostgresError."""
    return await asyncpg.connect(
        dsn(database_url), timeout=CONNECT_TIMEOUT_S, command_timeout=command_timeout_s, connection_class=_FastCloseConnection
    )


@contextlib.asynccontextmanager
async def transaction(database: str | AsyncEngine) -> AsyncGenerator[AsyncConnection, None]:
    """A transaction. Of an address: on a connection of its own, for commands that run once and end."""
    opened = create_database_engine(database) if isinstance(database, str) else database
    try:
        async with opened.begin() as connection:
            yield connection
    finally:
        if opened is not database:
            await opened.dispose()
