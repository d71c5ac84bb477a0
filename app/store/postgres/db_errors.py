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

# Postgres, or a pooler before it, goes, comes or takes no more connections.
_OUTAGE_ERRORS = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
)

# Another transaction holds what this one waits for.
BUSY_ERRORS = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)

# A statement took longer than it may.
TOO_LONG_ERRORS = (asyncpg.QueryCanceledError,)

# A stopped server, or one behind a broken connection, refuses nothing: it is silent. No query of ours takes longer.
QUERY_TIMEOUT_S = 10.0


class RecordsUnavailable(Exception):
    """Recorded inferences cannot be read, as Postgres is unavailable."""


def driver_error(error: BaseException) -> BaseException:
    """asyncpg's own error, where SQLAlchemy has wrapped it."""
    if isinstance(error, DBAPIError) and error.orig is not None:
        return error.orig.__cause__ or error.orig
    return error


def is_outage(error: BaseException) -> bool:
    """Whether Postgres could not be reached or ended the connection; False: it answers, and the error is about what it was asked."""
    error = driver_error(error)
    return isinstance(error, _OUTAGE_ERRORS) and not isinstance(error, ValueError)  # of values that asyncpg cannot encode


def connection_advice(fault: BaseException) -> str | None:
    """Returns what mends the most common reasons why Postgres takes no connection or does not know a table.

    Returns None for any other reason. It advises to start a server only where nothing listens at the address:
    whatever else happens, one runs.
    """
    match driver_error(fault):
        case asyncpg.InvalidPasswordError() | asyncpg.InvalidAuthorizationSpecificationError():
            return "PostgreSQL refuses the user or the password: set DATABASE_URL=postgresql://USER:PASSWORD@HOST:PORT/NAME."
        case asyncpg.InvalidCatalogNameError():
            return "There is no such database: `createdb` creates it, then `narthex migrate` its tables."
        case asyncpg.UndefinedTableError() | asyncpg.UndefinedColumnError():
            return "Its tables are missing or old: `narthex migrate` creates and upgrades them."
        case asyncpg.CannotConnectNowError() | asyncpg.AdminShutdownError() | asyncpg.CrashShutdownError():
            return "PostgreSQL is starting or stopping: try again in a moment."
        case asyncpg.TooManyConnectionsError():
            return "PostgreSQL runs, and has no connection left: raise max_connections, or put a pooler before it."
        case asyncpg.LockNotAvailableError() | asyncpg.QueryCanceledError():
            return "PostgreSQL runs, and this waited too long for it: pg_stat_activity shows what else it does. Try again."
        case TimeoutError():
            return "Nothing answered in time: is DATABASE_URL right, can it be reached from here, and is it not overloaded?"
        case ConnectionResetError() | BrokenPipeError() | asyncpg.PostgresConnectionError():
            return "PostgreSQL, or a proxy before it, ended the connection: the line above, or its log, says why."
        case PermissionError():
            return "This user may not open the socket of PostgreSQL: run as another one, or set DATABASE_URL."
        case OSError():
            return "Start PostgreSQL, or set DATABASE_URL to where it runs; `narthex doctor` tries it."
        case _:
            return connection_advice(fault.__cause__) if fault.__cause__ is not None else None


def describe_without_values(error: BaseException) -> str:
    """Describes an error for logs, without values.

    str() of an error of Postgres, and so a traceback, has its detail: values of the row that it is about.
    """
    error = driver_error(error)
    return f"{type(error).__name__}: {error.args[0] if error.args else ''}"
