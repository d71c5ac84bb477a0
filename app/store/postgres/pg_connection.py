"""A connection to Postgres for short queries: if one is not answered in time, it is repeated on a new connection."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import asyncpg

from app.store.postgres.database import connect

T = TypeVar("T")
Connection = asyncpg.Connection


async def _do_nothing(_: "Connection[Any]") -> None:
    pass


class PgConnection:
    """One connection, opened at the first query and kept. Queries wait for each other.

    A connection may die unnoticed: nothing that is sent arrives, and no error comes back. A pool's connection would then hold its query,
    its rollback and its goodbye without a bound. Here the connection is terminated `retry_after_s` after a query without a result, and
    a new one is opened; that, with the result, may take `timeout_s`. `on_connect` is called with each new one.
    """

    def __init__(
        self,
        database_url: str,
        *,
        retry_after_s: float,
        timeout_s: float,
        on_connect: Callable[["Connection[Any]"], Awaitable[None]] = _do_nothing,
    ) -> None:
        self._database_url = database_url
        self._retry_after_s = retry_after_s
        self._timeout_s = timeout_s
        self._on_connect = on_connect
        self._connection: Connection[Any] | None = None
        self._lock = asyncio.Lock()
        self.times_opened = 0

    async def run(self, query: Callable[["Connection[Any]"], Awaitable[T]]) -> T:
        """Run a query, which may run twice. Raises one of DB_UNAVAILABLE_ERRORS, or what the second run of the query raises."""
        async with self._lock:
            if self._connection is not None and not self._connection.is_closed():
                # Of any kind: what a library raises over a connection that ends within a message cannot be listed.
                with contextlib.suppress(Exception):
                    return await _run_query(self._connection, query, self._retry_after_s)
            async with asyncio.timeout(self._timeout_s):
                connection = await connect(self._database_url)
                self._connection = connection
                await _run_query(connection, self._on_connect, self._timeout_s)
                self.times_opened += 1
                return await _run_query(connection, query, self._timeout_s)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.terminate()


async def _run_query(connection: "Connection[Any]", query: Callable[["Connection[Any]"], Awaitable[T]], timeout_s: float) -> T:
    try:
        async with asyncio.timeout(timeout_s):
            return await query(connection)
    except BaseException:
        connection.terminate()
        raise
