"""The ledger: what was used, by Postgres, once the writer has put there what this machine's spool still holds."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncEngine

from app.record.written import spool_written
from app.store import usage
from app.store.usage import Used

_PATIENCE_S = 4.0


class Ledger:
    """Of all machines; but what other machines' spools hold is not waited for: it is moments behind, unless Postgres was away."""

    def __init__(self, home: Path, database: AsyncEngine) -> None:
        self._spool = home / "spool"
        self._database = database

    async def used(self, scope: Mapping[str, str], since: datetime) -> Used:
        """Includes all that had ended here before this was asked. Raises one of away.AWAY, TimeoutError if the writer is too far behind."""
        if not await spool_written(self._spool, self._database, patience_s=_PATIENCE_S):
            raise TimeoutError("The writer is behind.")
        async with self._database.connect() as connection:
            return await usage.used(connection, scope, since)
