"""Limits in a long load test: four workers, two hundred callers that disconnect at random, kills of workers and Valkey,
and connections to Postgres that it ends."""

import asyncio

import pytest

from tests.support.processes import service as services
from tests.support.processes.limits_load import LimitAmounts, start_load_test

# httpx2 leaves a socket to the garbage collector if it is cancelled while it connects.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


async def test_limits_hold_and_match_the_records_while_valkey_and_connections_are_killed():
    """No worker is killed, so limits count exactly the recorded tokens."""
    load_test = await start_load_test(LimitAmounts(second=40, hour=3_000, day_tokens=100_000_000, running=5), workers=4)
    try:
        await load_test.run(clients=200, seconds=40, kills=["valkey", "connections"] * 4)
        load_test.check_rate_windows()
        await load_test.check_concurrency_released()
        await load_test.check_recorded_usage(workers_killed=False)
        await load_test.check_retry_after()
    finally:
        await load_test.engine.stop()
        await asyncio.to_thread(services.stop, load_test.service)


async def test_limits_hold_while_workers_and_valkey_are_killed():
    load_test = await start_load_test(LimitAmounts(second=40, hour=1_000, day_tokens=100_000_000, running=5), workers=4)
    try:
        await load_test.run(
            clients=200, seconds=60, kills=["gateway-0", "valkey", "gateway-2", "gateway-1", "valkey", "gateway-3", "gateway-0"]
        )
        assert load_test.outcomes.answered and load_test.outcomes.refused and load_test.outcomes.broken and load_test.outcomes.disconnected
        load_test.check_rate_windows()
        await load_test.check_concurrency_released()
        await load_test.check_recorded_usage(workers_killed=True)
    finally:
        await load_test.engine.stop()
        await asyncio.to_thread(services.stop, load_test.service)
