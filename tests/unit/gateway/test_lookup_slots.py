"""Slots for look-ups: a team with very many of them holds few at a time, and another team's look-up waits for few of them."""

import asyncio

from app.gateway.responses_state.lookup_slots import LookupSlots

PER_TEAM, PER_WORKER = 2, 3


class Lookups:
    """Look-ups that end when they are let go. `running` and `ended` hold the teams of each."""

    def __init__(self) -> None:
        self.slots = LookupSlots(PER_TEAM, PER_WORKER)
        self.running: list[str] = []
        self.ended: list[str] = []
        self.max_running = 0
        self.max_running_of_team = 0

    async def look_up(self, team: str) -> None:
        async with self.slots.slot(team):
            self.running.append(team)
            self.max_running = max(self.max_running, len(self.running))
            self.max_running_of_team = max(self.max_running_of_team, self.running.count(team))
            await asyncio.sleep(0)
            self.running.remove(team)
            self.ended.append(team)


async def test_team_with_400_lookups_delays_another_by_few() -> None:
    lookups = Lookups()
    flood = [asyncio.create_task(lookups.look_up("flooding")) for _ in range(400)]
    await asyncio.sleep(0)
    await lookups.look_up("other")
    assert len(lookups.ended) <= 2 * PER_TEAM + 1
    await asyncio.gather(*flood)
    assert (lookups.max_running_of_team, lookups.max_running) == (PER_TEAM, PER_WORKER)


async def test_cancelled_lookups_hold_no_slot() -> None:
    lookups = Lookups()
    flood = [asyncio.create_task(lookups.look_up("flooding")) for _ in range(20)]
    await asyncio.sleep(0)
    for each in flood:
        each.cancel()
    await asyncio.gather(*flood, return_exceptions=True)
    async with asyncio.timeout(10):
        await asyncio.gather(*(lookups.look_up("flooding") for _ in range(PER_TEAM + 1)))
