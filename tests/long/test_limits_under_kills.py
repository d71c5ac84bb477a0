"""Limits in a long storm: four workers, two hundred callers who hang up at random, and kills of workers and of Valkey."""

import asyncio

import pytest

from tests.support import service as services
from tests.support.limits_load import LimitAmounts, start_load_test

# httpx leaves a socket to the collector where it is cancelled while it connects.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


async def test_limits_hold_and_match_the_records_while_valkey_is_killed():
    """No worker is: so what limits count is to the last token what is recorded."""
    storm = await start_load_test(LimitAmounts(second=40, hour=3_000, day_tokens=100_000_000, running=5), workers=4)
    try:
        await storm.run(clients=200, seconds=40, kills=["valkey"] * 4)
        storm.check_rate_windows()
        await storm.check_concurrency_released()
        await storm.check_recorded_usage(workers_killed=False)
        await storm.check_retry_after()
    finally:
        await storm.engine.stop()
        await asyncio.to_thread(services.stop, storm.service)


async def test_limits_hold_while_workers_and_valkey_are_killed():
    storm = await start_load_test(LimitAmounts(second=40, hour=1_000, day_tokens=100_000_000, running=5), workers=4)
    try:
        await storm.run(
            clients=200, seconds=60, kills=["gateway-0", "valkey", "gateway-2", "gateway-1", "valkey", "gateway-3", "gateway-0"]
        )
        assert storm.outcomes.answered and storm.outcomes.refused and storm.outcomes.broken and storm.outcomes.disconnected
        storm.check_rate_windows()
        await storm.check_concurrency_released()
        await storm.check_recorded_usage(workers_killed=True)
    finally:
        await storm.engine.stop()
        await asyncio.to_thread(services.stop, storm.service)
