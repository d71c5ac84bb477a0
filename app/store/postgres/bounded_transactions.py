"""Transactions of background work: Postgres itself bounds how long their statements take, and how long they wait for others' locks.

The bounds are set in each transaction. Those of a session would stay with it, and a pooler gives the session to somebody else.
"""

import contextlib
from collections.abc import AsyncGenerator

from app.store.postgres.partitions import Connection

STATEMENT_TIMEOUT_S = 60.0
# Shorter than Postgres's deadlock_timeout: in a conflict with a writer or an erasure, background work gives way.
LOCK_TIMEOUT_S = 0.5


@contextlib.asynccontextmanager
async def bounded_transaction(
    connection: Connection, *, statement_timeout_s: float | None = None, lock_timeout_s: float = LOCK_TIMEOUT_S
) -> AsyncGenerator[None]:
    """Statements in it raise one of TOO_LONG_ERRORS or BUSY_ERRORS where they exceed a bound; None: STATEMENT_TIMEOUT_S."""
    statement_ms = 1000 * (STATEMENT_TIMEOUT_S if statement_timeout_s is None else statement_timeout_s)
    async with connection.transaction():
        await connection.execute(f"SET LOCAL statement_timeout = {statement_ms:.0f}; SET LOCAL lock_timeout = {lock_timeout_s * 1000:.0f}")
        yield
