"""A cluster of real servers: limits are in one slot and exact, everything else is spread; slots move, and a primary is killed."""

import asyncio
import contextlib
from typing import Any

import pytest

from app.doctor import redis
from app.domain.limits import Limit
from app.gateway.limits.usage_amounts import ActualUsage
from app.recording.erasure.copies import CopyStore
from app.store.redis.idempotent_responses import ClaimRequest, IdempotencyStore, claim_key
from app.store.redis.response_cache import CachedResponse, ResponseCache, ResponseCacheUnavailable
from app.store.redis.slots import key_slot
from tests.integration.limits.test_limits_redis import MakeWorker, make_worker
from tests.support.processes.postgres import Postgres
from tests.support.processes.valkey import valkey, valkey_server
from tests.support.processes.valkey_sets import LIMITS_SLOT, Cluster, cluster
from tests.support.processes.wait_until import wait_until

__all__ = ["cluster", "make_worker", "valkey", "valkey_server"]

RULES = (
    Limit("hour", {"team": "each"}, "requests", 9, "hour", on_outage="refuse"),
    Limit("day", {"model": "each"}, "requests", 9, "day", on_outage="refuse"),
    Limit("three", {"all": "each"}, "concurrency", 3, on_outage="refuse"),
)
STORED = CachedResponse("team", b"request", b"response")
IDS = [f"01900000-0000-7000-8000-{number:012}" for number in range(60)]


@pytest.fixture(scope="module")
async def one_database(postgres: Postgres) -> str:
    await postgres.execute("CREATE DATABASE test_cluster TEMPLATE migrated")
    return postgres.database_url("test_cluster")


async def test_limits_of_all_scopes_are_exact_in_one_slot(make_worker: MakeWorker, cluster: Cluster):
    workers = [await make_worker(*RULES, url=cluster.url) for _ in range(2)]
    admitted = await asyncio.gather(*(worker.reserve_many(5) for worker in workers))
    assert sum(map(len, admitted)) == 3
    keys = [key for node in cluster.primaries for key in node.client.keys("*")]
    assert len(keys) >= 7 and {key_slot(key.encode()) for key in keys} == {LIMITS_SLOT}
    assert all(key.startswith("{nx}nx:") for key in keys)


async def test_limits_follow_their_slot_to_another_node_and_lose_nothing(make_worker: MakeWorker, cluster: Cluster):
    worker = await make_worker(*RULES, url=cluster.url)
    held = await worker.reserve()
    owner = cluster.owner(LIMITS_SLOT)
    await asyncio.to_thread(cluster.move_slot, LIMITS_SLOT, next(node for node in cluster.primaries if node is not owner))
    await wait_until(lambda: worker.limits.is_redis_up)
    remaining = None
    async with asyncio.timeout(60):
        while remaining is None:
            with contextlib.suppress(Exception):
                remaining = await worker.remaining("hour")
            await asyncio.sleep(0.1)
    assert remaining == 8 and len(await worker.reserve_many(5)) == 2
    worker.limits.settle(held, ActualUsage())
    await wait_until(lambda: not worker.limits.pending_count)
    assert len(await worker.reserve_many(5)) == 1


async def test_limits_stay_exact_when_their_node_dies(make_worker: MakeWorker, cluster: Cluster):
    workers = [await make_worker(*RULES, url=cluster.url) for _ in range(2)]
    held = [await worker.reserve() for worker in workers]
    cluster.owner(LIMITS_SLOT).kill()
    await wait_until(lambda: not any(worker.limits.is_redis_up for worker in workers))
    await wait_until(lambda: all(worker.limits.is_redis_up for worker in workers))
    assert cluster.replica.is_primary()
    assert await workers[0].remaining("hour") == 7 and len(await workers[1].reserve_many(5)) == 1
    for worker, reservation in zip(workers, held, strict=True):
        worker.limits.settle(reservation, ActualUsage())
    await wait_until(lambda: not any(worker.limits.pending_count for worker in workers))
    assert len(await workers[0].reserve_many(5)) == 2


async def test_responses_are_spread_found_after_their_slot_moved_and_erased_on_every_node(cluster: Cluster):
    cache = ResponseCache(cluster.url, keep_s=600, timeout_s=5)
    claims = IdempotencyStore(cluster.url, keep_s=600, lease_s=60, grace_s=1, timeout_s=5)
    try:
        for id in IDS:
            await cache.put(id, STORED, [f"item {id}", "of several"])
        assert all(node.client.keys("nx:r:*") for node in cluster.primaries), "each node has some"
        slot = key_slot(b"nx:r:" + IDS[0].encode())
        owner = cluster.owner(slot)
        await asyncio.to_thread(cluster.move_slot, slot, next(node for node in cluster.primaries if node is not owner))
        assert [await cache.get(id) for id in IDS] == [STORED] * len(IDS)
        assert await cache.find_by_item_ids("team", ["of several", f"item {IDS[7]}"]) == ["several", IDS[7]]
        claim = ClaimRequest(claim_key("a"), "owner", "digest", IDS[0], "spool")
        assert (await claims.claim(claim)).state == "claimed" and await claims.renew([claim]) == [True]
        await claims.mark_stored("spool", 0)
        assert await claims.stored_until_ms("spool") > 0

        async def find_erased(ids: Any) -> Any:
            return set(ids) & set(IDS[:40])

        async with CopyStore(cluster.url) as copies:
            assert (await copies.erase(find_erased))["stored_responses"] == 40
            assert not await copies.count(find_erased)
        assert [await cache.get(id) is not None for id in IDS] == [False] * 40 + [True] * 20
    finally:
        await cache.close()
        await claims.close()


async def test_key_is_found_while_its_slot_moves_key_by_key(cluster: Cluster):
    """Servers before Valkey 9 move slots so: the old owner answers ASK for keys that have gone."""
    cache = ResponseCache(cluster.url, keep_s=600, timeout_s=5)
    try:
        await cache.put(IDS[0], STORED)
        key = f"nx:r:{IDS[0]}"
        slot = key_slot(key.encode())
        owner = cluster.owner(slot)
        to = next(node for node in cluster.primaries if node is not owner)
        to.run("CLUSTER", "SETSLOT", slot, "IMPORTING", owner.run("CLUSTER", "MYID"))
        owner.run("CLUSTER", "SETSLOT", slot, "MIGRATING", to.run("CLUSTER", "MYID"))
        owner.run("MIGRATE", "127.0.0.1", to.port, key, 0, 5000)
        assert await cache.get(IDS[0]) == STORED
        for node in (to, owner):
            node.run("CLUSTER", "SETSLOT", slot, "NODE", to.run("CLUSTER", "MYID"))
        assert await cache.get(IDS[0]) == STORED
    finally:
        await cache.close()


async def test_doctor_knows_a_cluster_and_says_if_it_is_named_as_a_server(cluster: Cluster):
    owner = cluster.owner(LIMITS_SLOT)
    (fine,) = redis.diagnose(await redis.collect_facts(cluster.url))
    assert fine.severity == "ok" and f"3 primaries; 127.0.0.1:{owner.port} has the limits, and a replica" in fine.message
    (named,) = redis.diagnose(await redis.collect_facts(f"redis://127.0.0.1:{owner.port}"))
    assert named.severity == "error" and "redis+cluster://" in (named.advice or "")
    slot = key_slot(b"nx:r:any")
    slot_owner = cluster.owner(slot)
    slot_owner.run("CLUSTER", "DELSLOTS", slot)
    findings = redis.diagnose(await redis.collect_facts(f"redis+cluster://127.0.0.1:{slot_owner.port}"))
    assert "1 have no owner" in findings[0].message


async def test_responses_of_a_node_that_died_are_served_by_its_replica(cluster: Cluster):
    cache = ResponseCache(cluster.url, keep_s=600, timeout_s=1)
    try:
        for id in IDS:
            await cache.put(id, STORED)
        cluster.owner(LIMITS_SLOT).kill()
        found = 0
        async with asyncio.timeout(60):
            while found < len(IDS):
                with contextlib.suppress(ResponseCacheUnavailable):
                    found = sum([await cache.get(id) == STORED for id in IDS])
                await asyncio.sleep(0.2)
    finally:
        await cache.close()
