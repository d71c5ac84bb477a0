"""The local limiter, while Redis is away: a worker admits no more than its share in any window, and reports it to Redis later, once."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.domain.callers import Caller
from app.domain.limits import Limit, LimitOverride
from app.gateway.limits.counters.scripts import REFUSED, TAKEN
from app.gateway.limits.local_limiter import LocalLimiter
from app.gateway.limits.reservation import Reservation
from app.gateway.limits.rule_matcher import RuleMatch, RuleMatcher
from app.gateway.limits.rules import RuleTable
from app.gateway.limits.usage_amounts import UsageEstimate

START_MS = 1_795_000_000_000


class FakeClock:
    def __init__(self) -> None:
        self.now_ms = START_MS

    def __call__(self) -> float:
        return self.now_ms


def limiter_without_redis(*limits: Limit) -> tuple[LocalLimiter, RuleMatch, FakeClock]:
    clock = FakeClock()
    match = RuleMatcher(RuleTable(limits), 1000, clock).match_for(Caller("k", "t", "team", "full", prefix="nx-1"), "m", {})
    assert match is not None
    return LocalLimiter(clock, lambda key: ()), match, clock


def take(local: LocalLimiter, match: RuleMatch, number: int, tokens: int = 1, workers: int = 1) -> tuple[Reservation, list[Any]]:
    reservation = Reservation(str(number).encode(), match, UsageEstimate(tokens).amounts())
    return reservation, local.take(reservation, match, reservation.need, workers)


def test_without_redis_an_override_ends_at_its_time_and_what_was_used_of_it_counts():
    clock = FakeClock()
    override = LimitOverride("o", "t", {"key": "nx-1"}, 100, START_MS + 1000, ("tokens", "day"))
    rules = RuleTable([Limit("t", {"key": "each"}, "tokens", 20, "day")], overrides=[override])
    match = RuleMatcher(rules, 1000, clock).match_for(Caller("k", "t", "team", "full", prefix="nx-1"), "m", {})
    assert match is not None
    match.last_reply = [TAKEN, START_MS, 1, 90, 0]  # by Redis, 10 of 100 were used before it went away
    local = LocalLimiter(clock, lambda key: ())
    assert take(local, match, 1, 5)[1][0] == TAKEN
    clock.now_ms += 1000
    assert take(local, match, 2, 6)[1][0] == REFUSED and take(local, match, 3, 5)[1][0] == TAKEN


steps = st.lists(
    st.tuples(st.integers(0, 6), st.sampled_from([0, 1, 900, 3_749, 3_750, 20_000, 60_000, 63_750]), st.integers(0, 9)), max_size=30
)


@given(steps, st.integers(1, 4))
def test_no_window_admits_more_than_the_workers_share(script: Sequence[tuple[int, int, int]], workers: int):
    local, match, clock = limiter_without_redis(
        Limit("t", {"key": "each"}, "tokens", 20, "minute"), Limit("d", {"key": "each"}, "tokens", 30, "day")
    )
    counted: list[list[int]] = []
    for number, (tokens, ms, spent) in enumerate(script):
        reservation, result = take(local, match, number, tokens, workers)
        if result[0] == TAKEN:
            within = [amount for at, amount in counted if at >= clock.now_ms - 60_000]
            assert not tokens or sum(within) + tokens <= 20 // workers
            counted.append([clock.now_ms, tokens])
        clock.now_ms += ms
        if result[0] == TAKEN and spent < 8:
            local.settle(reservation, UsageEstimate(spent).amounts())
            if spent <= tokens:
                counted[-1][1] = spent
            else:
                counted.append([clock.now_ms, spent - tokens])


@given(st.lists(st.tuples(st.integers(1, 10), st.integers(0, 30_000)), max_size=15), st.integers(1, 10))
def test_request_passes_exactly_after_the_reported_wait(before: Sequence[tuple[int, int]], requested: int):
    local, match, clock = limiter_without_redis(Limit("t", {"key": "each"}, "tokens", 10, "minute"))
    for number, (tokens, ms) in enumerate(before):
        reservation, result = take(local, match, number, tokens)
        if result[0] == TAKEN:
            local.settle(reservation, UsageEstimate(tokens).amounts())  # nothing is in flight, which could come back sooner
        clock.now_ms += ms
    _, result = take(local, match, 100, requested)
    if result[0] == REFUSED:
        assert not result[7]
        clock.now_ms += result[6] - 1
        assert take(local, match, 101, requested)[1][0] == REFUSED
        clock.now_ms += 1
        assert take(local, match, 102, requested)[1][0] == TAKEN


def test_wait_is_an_estimate_while_what_is_in_flight_could_make_room():
    local, match, _ = limiter_without_redis(Limit("d", {"key": "each"}, "tokens", 10, "day"))
    spent, _ = take(local, match, 1, 4)
    local.settle(spent, UsageEstimate(4).amounts())
    held, _ = take(local, match, 2, 6)
    assert take(local, match, 3, 5)[1][6:] == [1000, 1]
    assert take(local, match, 3, 9)[1][7] == 0, "not even all of it would be room enough"
    local.settle(held, UsageEstimate(6).amounts())
    assert take(local, match, 3, 5)[1][7] == 0


def test_refused_request_consumes_nothing_of_any_limit():
    local, match, _ = limiter_without_redis(
        Limit("a", {"key": "each"}, "requests", 5, "minute"), Limit("b", {"key": "each"}, "tokens", 3, "minute")
    )
    assert [take(local, match, number, 2)[1][0] for number in range(4)] == [TAKEN, REFUSED, REFUSED, REFUSED]
    assert take(local, match, 9, 1)[1][0] == TAKEN


def test_charge_is_repeated_unchanged_until_redis_confirmed_it():
    local, match, _ = limiter_without_redis(Limit("a", {"key": "each"}, "requests", 5, "minute"))
    take(local, match, 1)
    take(local, match, 2)
    [charge] = local.pending_charges()
    assert charge.amount == 2
    take(local, match, 3)
    [repeated] = local.pending_charges()  # unchanged, because it may have been counted already
    assert (repeated.id, repeated.amount) == (charge.id, 2)
    local.confirm_charge(repeated)
    [remaining] = local.pending_charges()
    assert remaining.amount == 1 and remaining.id != charge.id
    local.confirm_charge(remaining)
    assert not list(local.pending_charges())


def test_concurrency_counts_reservations_held_locally_and_in_redis():
    clock = FakeClock()
    match = RuleMatcher(RuleTable([Limit("c", {"key": "each"}, "concurrency", 4)]), 1000, clock).match_for(
        Caller("k", "t", "team", "full", prefix="nx-1"), "m", {}
    )
    assert match is not None
    local = LocalLimiter(clock, lambda key: [b"held in redis"])
    first, result = take(local, match, 1, workers=2)
    assert result[0] == TAKEN and take(local, match, 2, workers=2)[1][0] == REFUSED
    local.settle(first, UsageEstimate().amounts())
    assert take(local, match, 3, workers=2)[1][0] == TAKEN
