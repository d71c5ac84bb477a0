"""Queries of the database that a command works on."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection

from app.settings import Settings
from app.store.database import transaction
from app.supervisor import server_addresses
from app.supervisor.database_query import query_database

T = TypeVar("T")


def query_store(query: Callable[[str], Awaitable[T]]) -> T:
    """Returns the result of `query(database_url)`, with DATABASE_URL or the database of the running `narthex up`.

    Raises OperatorError if there is neither, or the database cannot be used.
    """
    return query_database(server_addresses.resolve(Settings.read()).database_url, query)


def query_in_transaction(query: Callable[[AsyncConnection], Awaitable[T]]) -> T:
    """As query_store(), with a connection in a transaction, which is committed unless `query` raises."""

    async def run(url: str) -> T:
        async with transaction(url) as connection:
            return await query(connection)

    return query_store(run)
