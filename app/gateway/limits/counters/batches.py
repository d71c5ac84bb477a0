"""Batches: the operations of one turn of the event loop are sent together, so that the server reads and writes each bucket once."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from app.gateway.limits.counters.broken_bucket import BrokenBucket
from app.gateway.limits.counters.commands import BucketSet, Operation
from app.store.redis.replies import ReplyWaiter
from app.store.redis.resp import bulk

# The server does nothing else meanwhile, and all replies come when the last operation is done, so a turn with more is split. An
# operation with more buckets than that is sent alone.
MAX_OPERATIONS, MAX_BUCKETS = 32, 160

_EVALSHA = bulk(b"EVALSHA")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Any]).decode


def join_operations(script: bytes, requests: Iterable[tuple[bytes | Operation, ReplyWaiter]]) -> Iterator[tuple[bytes, ReplyWaiter]]:
    """Commands for the requests, in their order: operations are joined, commands stay as they are.

    `script` is the hash of batch.lua.
    """
    batch: _Batch | None = None
    for request, waiter in requests:
        is_operation = type(request) is Operation
        if batch is not None and not (is_operation and batch.has_room_for(request)):
            yield batch.encode(script)
            batch = None
        if not is_operation:
            yield request, waiter
        elif batch is None:
            batch = _Batch(request, waiter)
        else:
            batch.add(request, waiter)
    if batch is not None:
        yield batch.encode(script)


def encode_operation(script: bytes, operation: Operation) -> bytes:
    """The command for an operation that is alone in its turn, as most are."""
    bucket_set, id = operation.bucket_set, operation.reservation_id
    encoded = _encode((bucket_set.lease_ms, bucket_set.bucket_count, (1, *operation.numbers)))
    return b"*%d\r\n$7\r\nEVALSHA\r\n$40\r\n%b\r\n%b%b$%d\r\n%b%b\r\n$%d\r\n%b\r\n%b" % (
        bucket_set.bucket_count + 7,
        script,
        bucket_set.encoded_key_count,
        bucket_set.encoded_keys,
        len(id) + bucket_set.id_offset,
        bucket_set.id_prefix,
        id,
        len(encoded),
        encoded,
        bucket_set.encoded_rules,
    )


class _Batch:
    """Operations that are sent as one command. It gets the reply to several, and gives each waiter its own."""

    __slots__ = ("_bucket_count", "_operations", "_rows", "_waiters")

    def __init__(self, operation: Operation, waiter: ReplyWaiter) -> None:
        self._operations = [operation]
        self._waiters = [waiter]
        self._rows = {operation.bucket_set: 1}
        self._bucket_count = operation.bucket_set.bucket_count

    def has_room_for(self, operation: Operation) -> bool:
        if len(self._operations) >= MAX_OPERATIONS:
            return False
        bucket_set = operation.bucket_set
        return bucket_set in self._rows or self._bucket_count + bucket_set.bucket_count <= MAX_BUCKETS

    def add(self, operation: Operation, waiter: ReplyWaiter) -> None:
        self._operations.append(operation)
        self._waiters.append(waiter)
        if operation.bucket_set not in self._rows:
            self._rows[operation.bucket_set] = len(self._rows) + 1
            self._bucket_count += operation.bucket_set.bucket_count

    def encode(self, script: bytes) -> tuple[bytes, ReplyWaiter]:
        """The command, and who waits for its reply."""
        rows = self._rows
        first = self._operations[0].bucket_set
        if len(self._operations) == 1:
            return encode_operation(script, self._operations[0]), self._waiters[0]
        if len(rows) == 1:
            count, argument_count, keys, arguments = first.bucket_count, 2, first.encoded_keys, first.encoded_rules
        else:
            count, keys, arguments = _encode_rows(rows)
            keys = first.encoded_epoch + keys
            argument_count = 1 + 2 * len(rows)
        operations: list[Any] = [first.lease_ms, count]
        reservations: list[bytes] = []
        for operation in self._operations:
            id = operation.reservation_id
            operations.append((rows[operation.bucket_set], *operation.numbers))
            reservations.append(b"$%d\r\n%b%b\r\n" % (len(id) + first.id_offset, first.id_prefix, id))
        encoded = _encode(operations)
        count += 1 + len(reservations)
        command = b"*%d\r\n%b%b%b%b%b$%d\r\n%b\r\n%b" % (
            3 + count + argument_count,
            _EVALSHA,
            bulk(script),
            bulk(b"%d" % count),
            keys,
            b"".join(reservations),
            len(encoded),
            encoded,
            arguments,
        )
        return command, self

    def done(self) -> bool:
        return False

    def set_result(self, packed_replies: bytes, /) -> None:
        for waiter, reply in zip(self._waiters, _decode(packed_replies), strict=True):
            if waiter.done():
                continue
            if isinstance(reply, str):
                waiter.set_exception(BrokenBucket(reply))
            else:
                waiter.set_result(reply)

    def set_exception(self, exception: Exception, /) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(exception)


def _encode_rows(rows: Iterable[BucketSet]) -> tuple[int, bytes, bytes]:
    """The number of all buckets, their keys, and of each row its rules and the places of its buckets among them."""
    places: dict[bytes, int] = {}
    arguments: list[bytes] = []
    for row in rows:
        row_places = [places.setdefault(key, len(places) + 1) for key in row.keys]
        arguments += row.encoded_rules, bulk(_encode(row_places))
    return len(places), b"".join(map(bulk, places)), b"".join(arguments)
