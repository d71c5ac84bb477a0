"""Errors of Postgres: those that mean it is unavailable, through SQLAlchemy and asyncpg."""

import asyncpg
from sqlalchemy.exc import SQLAlchemyError

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

# A stopped server, or one behind a broken connection, refuses nothing: it is silent. No query of ours takes longer.
QUERY_TIMEOUT_S = 10.0


class RecordsUnavailable(Exception):
    """Recorded inferences cannot be read, as Postgres is unavailable."""
