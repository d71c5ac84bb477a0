"""Errors of Postgres: those that mean it is unavailable, through SQLAlchemy and asyncpg."""

import asyncpg
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

# What is raised while Postgres is lost, refusing connections, silent or not yet started.
# InternalClientError: asyncpg's protocol lost its place, as when a connection ends within a message.
DB_UNAVAILABLE_ERRORS = (
    OSError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    SQLAlchemyError,
    TimeoutError,
)

# Another transaction holds what this one waits for.
BUSY_ERRORS = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)

# A statement took longer than it may.
TOO_LONG_ERRORS = (asyncpg.QueryCanceledError,)

# A stopped server, or one behind a broken connection, refuses nothing: it is silent. No query of ours takes longer.
QUERY_TIMEOUT_S = 10.0


class RecordsUnavailable(Exception):
    """Recorded inferences cannot be read, as Postgres is unavailable."""


def connection_advice(fault: BaseException) -> str | None:
    """What mends the most common reasons why Postgres takes no connection, or does not know a table. None: another reason."""
    match fault:
        case asyncpg.InvalidPasswordError() | asyncpg.InvalidAuthorizationSpecificationError():
            return "PostgreSQL refuses the user or the password: set DATABASE_URL=postgresql://USER:PASSWORD@HOST:PORT/NAME."
        case asyncpg.InvalidCatalogNameError():
            return "There is no such database: `createdb` creates it, then `narthex migrate` its tables."
        case asyncpg.UndefinedTableError() | asyncpg.UndefinedColumnError():
            return "Its tables are missing or old: `narthex migrate` creates and upgrades them."
        case OSError() | TimeoutError():
            return "Start PostgreSQL, or set DATABASE_URL to where it runs; `narthex doctor` tries it."
        case _:
            return connection_advice(fault.__cause__) if fault.__cause__ is not None else None


def describe_without_values(error: BaseException) -> str:
    """For logs. str() of an error of Postgres, and so a traceback, has its detail: values of the row that it is about."""
    if isinstance(error, DBAPIError) and error.orig is not None:
        error = error.orig.__cause__ or error.orig
    return f"{type(error).__name__}: {error.args[0] if error.args else ''}"
