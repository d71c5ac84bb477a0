"""The ledger: what was used according to Postgres, once the writer has stored what this machine's spool holds."""

from collections.abc import Collection, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain.snapshot import Snapshot
from app.process.thread_steps import run_in_steps
from app.recording.spool.spool_progress import wait_until_stored
from app.store.usage import usage
from app.store.usage.by_slot import UsageBySlot, open_usage_by_slot
from app.store.usage.counted_models import OtherNames, find_other_names
from app.store.usage.usage import UsedAmounts
from app.store.workers.reports import list_workers

_TIMEOUT_S = 4.0


class SpoolAwareLedger:
    """Usage of all machines. Other machines' spools are not waited for: they are moments behind, unless Postgres was unavailable."""

    def __init__(self, home: Path, database: AsyncEngine, database_url: str) -> None:
        self._spool = home / "spool"
        self._database = database
        self._database_url = database_url
        self._read_snapshot: Snapshot | None = None
        self._others: Mapping[str, OtherNames] = {}

    async def used(self, scope: Mapping[str, str], since: datetime, snapshot: Snapshot) -> UsedAmounts:
        """Returns what a subject has used since a moment, including every request that ended on this machine
        before the call.

        `snapshot` says which functions and models lead to the model of the scope. Raises one of
        DB_UNAVAILABLE_ERRORS, or TimeoutError if the writer is too far behind.
        """
        if not await self.is_stored():
            raise TimeoutError("The writer is behind.")
        others = (await self._other_names(snapshot)).get(scope["model"]) if "model" in scope else None
        async with self._database.connect() as connection:
            return await usage.read_used(connection, scope, since, others)

    async def _other_names(self, snapshot: Snapshot) -> Mapping[str, OtherNames]:
        if self._read_snapshot is not snapshot:  # many buckets are read after a loss
            self._others = await run_in_steps(lambda: find_other_names(snapshot))
            self._read_snapshot = snapshot
        return self._others

    async def is_stored(self) -> bool:
        """Returns whether every request that had ended on this machine at the call is in Postgres.

        Waits some seconds for the writer. Raises one of DB_UNAVAILABLE_ERRORS.
        """
        return await wait_until_stored(self._spool, self._database, timeout_s=_TIMEOUT_S)

    async def workers(self) -> Collection[str]:
        """Returns the workers of all machines that are alive. Raises one of DB_UNAVAILABLE_ERRORS."""
        async with self._database.connect() as connection:
            return await list_workers(connection)

    def open_usage_by_slot(self) -> AbstractAsyncContextManager[UsageBySlot | None]:
        """Opens the usage of the last hours on all machines, as far as it is stored, or None if another
        process reads it.

        It is read over a connection of its own, as that may take minutes. Raises one of
        DB_UNAVAILABLE_ERRORS.
        """
        return open_usage_by_slot(self._database_url)
