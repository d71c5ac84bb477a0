"""The limit scripts under a clock that tests set, and the simplest possible model of what they should do."""

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import redis
from msgspec import Struct

from app.gateway.limits.counters.batches import join_operations
from app.gateway.limits.counters.broken_bucket import BROKEN, BrokenBucket
from app.gateway.limits.counters.commands import DRY_RUN, HAS_OVERRIDE, STAYS_FULL, Amounts, BucketSet, Operation
from app.gateway.limits.counters.scripts import EPOCH, REBUILT_PREFIX, REFUSED, TAKEN, Scripts, read_scripts
from app.gateway.limits.rules import CALENDAR, LEASES, RESOURCES
from tests.support.processes.valkey import Valkey

CLOCK = "local now = tonumber(redis.call('GET', 'test:now'))\n"
START_MS = 1_795_000_000_000
LEASE_MS = 10_000
DAY_MS = 86_400_000


class Bucket(Struct, frozen=True):
    """A rule's bucket. What `stays_full` and `lost_nothing_until_ms` mean is said of Rule."""

    kind: int
    resource: str
    amount: int
    period_ms: int = 0  # a window's length; of a calendar, that of its periods, which begin at START_MS
    dry: bool = False
    stays_full: bool = False
    lost_nothing_until_ms: int = 0
    override: tuple[int, int] = (0, 0)  # another amount, until a time

    @property
    def resource_index(self) -> int:
        return RESOURCES.index(self.resource)

    @property
    def has_override(self) -> bool:
        return any(self.override)

    def period_start_ms(self, now_ms: int) -> int:
        return START_MS + (now_ms - START_MS) // self.period_ms * self.period_ms

    def rule(self, now_ms: int) -> list[int]:
        """The rule as the scripts read it, without its override."""
        flags = DRY_RUN * self.dry + STAYS_FULL * self.stays_full + HAS_OVERRIDE * self.has_override
        first = [(self.resource_index + 1) * 4 + self.kind, self.amount, flags, self.lost_nothing_until_ms]
        if self.kind == CALENDAR:
            start = self.period_start_ms(now_ms)
            return [*first, start, start + self.period_ms, start + 2 * self.period_ms]
        return [*first, self.period_ms, 0, 0]


class LimitScripts:
    """Calls the scripts. `now_ms` is the time that they see."""

    def __init__(self, valkey: Valkey, buckets: Sequence[Bucket], born_ms: int = 0) -> None:
        self._client = valkey.client
        self._scripts: Scripts = read_scripts(CLOCK)
        self._client.flushall()
        self.buckets = buckets
        self.now_ms = START_MS
        self.calls = 0  # of the script that runs operations
        self.keys = [f"nx:l:{index}:x".encode() for index in range(len(buckets))]
        self._client.set(EPOCH, f"{born_ms}:test")
        self._client.script_load(self._scripts.batch.text)

    def advance_ms(self, ms: int) -> None:
        self.now_ms += ms

    def take(self, reservation_id: str, need: Amounts, mode: int = 0, only: Sequence[int] | None = None, base: int = 0) -> list[Any]:
        return self.run([self.to_take(reservation_id, need, mode, only, base)])[0]

    def take_raw(self, reservation_id: str, rule: Sequence[int], need: Amounts) -> list[Any]:
        """Takes from the first bucket alone, with a worker's own description of its rule."""
        return self.run([BucketSet(LEASE_MS, self.keys[:1], rule).take(reservation_id.encode(), need)])[0]

    def settle(self, reservation_id: str, spent: Amounts, order: Sequence[int] | None = None) -> int:
        return self.run([self.to_settle(reservation_id, spent, order)])[0]

    def to_take(self, reservation_id: str, need: Amounts, mode: int = 0, only: Sequence[int] | None = None, base: int = 0) -> Operation:
        return self._bucket_set(only).take(reservation_id.encode(), need, mode, base)

    def to_settle(self, reservation_id: str, spent: Amounts, order: Sequence[int] | None = None) -> Operation:
        return self._bucket_set(order).settle(reservation_id.encode(), spent)

    def run(self, operations: Sequence[Operation]) -> list[Any]:
        """Runs operations as one turn of the event loop would, and returns the reply or error of each."""
        self._client.set("test:now", self.now_ms)
        futures = [_Reply() for _ in operations]
        connection = self._client.connection_pool.get_connection()
        try:
            for payload, waiter in join_operations(self._scripts.batch.sha, zip(operations, futures, strict=True)):
                self.calls += 1
                connection.send_packed_command([payload])
                try:
                    waiter.set_result(connection.read_response())
                except redis.ResponseError as error:
                    waiter.set_exception(BrokenBucket(str(error)) if str(error).startswith(BROKEN) else error)
        finally:
            self._client.connection_pool.release(connection)
        return [future.replies.pop() for future in futures]

    def _bucket_set(self, indexes: Sequence[int] | None) -> BucketSet:
        chosen = range(len(self.buckets)) if indexes is None else indexes
        rules = [number for index in chosen for number in self.buckets[index].rule(self.now_ms)]
        if any(self.buckets[index].has_override for index in chosen):
            rules += [number for index in chosen for number in self.buckets[index].override]
        return BucketSet(LEASE_MS, [self.keys[index] for index in chosen], rules)

    def renew(self, leases: Sequence[tuple[int, str]]) -> list[Any]:
        keys = [EPOCH, *(self.keys[index] for index, _ in leases)]
        return self._run(self._scripts.renew.text, keys, b"%d" % LEASE_MS, *(reservation_id.encode() for _, reservation_id in leases))

    def seed(self, index: int, born_ms: int, spent: int) -> int:
        start = self.buckets[index].period_start_ms(self.now_ms)
        seed_values = _pack([born_ms, start, start + self.buckets[index].period_ms, spent])
        return self._run(self._scripts.seed.text, [EPOCH, self.keys[index]], seed_values)

    def rebuild(self, index: int, born_ms: int, used: Sequence[tuple[int, int]]) -> int:
        """Rebuilds a window from `used`: moments, each with what was used then."""
        width = self.buckets[index].period_ms / 16
        numbers = [int(number) for at_ms, amount in used for number in (at_ms // width, amount)]
        return self._run(self._scripts.rebuild.text, [EPOCH, self.keys[index]], _pack([born_ms, self.buckets[index].period_ms, *numbers]))

    def mark_rebuilt(self, index: int, born_ms: int) -> None:
        """Marks a rule as rebuilt: its windows then count what is known of them."""
        self._client.hset(REBUILT_PREFIX + b"%d" % born_ms, self.keys[index].split(b":")[2], 1)

    def contents(self) -> dict[bytes, bytes | None]:
        """Everything stored, as the server writes it to disk."""
        return {key: self._client.dump(key) for key in self._client.keys("nx:*")}

    def expiring_keys(self) -> set[bytes]:
        return {key for key in self._client.keys("nx:*") if self._client.pttl(key) > 0}

    def _run(self, text: bytes, keys: Sequence[bytes], *arguments: bytes) -> Any:
        self._client.set("test:now", self.now_ms)
        return self._client.eval(text, len(keys), *keys, *arguments)


class _Reply:
    """Keeps the replies that it receives."""

    def __init__(self) -> None:
        self.replies: list[Any] = []

    def done(self) -> bool:
        return False

    def set_result(self, result: Any, /) -> None:
        self.replies.append(result)

    def set_exception(self, exception: Exception, /) -> None:
        self.replies.append(exception)


class Charge(Struct):
    at_ms: int
    amount: int


class LimitsModel:
    """A model of what the scripts should do, computed from all charges that ever happened."""

    def __init__(self, buckets: Sequence[Bucket]) -> None:
        self.buckets = buckets
        self.charges: list[list[Charge]] = [[] for _ in buckets]
        self.leases: list[dict[str, int]] = [{} for _ in buckets]
        self.reservations: dict[str, list[Charge]] = {}

    def take(self, reservation_id: str, need: Amounts, now_ms: int) -> tuple[int, int, int]:
        """Status, then index and wait of the bucket that takes longest (-1, 0 if the reservation is taken)."""
        waits = [self.wait_ms(index, need[bucket.resource_index], now_ms) for index, bucket in enumerate(self.buckets)]
        strict = [(math.inf if wait < 0 else wait, -index) for index, wait in enumerate(waits) if not self.buckets[index].dry]
        longest, index = max(strict, default=(0, 0))
        if longest:
            return REFUSED, -index, waits[-index]
        entries: list[Charge] = []
        for index, bucket in enumerate(self.buckets):
            entry = Charge(now_ms, need[bucket.resource_index])
            if bucket.kind == LEASES:
                self.leases[index][reservation_id] = now_ms + LEASE_MS
            else:
                self.charges[index].append(entry)
            entries.append(entry)
        self.reservations[reservation_id] = entries
        return TAKEN, -1, 0

    def used(self, index: int, now_ms: int) -> int:
        bucket = self.buckets[index]
        if bucket.kind == LEASES:
            return sum(until > now_ms for until in self.leases[index].values())
        return sum(entry.amount for entry in self.charges[index] if self.still_counts(bucket, entry.at_ms, now_ms))

    def still_counts(self, bucket: Bucket, at_ms: int, now_ms: int) -> bool:
        """Returns whether a charge of that time still counts: a window is sixteen full slots and the present one, however new it is."""
        if bucket.kind == CALENDAR:
            return bucket.period_start_ms(at_ms) == bucket.period_start_ms(now_ms)
        width = bucket.period_ms / 16
        return at_ms // width >= now_ms // width - 16

    def wait_ms(self, index: int, need: int, now_ms: int) -> int:
        """Milliseconds until it passes; -1: never. Leases have no time: 1 if it does not pass now."""
        bucket = self.buckets[index]
        if need > bucket.amount:
            return -1
        if need == 0 or self.used(index, now_ms) + need <= bucket.amount:
            return 0
        if bucket.kind == LEASES:
            return 1
        if bucket.kind == CALENDAR:
            return bucket.period_start_ms(now_ms) + bucket.period_ms - now_ms
        width = bucket.period_ms / 16
        slot = now_ms // width
        ends = (math.ceil((slot + later) * width) for later in range(1, 18))
        return next(end - now_ms for end in ends if self.used(index, end) + need <= bucket.amount)

    def settle(self, reservation_id: str, spent: Amounts, now_ms: int) -> None:
        for index, entry in enumerate(self.reservations.pop(reservation_id, ())):
            bucket = self.buckets[index]
            self.leases[index].pop(reservation_id, None)
            more = spent[bucket.resource_index] - entry.amount
            if bucket.kind == LEASES:
                continue
            if more > 0:
                self.charges[index].append(Charge(now_ms, more))
            else:
                entry.amount += more


def _pack(value: object) -> bytes:
    return msgspec.msgpack.encode(value)
