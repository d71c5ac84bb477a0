"""Use of limits: which of them requests have matched, noted in memory and written to Postgres now and then.

It is for a report of limits that no request has matched.
"""

import asyncio
from collections.abc import Callable, Collection

from sqlalchemy.ext.asyncio import AsyncEngine

from app.process.background_tasks import BackgroundTask
from app.store.limits.limit_matches import store_matches
from app.store.postgres.db_errors import DB_UNAVAILABLE_ERRORS

_EVERY_S = 10.0


class RuleUse:
    """Stores which limits are matched. `take_names` returns the names of those matched since its last call."""

    def __init__(self, database: AsyncEngine, take_names: Callable[[], Collection[str]]) -> None:
        self.background_task = BackgroundTask("matched limits", self._keep_storing)
        self._database = database
        self._take_names = take_names
        self._unstored: set[str] = set()

    async def store(self) -> None:
        """Stores the names of matched limits. What cannot be stored now is stored the next time."""
        self._unstored.update(self._take_names())
        if not self._unstored:
            return
        names = sorted(self._unstored)
        try:
            async with self._database.begin() as connection:
                await store_matches(connection, names)
        except DB_UNAVAILABLE_ERRORS:
            return
        self._unstored.difference_update(names)

    async def _keep_storing(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            await self.store()
