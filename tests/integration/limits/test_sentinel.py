"""Redis behind Sentinel: real servers, whose primary is killed while requests are counted and responses are kept."""

import asyncio
import contextlib
from typing import Any

import msgspec
import pytest
import redis as redis_py

from app.doctor import redis
from app.domain.limits import Limit
from app.gateway.limits.usage_amounts import ActualUsage
from app.store.redis.redis_client import RedisClient
from app.store.redis.replies import RedisUnavailable
from app.store.redis.response_cache import CachedResponse, ResponseCache, ResponseCacheUnavailable
from tests.integration.limits.test_limits_redis import MakeWorker, make_worker
from tests.support.processes.postgres import Postgres
from tests.support.processes.valkey import valkey, valkey_server
from tests.support.processes.valkey_sets import SERVICE, SentinelSet, sentinel_set
from tests.support.processes.wait_until import wait_until

__all__ = ["make_worker", "sentinel_set", "valkey", "valkey_server"]

RULES = (Limit("hour", {"team": "each"}, "requests", 9, "hour", on_outage="refuse"), Limit("three", {"team": "each"}, "concurrency", 3))


@pytest.fixture(scope="module")
async def one_database(postgres: Postgres) -> str:
    await postgres.execute("CREATE DATABASE test_sentinel TEMPLATE migrated")
    return postgres.database_url("test_sentinel")


async def test_limits_stay_exact_over_a_failover_and_requests_in_flight_stay_counted(make_worker: MakeWorker, sentinel_set: SentinelSet):
    workers = [await make_worker(*RULES, url=sentinel_set.url) for _ in range(2)]
    first, second = workers
    held = [await first.reserve(), await second.reserve()]
    for _ in range(3):
        first.limits.settle(await first.reserve(), ActualUsage())
    await wait_until(lambda: not first.limits.pending_count)
    # What is in flight is counted again in a primary that lacks it.
    replica = next(server for server in sentinel_set.servers if server is not sentinel_set.primary)
    sentinel_set.primary.kill()
    await wait_until(lambda: not any(worker.limits.is_redis_up for worker in workers))
    await wait_until(lambda: all(worker.limits.is_redis_up for worker in workers))
    assert replica.is_primary()
    assert await second.remaining("hour") == 4 and await first.remaining("three") == 1
    assert len(await second.reserve_many(5)) == 1, "a place of three, and four requests of the hour are left"
    for worker, reservation in zip(workers, held, strict=True):
        worker.limits.settle(reservation, ActualUsage())
    await wait_until(lambda: not any(worker.limits.pending_count for worker in workers))
    assert len(await first.reserve_many(5)) == 2


async def test_reservation_that_a_new_primary_never_got_is_counted_by_it(make_worker: MakeWorker, sentinel_set: SentinelSet):
    worker = await make_worker(*RULES, url=sentinel_set.url)
    await worker.reserve()
    replica = next(server for server in sentinel_set.servers if server is not sentinel_set.primary)
    await wait_until(lambda: bool(replica.client.keys("nx:t:*")))
    # As if the replica had been cut off a moment before the failure: it knows the epoch, and not this reservation.
    replica.run("CONFIG", "SET", "replica-read-only", "no")
    for key in replica.client.keys("nx:[tl]:*"):
        replica.client.delete(key)
    sentinel_set.primary.kill()
    await wait_until(lambda: not worker.limits.is_redis_up)
    await wait_until(lambda: worker.limits.is_redis_up)
    assert await worker.remaining("hour") == 8 and await worker.remaining("three") == 2


async def test_request_that_ended_is_counted_once_by_a_primary_that_has_it_and_by_one_that_lacks_it(
    make_worker: MakeWorker, sentinel_set: SentinelSet
):
    worker = await make_worker(*RULES, url=sentinel_set.url)
    replica = next(server for server in sentinel_set.servers if server is not sentinel_set.primary)
    known, missing = [await worker.reserve() for _ in range(2)]
    for reservation in (known, missing):
        worker.limits.settle(reservation, ActualUsage())
    await wait_until(lambda: not worker.limits.pending_count)
    await wait_until(lambda: replica.client.get(f"nx:t:{missing.id.decode()}") == "x")
    # As if it had been cut off before the second request, of which nothing is known then.
    replica.run("CONFIG", "SET", "replica-read-only", "no")
    window = next(key for key in replica.client.keys("nx:l:*") if replica.client.type(key) == "string")
    connection: Any = redis_py.Redis(port=replica.port)
    numbers = msgspec.msgpack.decode(connection.get(window))
    position = next(index for index in range(1, 18) if numbers[index])
    numbers[position] -= 1
    connection.set(window, msgspec.msgpack.encode(numbers), keepttl=True)
    connection.delete(f"nx:t:{missing.id.decode()}")
    connection.close()
    sentinel_set.primary.kill()
    await wait_until(lambda: not worker.limits.is_redis_up)
    await wait_until(lambda: worker.limits.is_redis_up)
    assert await worker.remaining("hour") == 7 and await worker.remaining("three") == 3


async def test_stored_responses_are_found_after_a_failover(sentinel_set: SentinelSet):
    cache = ResponseCache(sentinel_set.url, keep_s=600, timeout_s=1)
    stored = CachedResponse("team", b"request", b"response")
    try:
        await cache.put("id", stored, ["item"])
        sentinel_set.primary.kill()
        found = None
        async with asyncio.timeout(60):
            while found is None:
                with contextlib.suppress(ResponseCacheUnavailable):
                    found = await cache.get("id")
                await asyncio.sleep(0.2)
        assert found == stored and await cache.find_by_item_ids("team", ["item", "other"]) == ["id", None]
    finally:
        await cache.close()


async def test_primary_that_was_replaced_while_it_answers_is_left(make_worker: MakeWorker, sentinel_set: SentinelSet):
    worker = await make_worker(*RULES, url=sentinel_set.url)
    before = sentinel_set.primary
    after = next(server for server in sentinel_set.servers if server is not before)
    await worker.reserve()
    sentinel_set.sentinels[0].run("SENTINEL", "FAILOVER", SERVICE)
    await wait_until(lambda: after.is_primary() and not before.is_primary())
    await wait_until(lambda: any(client["cmd"] == "evalsha" for client in after.client.client_list()))
    await wait_until(lambda: worker.limits.is_redis_up)
    assert len(await worker.reserve_many(5)) == 2


async def test_doctor_says_how_the_primary_is_found_and_what_is_missing(sentinel_set: SentinelSet):
    (fine,) = redis.diagnose(await redis.collect_facts(sentinel_set.url))
    assert fine.severity == "ok" and f"3 Sentinels name 127.0.0.1:{sentinel_set.primary.port} as the primary" in fine.message
    sentinel_set.sentinels[0].kill()
    primary = sentinel_set.primary
    next(server for server in sentinel_set.servers if server is not primary).kill()
    await wait_until(lambda: not primary.run("ROLE")[2])
    findings = redis.diagnose(await redis.collect_facts(sentinel_set.url))
    assert [each.severity for each in findings] == ["warning", "warning"]
    assert f"127.0.0.1:{sentinel_set.sentinels[0].port}" in findings[0].message and "no replica" in findings[1].message
    unknown = await redis.collect_facts(sentinel_set.url.replace(f"/{SERVICE}", "/other"))
    assert unknown.fault and "'other'" in unknown.fault


async def test_service_that_no_sentinel_knows_is_named_in_the_error(sentinel_set: SentinelSet):
    client = RedisClient(sentinel_set.url.replace(f"/{SERVICE}", "/other"), 1)
    with pytest.raises(RedisUnavailable, match="No Sentinel knows a primary 'other'"):
        await client.run(b"a", b"*1\r\n$4\r\nPING\r\n")
    await client.close()
