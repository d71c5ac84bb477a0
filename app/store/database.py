"""The database's address, in the words of each library that takes it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

CONNECT_TIMEOUT_S = 10.0


def dsn(database_url: str) -> str:
    """For asyncpg, libpq's form: postgresql://user:password@host:port/name?host=/folder/of/the/socket&sslmode=require."""
    scheme, separator, rest = database_url.partition("://")
    if not separator or scheme.partition("+")[0] not in ("postgresql", "postgres"):
        raise ValueError("DATABASE_URL must be the address of a PostgreSQL server: postgresql://user:password@host:port/name")
    return f"postgresql://{rest}"


def sqlalchemy_url(database_url: str) -> str:
    """For SQLAlchemy, whose asyncpg takes no `sslmode` and the like: engine() understands all that dsn() does."""
    return dsn(database_url).replace("postgresql://", "postgresql+asyncpg://", 1)


def engine(database_url: str, **options: Any) -> AsyncEngine:
    """An engine whose connections are asyncpg's own; `options` are create_async_engine's."""

    async def connection() -> "asyncpg.Connection[Any]":
        return await connect(database_url)

    return create_async_engine("postgresql+asyncpg://", async_creator=connection, **options)


async def connect(database_url: str) -> "asyncpg.Connection[Any]":
    """One connection. Raises OSError, TimeoutError or asyncpg.PostgresError where there is none to be had."""
    return await asyncpg.connect(dsn(database_url), timeout=CONNECT_TIMEOUT_S)


@asynccontextmanager
async def transaction(database: str | AsyncEngine) -> AsyncGenerator[AsyncConnection, None]:
    """A transaction. Of an address: on a connection of its own, for commands that run once and end."""
    opened = engine(database) if isinstance(database, str) else database
    try:
        async with opened.begin() as connection:
            yield connection
    finally:
        if opened is not database:
            await opened.dispose()
