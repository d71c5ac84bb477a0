"""Queries and changes of the database that a command works on."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import click
from sqlalchemy.ext.asyncio import AsyncConnection

from app.cli.output import progress
from app.settings import Settings
from app.store.postgres.database import transaction
from app.store.workers.applied_changes import wait_until_served
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


def change_store(change: Callable[[str], Awaitable[T]]) -> T:
    """Changes what gateway processes serve. Returns once all of them serve it, or says which do not."""
    settings = server_addresses.resolve(Settings.read())
    result = query_database(settings.database_url, change)
    warn_unless_served(settings)
    return result


def change_in_transaction(change: Callable[[AsyncConnection], Awaitable[T]]) -> T:
    """Changes something as change_store() does, in a transaction that is committed unless `change` raises."""
    return change_store(_in_transaction(change))


def warn_unless_served(settings: Settings) -> None:
    """Waits until every gateway process serves what was changed; on standard error, in words, if they do not."""
    with progress("Waiting until every gateway process serves it"):
        applied = query_database(settings.database_url, lambda url: wait_until_served(url, settings.apply_wait_s))
    if applied.behind or applied.live is None:
        click.echo(f"Warning: the change is stored, but {applied.in_words(settings.apply_wait_s)}", err=True)


def _in_transaction(query: Callable[[AsyncConnection], Awaitable[T]]) -> Callable[[str], Awaitable[T]]:
    async def run(url: str) -> T:
        async with transaction(url) as connection:
            return await query(connection)

    return run
