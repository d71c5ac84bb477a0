"""Database queries from a command that runs once: a failure becomes a sentence for the operator."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from app.domain.errors import MigrationBlocked, UnknownRevision, UnsupportedServer
from app.store.postgres.database import dsn
from app.store.postgres.db_errors import DB_UNAVAILABLE_ERRORS, connection_advice
from app.supervisor.machine.errors import OperatorError

T = TypeVar("T")


def query_database(database_url: str, query: Callable[[str], Awaitable[T]]) -> T:
    """Returns the result of `query(database_url)`. Raises OperatorError if the database cannot be used."""

    async def run_query() -> T:
        return await query(database_url)

    try:
        dsn(database_url)
    except ValueError as fault:
        raise OperatorError(f"{fault}.") from None
    try:
        return asyncio.run(run_query())
    except DB_UNAVAILABLE_ERRORS as fault:
        raise OperatorError(
            f"The database could not be used: {_first_line(fault)}\n"
            + (connection_advice(fault) or "Is DATABASE_URL right? `narthex doctor` looks at the server and its tables.")
        ) from fault
    except (MigrationBlocked, UnsupportedServer) as fault:
        raise OperatorError(str(fault)) from fault
    except UnknownRevision as fault:
        raise OperatorError(
            f"The database's tables are of a version that this Narthex does not know ({fault})."
            " Start the Narthex that created them, or a newer one."
        ) from fault


def _first_line(fault: BaseException) -> str:
    """Returns the first line of the driver's own error. SQLAlchemy wraps it, and adds lines of its own."""
    while fault.__cause__ is not None:
        fault = fault.__cause__
    return (str(fault).strip() or type(fault).__name__).splitlines()[0]
