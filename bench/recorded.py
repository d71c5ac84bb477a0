"""Recorded: how many inferences of one phase have reached Postgres, and how fast they arrive once the callers are gone."""

import asyncio
import time
from dataclasses import dataclass

import asyncpg

from app.uuid7 import first_at

LOOK_S = 0.1
QUIET_S = 2.0
PATIENCE_S = 90.0


@dataclass(frozen=True, slots=True)
class Drained:
    """`backlog`: rows that were still in the spool when the load stopped; they took `seconds`. `rows`: all of the phase."""

    rows: int
    backlog: int
    seconds: float


class Recorded:
    """Counts the inferences received since it was made. Each look costs Postgres an index scan of this phase's rows."""

    def __init__(self, database_url: str) -> None:
        self._database_url = database_url
        self._since = first_at(time.time_ns() // 1_000_000)

    def drained(self, expected: int) -> Drained:
        """Returns when nothing has arrived for two seconds and what was expected is there, or after a minute and a half."""
        return asyncio.run(self._drained(expected))

    async def _drained(self, expected: int) -> Drained:
        connection = await asyncpg.connect(self._database_url)
        try:
            began = moved = time.monotonic()
            first = last = await self._count(connection)
            while time.monotonic() - began < PATIENCE_S and (last < expected or time.monotonic() - moved < QUIET_S):
                await asyncio.sleep(LOOK_S)
                count = await self._count(connection)
                if count != last:
                    last, moved = count, time.monotonic()
            return Drained(last, last - first, moved - began)
        finally:
            await connection.close()

    async def _count(self, connection: "asyncpg.Connection[asyncpg.Record]") -> int:
        return int(await connection.fetchval("SELECT count(*) FROM inferences WHERE id >= $1::uuid", self._since))
