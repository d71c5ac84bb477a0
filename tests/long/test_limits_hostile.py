"""Limits in a long storm: four workers, two hundred callers who hang up at random, and kills of workers and of Valkey."""

import asyncio

import pytest

from tests.stories import service as services
from tests.stories.storm import Rules, started

# httpx leaves a socket to the collector where it is cancelled while it connects.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


async def test_no_rule_gives_way_while_valkey_is_killed():
    """No worker is: so what limits count is to the last token what is recorded."""
    storm = await started(Rules(second=40, hour=3_000, day_tokens=100_000_000, running=5), workers=4)
    try:
        await storm.blow(clients=200, seconds=40, kills=["valkey"] * 4)
        storm.check_windows()
        await storm.check_free()
        await storm.check_books(lost=False)
        await storm.check_retry_after()
    finally:
        await storm.engine.stop()
        await asyncio.to_thread(services.stop, storm.service)


async def test_no_rule_gives_way_while_workers_and_valkey_are_killed():
    storm = await started(Rules(second=40, hour=1_000, day_tokens=100_000_000, running=5), workers=4)
    try:
        await storm.blow(
            clients=200, seconds=60, kills=["gateway-0", "valkey", "gateway-2", "gateway-1", "valkey", "gateway-3", "gateway-0"]
        )
        assert storm.told.answered and storm.told.refused and storm.told.broken and storm.told.hung_up
        storm.check_windows()
        await storm.check_free()
        await storm.check_books(lost=True)
    finally:
        await storm.engine.stop()
        await asyncio.to_thread(services.stop, storm.service)
