"""The ledger: what was used according to Postgres, once the writer has stored what this machine's spool holds."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncEngine

from app.recording.spool_progress import wait_until_stored
from app.store import usage
from app.store.usage import UsedAmounts

_TIMEOUT_S = 4.0


class SpoolAwareLedger:
    """Usage of all machines. Other machines' spools are not waited for: they are moments behind, unless Postgres was unavailable."""

    def __init__(self, home: Path, database: AsyncEngine) -> None:
        self._spool = home / "spool"
        self._database = database

    async def used(self, scope: Mapping[str, str], since: datetime) -> UsedAmounts:
        """What a subject has used since a moment, including every request that had ended on this machine before the call.

        Raises one of DB_UNAVAILABLE_ERRORS, or TimeoutError if the writer is too far behind.
        """
        if not await wait_until_stored(self._spool, self._database, timeout_s=_TIMEOUT_S):
            raise TimeoutError("The writer is behind.")
        async with self._database.connect() as connection:
            return await usage.read_used(connection, scope, since)
