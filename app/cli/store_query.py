"""Queries and changes of the database that a command works on."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection

from app.cli.output import progress
from app.settings import Settings
from app.store.postgres.database import transaction
from app.store.workers.applied_changes import Applied, wait_until_served
from app.supervisor.database_query import query_database
from app.supervisor.machine import server_addresses

T = TypeVar("T")


def query_store(query: Callable[[str], Awaitable[T]]) -> T:
    """Returns the result of `query(database_url)`, with DATABASE_URL or the database of the running `narthex up`.

    Raises OperatorError if there is neither, or the database cannot be used.
    """
    return query_database(server_addresses.resolve(Settings.read()).database_url, query)


def query_in_transaction(query: Callable[[AsyncConnection], Awaitable[T]]) -> T:
    """Runs a query as query_store() does, in a transaction that is committed unless `query` raises."""
    return query_store(_in_transaction(query))


def wait_until_all_serve(settings: Settings) -> Applied:
    """Waits until every gateway process serves what was changed, for a bounded time."""
    with progress("Waiting until every gateway process serves it"):
        return query_database(settings.database_url, lambda url: wait_until_served(url, settings.apply_wait_s))


def _in_transaction(query: Callable[[AsyncConnection], Awaitable[T]]) -> Callable[[str], Awaitable[T]]:
    async def run(url: str) -> T:
        async with transaction(url) as connection:
            return await query(connection)

    return run
