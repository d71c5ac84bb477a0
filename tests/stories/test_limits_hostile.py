"""Limits in a storm: callers who hang up, and a Valkey that is killed, on two workers. tests/long has the same at full strength."""

import asyncio

from tests.stories import service as services
from tests.stories.storm import Rules, started


async def test_no_rule_gives_way_in_a_storm():
    storm = await started(Rules(second=20, hour=60, day_tokens=10_000_000, running=3), workers=2)
    try:
        await storm.blow(clients=24, seconds=3, kills=["valkey"])
        assert storm.told.answered and storm.told.refused and storm.told.hung_up
        storm.check_windows()
        await storm.check_free()
        await storm.check_books(lost=False)
    finally:
        await storm.engine.stop()
        await asyncio.to_thread(services.stop, storm.service)
