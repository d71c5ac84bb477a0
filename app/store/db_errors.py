"""What a lost, refused, silent or not yet started Postgres raises, through SQLAlchemy and asyncpg."""

import asyncpg
from sqlalchemy.exc import SQLAlchemyError

DB_UNAVAILABLE_ERRORS = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, SQLAlchemyError, TimeoutError)

# A server that was stopped, or behind a broken line, refuses nothing: it is silent. Longer than any question of ours takes.
QUERY_TIMEOUT_S = 10.0
