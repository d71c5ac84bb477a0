"""Operations are joined to batches in their order, and each gets its own reply."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from app.gateway.limits.counters.batches import MAX_BUCKETS, MAX_OPERATIONS, join_operations
from app.gateway.limits.counters.broken_bucket import BrokenBucket
from app.gateway.limits.counters.commands import BucketSet, Operation
from app.store.redis.replies import RedisUnavailable, ReplyWaiter

ONE = (1, 0, 0, 0, 0, 1)


def bucket_set(*names: str) -> BucketSet:
    return BucketSet(1000, [name.encode() for name in names], [0] * 7 * len(names))


def join(*requests: bytes | Operation) -> tuple[list[Any], list[asyncio.Future[Any]], list[ReplyWaiter]]:
    """Returns what is sent (of a batch: the reservations of its operations), the futures of all requests, and who waits for what."""
    futures: list[asyncio.Future[Any]] = [asyncio.get_running_loop().create_future() for _ in requests]
    sent: list[Any] = []
    waiters: list[ReplyWaiter] = []
    for command, waiter in join_operations(b"hash", zip(requests, futures, strict=True)):
        sent.append([part[5:].decode() for part in command.split(b"\r\n") if part.startswith(b"nx:t:")] or command)
        waiters.append(waiter)
    return sent, futures, waiters


def takes(buckets: BucketSet, ids: Sequence[str]) -> list[Operation]:
    return [buckets.take(id.encode(), ONE) for id in ids]


async def test_commands_between_operations_keep_their_place():
    buckets = bucket_set("x")
    a, b, c = takes(buckets, "abc")
    assert join(a, b, b"renew", c, b"time", b"seed")[0] == [["a", "b"], b"renew", ["c"], b"time", b"seed"]


async def test_operations_beyond_the_bounds_of_a_batch_are_in_the_next():
    few, many = bucket_set("x", "y"), bucket_set(*map(str, range(MAX_BUCKETS + 1)))
    sent, _, _ = join(*takes(few, "ab"), *takes(many, "c"), *takes(few, "d"))
    assert sent == [["a", "b"], ["c"], ["d"]]
    sent, _, _ = join(*takes(few, list(map(str, range(MAX_OPERATIONS + 1)))))
    assert [len(ids) for ids in sent] == [MAX_OPERATIONS, 1]


async def test_each_operation_gets_its_own_reply_or_error():
    _, (first, cancelled, broken, settled), (waiter,) = join(
        *takes(bucket_set("x"), "ab"), *takes(bucket_set("y", "x"), "c"), bucket_set("x").settle(b"d", ONE)
    )
    cancelled.cancel()
    waiter.set_result(msgspec.msgpack.encode([[0, 1, 2], [0, 1, 2], "BROKEN it is no bucket", 1]))
    assert (first.result(), settled.result()) == ([0, 1, 2], 1)
    with pytest.raises(BrokenBucket, match="it is no bucket"):
        broken.result()


async def test_all_operations_of_a_batch_learn_that_the_connection_is_lost():
    _, (first, cancelled, last), (waiter,) = join(*takes(bucket_set("x"), "abc"))
    cancelled.cancel()
    waiter.set_exception(RedisUnavailable("lost"))
    assert all(isinstance(future.exception(), RedisUnavailable) for future in (first, last))
