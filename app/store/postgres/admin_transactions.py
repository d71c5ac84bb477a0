"""Transactions of the admin API: bound in time by Postgres itself, with its errors in the words of callers."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from providers.canonical.errors import Conflict, InvalidRequest, Unavailable

log = logging.getLogger(__name__)

_QUERY_CANCELED = "57014"
_DEADLOCK = "40P01"
_INVALID_DATA = "22"  # the class of errors of values that a column cannot hold

# In the transaction alone: a setting of the session would stay with a pooled connection.
_SETTINGS = text("SELECT set_config('statement_timeout', :timeout, true), set_config('transaction_read_only', :read_only, true)")


@asynccontextmanager
async def admin_transaction(
    database: AsyncEngine, timeout_s: float, *, read_only: bool, one_moment: bool = False
) -> AsyncGenerator[AsyncConnection]:
    """A transaction that is committed at the end, unless it was rolled back.

    Each statement may take `timeout_s`, and all together thrice that. With `one_moment` all its statements see what was stored when it
    began.

    Raises Unavailable for a statement that takes too long, Conflict for a deadlock, InvalidRequest for a value that cannot be stored, and
    one of DB_UNAVAILABLE_ERRORS.
    """
    settings = {"timeout": str(int(timeout_s * 1000)), "read_only": "on" if read_only else "off"}
    limit: asyncio.Timeout | None = None
    try:
        async with asyncio.timeout(3 * timeout_s) as limit, database.connect() as connection:
            if one_moment:
                await connection.execution_options(isolation_level="REPEATABLE READ")
            await connection.execute(_SETTINGS, settings)
            yield connection
            if connection.in_transaction():
                await connection.commit()
    except TimeoutError:
        if limit is not None and limit.expired():
            log.warning("the database did not answer in time", extra={"timeout_s": 3 * timeout_s})
            raise Unavailable(
                f"The gateway's database did not do this within {3 * timeout_s:g} seconds: it does not answer, or it was too much at once.",
                retry_after_s=2,
            ) from None
        raise
    except DBAPIError as fault:
        state = str(getattr(fault.orig, "sqlstate", None) or "")
        if state == _QUERY_CANCELED:
            raise Unavailable(
                f"Postgres did not answer within {timeout_s:g} seconds. If the question is large, narrow it by a filter.", retry_after_s=2
            ) from None
        if state == _DEADLOCK:
            raise Conflict("Another change was in the way: send the request again.") from None
        if state.startswith(_INVALID_DATA):
            log.warning("a value could not be stored", extra={"sqlstate": state})
            raise InvalidRequest("A value is out of the range that can be stored.") from None
        raise
