"""The operations of one turn of the event loop on a real Valkey: as if each were sent alone, and none at the cost of another."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.gateway.limits.counters.batches import MAX_BUCKETS, MAX_OPERATIONS
from app.gateway.limits.counters.broken_bucket import BrokenBucket
from app.gateway.limits.counters.commands import ALLOW_UNSEEDED, FORCE, PREVIEW, TAKE, Amounts, Operation
from app.gateway.limits.counters.scripts import REFUSED, TAKEN
from app.gateway.limits.rules import CALENDAR, LEASES, WINDOW
from tests.integration.limits.test_limits_lua_scripts import NONE, ONE, RESOURCES, amounts, times
from tests.support.processes.valkey import Valkey, valkey, valkey_server
from tests.support.simulated.limit_scripts_model import DAY_MS, LEASE_MS, START_MS, Bucket, LimitScripts

__all__ = ["valkey", "valkey_server"]

some_lost_nothing = st.sampled_from([0, START_MS + 1])
overrides = st.just((0, 0)) | st.tuples(st.integers(1, 20), st.just(START_MS + 5_000))
buckets = st.one_of(
    st.builds(
        Bucket,
        st.just(WINDOW),
        st.sampled_from(RESOURCES),
        st.integers(0, 40),
        st.sampled_from([1_000, 60_000, 3_600_000]),
        st.booleans(),
        st.booleans(),
        some_lost_nothing,
        overrides,
    ),
    st.builds(
        Bucket,
        st.just(CALENDAR),
        st.sampled_from(RESOURCES),
        st.integers(0, 40),
        st.just(DAY_MS),
        st.booleans(),
        st.booleans(),
        some_lost_nothing,
        overrides,
    ),
    st.builds(Bucket, st.just(LEASES), st.just("concurrency"), st.integers(0, 4), lost_nothing_until_ms=some_lost_nothing),
)
reservation_ids = st.sampled_from("abcdef")
rows = st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True)
operations = st.one_of(
    st.tuples(st.just("take"), reservation_ids, rows, amounts, st.sampled_from([TAKE, TAKE, TAKE, FORCE, PREVIEW, ALLOW_UNSEEDED])),
    st.tuples(st.just("settle"), reservation_ids, amounts | st.just(NONE)),
)
turns = st.lists(st.tuples(times | st.just(-2_000), st.lists(operations, max_size=8)), max_size=6)


class Turns:
    """Runs turns of operations. A reservation is settled in the buckets in which it was first reserved, as a worker does it."""

    def __init__(self, valkey: Valkey, buckets: Sequence[Bucket], born_ms: int) -> None:
        self.scripts = LimitScripts(valkey, buckets, born_ms)
        self._rows: dict[str, Sequence[int]] = {}

    def run(self, turn: Sequence[Any], *, together: bool) -> list[Any]:
        operations = [self._operation(each) for each in turn]
        if together:
            return self.scripts.run(operations)
        return [reply for operation in operations for reply in self.scripts.run([operation])]

    def _operation(self, step: Any) -> Operation:
        if step[0] == "settle":
            _, id, spent = step
            return self.scripts.to_settle(id, spent, self._rows.get(id, [0]))
        _, id, row, need, mode = step
        count = len(self.scripts.buckets)
        chosen = self._rows.setdefault(id, list(dict.fromkeys(index % count for index in row)))
        return self.scripts.to_take(id, need, mode, chosen)


def run_turns_both_ways(valkey: Valkey, buckets: Sequence[Bucket], born_ms: int, script: Sequence[Any]) -> None:
    outcomes: list[list[Any]] = []
    for together in (True, False):
        turns = Turns(valkey, buckets, born_ms)
        outcome: list[Any] = []
        for ms, turn in script:
            turns.scripts.advance_ms(ms)
            outcome.append((turns.run(turn, together=together), turns.scripts.contents(), turns.scripts.expiring_keys()))
        outcomes.append(outcome)
    assert outcomes[0] == outcomes[1]


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(buckets, min_size=1, max_size=6), st.sampled_from([0, START_MS - 10, START_MS + 10]), turns)
def test_operations_of_a_turn_have_the_replies_and_the_state_of_the_same_operations_one_by_one(
    valkey: Valkey, buckets: list[Bucket], born_ms: int, script: list[Any]
):
    run_turns_both_ways(valkey, buckets, born_ms, script)


def test_requests_of_a_turn_are_refused_one_by_one_in_their_order(valkey: Valkey):
    real = LimitScripts(valkey, [Bucket(WINDOW, "tokens", 10, 60_000), Bucket(LEASES, "concurrency", 3)])

    def take(id: str, tokens: int) -> Operation:
        return real.to_take(id, (1, tokens, 0, tokens, 0, 1))

    turn = [take("a", 6), take("b", 5), take("c", 4), real.to_settle("a", (1, 1, 0, 1, 0, 1)), take("d", 6), take("e", 0)]
    replies = real.run(turn)
    assert [reply if isinstance(reply, int) else reply[0] for reply in replies] == [TAKEN, REFUSED, TAKEN, 1, REFUSED, TAKEN]
    assert replies[1][4] == 4 and replies[4][4] == 5


BROKEN_VALUES = {"text": b"not packed", "number": b"\x05", "cut off": b"\xdc\x00\x25\x01", "texts": b"\x92\xa1a\xa1b"}


@pytest.mark.parametrize(
    ("kind", "broken"), [*((kind, broken) for kind in (WINDOW, CALENDAR, LEASES) for broken in BROKEN_VALUES), (LEASES, "list")]
)
def test_operation_that_finds_a_broken_bucket_fails_alone(valkey: Valkey, kind: int, broken: str):
    resource = "concurrency" if kind == LEASES else "tokens"
    real = LimitScripts(
        valkey, [Bucket(WINDOW, "requests", 9, 60_000), Bucket(kind, resource, 9, DAY_MS), Bucket(WINDOW, "tokens", 9, 1_000)]
    )
    need: Amounts = (1, 2, 0, 2, 0, 1)
    assert real.take("before", need)[0] == TAKEN
    valkey.client.delete(real.keys[1])
    if broken in BROKEN_VALUES:
        valkey.client.set(real.keys[1], BROKEN_VALUES[broken])
    else:
        valkey.client.rpush(real.keys[1], "x")
    value = valkey.client.dump(real.keys[1])
    turn = [
        real.to_take("a", need, only=[0, 2]),
        real.to_take("b", need),
        real.to_settle("before", need),
        real.to_take("c", need, only=[2]),
    ]
    replies = real.run(turn)
    assert isinstance(replies[1], BrokenBucket) and isinstance(replies[2], BrokenBucket)
    assert [replies[0][0], replies[3][0]] == [TAKEN, TAKEN]
    assert real.run([real.to_take("", NONE, PREVIEW, only=[0, 2])])[0][4::4] == [7, 3]
    assert valkey.client.dump(real.keys[1]) == value  # it is left to whoever finds out what it was


def test_request_with_a_thousand_rules_is_counted_alone_and_the_others_of_its_turn_as_ever(valkey: Valkey):
    count = 10_000
    real = LimitScripts(valkey, [Bucket(WINDOW, "requests", 2, 60_000)] * count)
    turn = [real.to_take("a", ONE, only=[0]), real.to_take("b", ONE), real.to_take("c", ONE, only=[0]), real.to_settle("b", NONE)]
    turn.append(real.to_take("d", ONE, only=[0, count - 1]))
    replies = real.run(turn)
    assert [reply if isinstance(reply, int) else reply[0] for reply in replies] == [TAKEN, TAKEN, REFUSED, 1, TAKEN]
    assert real.calls == 5  # each of them would make the one before or after it as slow as the largest


def test_turn_with_many_operations_is_split(valkey: Valkey):
    real = LimitScripts(valkey, [Bucket(WINDOW, "requests", 2 * MAX_OPERATIONS, 60_000)])
    replies = real.run([real.to_take(str(number), ONE) for number in range(2 * MAX_OPERATIONS + 1)])
    assert [reply[0] for reply in replies] == [TAKEN] * (2 * MAX_OPERATIONS) + [REFUSED]
    assert real.calls == 3


def test_turn_with_many_buckets_is_split(valkey: Valkey):
    real = LimitScripts(valkey, [Bucket(WINDOW, "requests", 1, 60_000)] * (MAX_BUCKETS + 1))
    half = MAX_BUCKETS // 2
    rows = [range(half), range(half), range(half, 2 * half), range(2 * half, MAX_BUCKETS + 1)]
    replies = real.run([real.to_take(str(number), ONE, only=row) for number, row in enumerate(rows)])
    assert [reply[0] for reply in replies] == [TAKEN, REFUSED, TAKEN, TAKEN]
    assert real.calls == 2


def test_place_whose_lease_has_ended_is_not_given_back_twice_within_a_turn(valkey: Valkey):
    real = LimitScripts(valkey, [Bucket(LEASES, "concurrency", 1)])
    assert real.take("ended", ONE)[0] == TAKEN
    real.advance_ms(LEASE_MS)
    turn = [real.to_take("a", ONE), real.to_settle("ended", ONE), real.to_take("b", ONE)]
    assert [reply if isinstance(reply, int) else reply[0] for reply in real.run(turn)] == [TAKEN, 1, REFUSED]
