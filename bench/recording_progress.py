"""RecordingProgress: how many inferences of a phase have reached Postgres, and how fast the backlog drains after the load."""

import asyncio
import time
from dataclasses import dataclass

import asyncpg

from app.domain.uuid7 import lowest_at

POLL_S = 0.1
QUIET_S = 2.0
TIMEOUT_S = 90.0


@dataclass(frozen=True, slots=True)
class DrainResult:
    """How long the writer took for what was left when the load stopped."""

    rows: int  # all inferences of the phase
    backlog: int  # those still in the spool when the load stopped
    seconds: float  # that the backlog took to drain


class RecordingProgress:
    """Counts the inferences since its creation. Each count costs Postgres an index scan of the phase's rows."""

    def __init__(self, database_url: str) -> None:
        self._database_url = database_url
        self._since = lowest_at(time.time_ns() // 1_000_000)

    def wait_until_drained(self, expected: int) -> DrainResult:
        """Returns once `expected` rows have arrived and none more for two seconds, or after 90 s."""
        return asyncio.run(self._wait_until_drained(expected))

    async def _wait_until_drained(self, expected: int) -> DrainResult:
        connection = await asyncpg.connect(self._database_url)
        try:
            started_at = last_change = time.monotonic()
            first = last = await self._count(connection)
            while time.monotonic() - started_at < TIMEOUT_S and (last < expected or time.monotonic() - last_change < QUIET_S):
                await asyncio.sleep(POLL_S)
                count = await self._count(connection)
                if count != last:
                    last, last_change = count, time.monotonic()
            return DrainResult(last, last - first, last_change - started_at)
        finally:
            await connection.close()

    async def _count(self, connection: "asyncpg.Connection[asyncpg.Record]") -> int:
        return int(await connection.fetchval("SELECT count(*) FROM inferences WHERE id >= $1::uuid", self._since))
