"""The ledger: what was used according to Postgres, once the writer has stored what this machine's spool holds."""

from collections.abc import Collection, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncEngine

from app.recording.spool_progress import wait_until_stored
from app.store import usage
from app.store.callers import list_workers
from app.store.usage import UsedAmounts
from app.store.usage_by_slot import UsageBySlot, open_usage_by_slot

_TIMEOUT_S = 4.0


class SpoolAwareLedger:
    """Usage of all machines. Other machines' spools are not waited for: they are moments behind, unless Postgres was unavailable."""

    def __init__(self, home: Path, database: AsyncEngine, database_url: str) -> None:
        self._spool = home / "spool"
        self._database = database
        self._database_url = database_url

    async def used(self, scope: Mapping[str, str], since: datetime) -> UsedAmounts:
        """What a subject has used since a moment, including every request that had ended on this machine before the call.

        Raises one of DB_UNAVAILABLE_ERRORS, or TimeoutError if the writer is too far behind.
        """
        if not await self.is_stored():
            raise TimeoutError("The writer is behind.")
        async with self._database.connect() as connection:
            return await usage.read_used(connection, scope, since)

    async def is_stored(self) -> bool:
        """Whether every request that had ended on this machine at the call is in Postgres; waits some seconds for the writer.

        Raises one of DB_UNAVAILABLE_ERRORS.
        """
        return await wait_until_stored(self._spool, self._database, timeout_s=_TIMEOUT_S)

    async def workers(self) -> Collection[str]:
        """The workers of all machines that are alive. Raises one of DB_UNAVAILABLE_ERRORS."""
        async with self._database.connect() as connection:
            return await list_workers(connection)

    def open_usage_by_slot(self) -> AbstractAsyncContextManager[UsageBySlot | None]:
        """Usage of the last hours on all machines, as far as it is stored; None: another process reads it.

        On a connection of its own, as it may take minutes. Raises one of DB_UNAVAILABLE_ERRORS.
        """
        return open_usage_by_slot(self._database_url)
