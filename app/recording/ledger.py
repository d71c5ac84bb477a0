"""The ledger: what was used, by Postgres, once the writer has put there what this machine's spool still holds."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncEngine

from app.recording.spool_progress import wait_until_stored
from app.store import usage
from app.store.usage import UsedAmounts

_TIMEOUT_S = 4.0


class SpoolAwareLedger:
    """Of all machines; but what other machines' spools hold is not waited for: it is moments behind, unless Postgres was away."""

    def __init__(self, home: Path, database: AsyncEngine) -> None:
        self._spool = home / "spool"
        self._database = database

    async def used(self, scope: Mapping[str, str], since: datetime) -> UsedAmounts:
        """Includes all that had ended here before this was asked. Raises one of away.AWAY, TimeoutError if the writer is too far behind."""
        if not await wait_until_stored(self._spool, self._database, timeout_s=_TIMEOUT_S):
            raise TimeoutError("The writer is behind.")
        async with self._database.connect() as connection:
            return await usage.read_used(connection, scope, since)
