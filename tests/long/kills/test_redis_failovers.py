"""Limits in a long load test in which Redis's primary is killed again and again, behind Sentinel and in a cluster."""

import asyncio

import pytest

from tests.support.processes import service as services
from tests.support.processes.limits_load import LimitAmounts, LoadTest, start_load_test
from tests.support.processes.valkey_sets import Cluster, SentinelSet, cluster, sentinel_set

__all__ = ["cluster", "sentinel_set"]

# httpx2 leaves a socket to the garbage collector if it is cancelled while it connects.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

_FAILOVERS = 3
_PAUSE_S = 8.0


async def test_limits_hold_and_match_the_records_over_failovers_by_sentinel(sentinel_set: SentinelSet):
    await check_limits_over_failovers(sentinel_set)


async def test_limits_hold_and_match_the_records_over_failovers_of_a_cluster(cluster: Cluster):
    await check_limits_over_failovers(cluster)


async def check_limits_over_failovers(servers: SentinelSet | Cluster) -> None:
    """Every rule has on_outage = "refuse", so that all that is admitted is counted: exactly the recorded tokens, in the end."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("REDIS_URL", servers.url)
        load_test = await start_load_test(LimitAmounts(second=40, hour=3_000, day_tokens=100_000_000, running=5), workers=3)
    try:
        await run_with_failovers(load_test, servers)
        assert load_test.outcomes.answered and load_test.outcomes.refused and load_test.outcomes.unavailable
        load_test.check_rate_windows()
        await load_test.check_concurrency_released()
        await load_test.check_recorded_usage(workers_killed=False)
        await load_test.check_retry_after()
    finally:
        await load_test.engine.stop()
        await asyncio.to_thread(services.stop, load_test.service)


async def run_with_failovers(load_test: LoadTest, servers: SentinelSet | Cluster) -> None:
    load = asyncio.create_task(load_test.run(clients=100, seconds=_FAILOVERS * 3 * _PAUSE_S, kills=[]))
    for _ in range(_FAILOVERS):
        await asyncio.sleep(_PAUSE_S)
        await asyncio.to_thread(servers.fail_over)
    await load
