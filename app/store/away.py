"""What a lost, refused, silent or not yet started Postgres raises, through SQLAlchemy and asyncpg."""

import asyncpg
from sqlalchemy.exc import SQLAlchemyError

AWAY = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, SQLAlchemyError, TimeoutError)

# A server that was stopped, or behind a broken line, refuses nothing: it is silent. Longer than any question of ours takes.
PATIENCE_S = 10.0
