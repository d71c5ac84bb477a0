"""Slots for look-ups in Postgres: few of a team at a time, and of all teams fewer than the connections of a worker's pool."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class LookupSlot:
    found_nothing = False


class LookupSlots:
    """A team with many look-ups waits for itself: of those that wait for the worker's slots, it has at most `per_team`.

    A look-up that found nothing keeps the team's slot, and nobody else's, for `pause_s` more.
    """

    def __init__(self, per_team: int, per_worker: int, pause_s: float = 0.0) -> None:
        self._per_team = per_team
        self._pause_s = pause_s
        self._worker = asyncio.Semaphore(per_worker)
        self._teams: dict[str, asyncio.Semaphore] = {}
        self._users: Counter[str] = Counter()

    @asynccontextmanager
    async def slot(self, team_id: str) -> AsyncGenerator["LookupSlot"]:
        team = self._teams.setdefault(team_id, asyncio.Semaphore(self._per_team))
        self._users[team_id] += 1
        try:
            async with team:
                slot = LookupSlot()
                async with self._worker:
                    yield slot
                if slot.found_nothing:
                    await asyncio.sleep(self._pause_s)
        finally:
            self._users[team_id] -= 1
            if not self._users[team_id]:
                del self._users[team_id], self._teams[team_id]
