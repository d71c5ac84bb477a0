"""The Lua scripts of limits on a real Valkey, under a clock of the test, compared with a reference model."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.gateway.limits.counters.commands import ALLOW_UNSEEDED, FORCE, PREVIEW, Amounts
from app.gateway.limits.counters.scripts import (
    FORGOTTEN,
    NOT_TAKEN,
    REFUSED,
    TAKEN,
    UNSEEDED,
    WAIT_IS_AFTER_LOSS,
    WAIT_IS_ESTIMATE,
    WRONG_TIME,
)
from app.gateway.limits.rules import CALENDAR, LEASES, WINDOW
from tests.support.processes.valkey import Valkey, valkey, valkey_server
from tests.support.simulated.limit_scripts_model import DAY_MS, LEASE_MS, START_MS, Bucket, LimitScripts, LimitsModel

__all__ = ["valkey", "valkey_server"]

RESOURCES = ("requests", "input_tokens", "output_tokens", "tokens", "cost_usd")
ONE: Amounts = (1, 0, 0, 0, 0, 1)
NONE: Amounts = (0, 0, 0, 0, 0, 0)


def need(input: int = 0, output: int = 0, cost: int = 0) -> Amounts:
    return (1, input, output, input + output, cost, 1)


amounts = st.builds(need, st.integers(0, 12), st.integers(0, 12), st.integers(0, 30))
windows = st.builds(
    Bucket,
    st.just(WINDOW),
    st.sampled_from(RESOURCES),
    st.integers(0, 40),
    st.sampled_from([1_000, 60_000, 3_600_000]),
    st.booleans() | st.just(False),
)
calendars = st.builds(Bucket, st.just(CALENDAR), st.sampled_from(RESOURCES), st.integers(0, 40), st.just(DAY_MS))
leases = st.builds(Bucket, st.just(LEASES), st.just("concurrency"), st.integers(0, 4))
bucket_lists = st.lists(windows | windows | calendars | leases, min_size=1, max_size=5)
times = st.sampled_from([0, 1, 62, 63, 900, 1_000, 1_063, 3_750, 60_000, 63_750, 225_000, 3_600_000, DAY_MS]) | st.integers(0, 70_000)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), times),
        st.tuples(st.just("take"), amounts),
        st.tuples(st.just("take"), amounts),
        st.tuples(st.just("settle"), st.integers(0, 20), amounts),
        st.tuples(st.just("cancel"), st.integers(0, 20), st.just(NONE)),
    ),
    max_size=30,
)


def run_against_model(valkey: Valkey, buckets: list[Bucket], script: list[Any]) -> None:
    """Runs the steps with the scripts and with the model, and compares their replies."""
    real, model = LimitScripts(valkey, buckets), LimitsModel(buckets)
    for number, step in enumerate(script):
        open_reservations = list(model.reservations)
        match step:
            case ("pass", ms):
                real.advance_ms(ms)
            case ("take", need):
                before = real.contents()
                expected = model.take(str(number), need, real.now_ms)
                reply = real.take(str(number), need)
                assert reply[0] == expected[0]
                if reply[0] == REFUSED:
                    check_refusal(buckets, reply, expected, model, real)
                    assert real.contents() == before
                else:
                    check_taken(buckets, reply, need, model, real)
            case (_, chosen, spent) if open_reservations:
                reservation_id = str(open_reservations[int(chosen) % len(open_reservations)])
                model.settle(reservation_id, spent, real.now_ms)
                assert real.settle(reservation_id, spent) == 1
                after = real.contents()
                assert real.settle(reservation_id, spent) == 0 and (spent[0] == 0 or real.contents() == after)
            case _:
                pass
        usage_reply = real.take("", NONE, PREVIEW)
        expected_remaining = [max(0, bucket.amount - model.used(index, real.now_ms)) for index, bucket in enumerate(buckets)]
        assert usage_reply[4::4] == expected_remaining


def check_refusal(buckets: list[Bucket], reply: list[Any], expected: tuple[int, int, int], model: LimitsModel, real: LimitScripts) -> None:
    _, expected_index, expected_wait = expected
    refusing_bucket = buckets[int(reply[3])]
    waits: list[int] = reply[6::4]
    estimates: list[int] = reply[7::4]
    if any(estimates):
        # What is in flight may come back sooner: no wait is longer than the exact one. Waits for a concurrency slot are always estimates.
        assert refusing_bucket.kind == LEASES or 0 < waits[reply[3]] <= expected_wait or waits[reply[3]] == expected_wait == -1
        assert all(bucket.kind == LEASES or bucket.resource != "requests" for bucket, flag in zip(buckets, estimates, strict=True) if flag)
    else:
        assert (reply[3], waits[expected_index]) == (expected_index, expected_wait)
    for index, bucket in enumerate(buckets):
        if bucket.kind != LEASES and expected_wait >= 0:
            assert waits[index] <= waits[reply[3]] or bucket.dry


def check_taken(buckets: list[Bucket], reply: list[Any], need: Amounts, model: LimitsModel, real: LimitScripts) -> None:
    for index, bucket in enumerate(buckets):
        used = model.used(index, real.now_ms)
        assert reply[3 + 2 * index] == bucket.amount - used
        if not bucket.dry and need[bucket.resource_index]:
            assert used <= bucket.amount
            if bucket.kind == WINDOW:  # whatever the slots are: no closed window of its length holds more
                since = real.now_ms - bucket.period_ms
                assert sum(entry.amount for entry in model.charges[index] if entry.at_ms >= since) <= bucket.amount


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(bucket_lists, steps)
def test_limit_scripts_match_the_reference_model(valkey: Valkey, buckets: list[Bucket], script: list[Any]):
    run_against_model(valkey, buckets, script)


near_slots = st.integers(0, 18).map(lambda slots: 3_750 * slots) | st.integers(1, 17).map(lambda slots: 3_750 * slots - 1)
busy_steps = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), near_slots),
        st.tuples(st.just("take"), st.just(ONE)),
        st.tuples(st.just("take"), st.just(ONE)),
        st.tuples(st.just("cancel"), st.integers(0, 20), st.just(NONE)),
    ),
    min_size=20,
    max_size=40,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(1, 5), busy_steps)
def test_window_limit_is_never_exceeded(valkey: Valkey, amount: int, script: list[Any]):
    run_against_model(valkey, [Bucket(WINDOW, "requests", amount, 60_000)], script)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(windows | calendars, min_size=1, max_size=4), st.lists(st.tuples(amounts, times), max_size=12), amounts)
def test_request_passes_exactly_after_its_retry_after(valkey: Valkey, buckets: list[Bucket], before: list[Any], wanted: Amounts):
    real = LimitScripts(valkey, buckets)
    for number, (need, ms) in enumerate(before):
        if real.take(str(number), need)[0] == TAKEN:
            real.settle(str(number), need)  # nothing is in flight, which could come back sooner
        real.advance_ms(ms)
    reply = real.take("a", wanted)
    if reply[0] == REFUSED:
        wait = reply[6 + 4 * reply[3]]
        assert not reply[7 + 4 * reply[3]]
        assert (wait == -1) == any(wanted[bucket.resource_index] > bucket.amount and not bucket.dry for bucket in buckets)
        if wait > 0:
            real.advance_ms(wait - 1)
            assert real.take("b", wanted)[0] == REFUSED
            real.advance_ms(1)
            assert real.take("c", wanted)[0] == TAKEN


def test_clock_going_backwards_grants_nothing(valkey: Valkey):
    real = LimitScripts(valkey, [Bucket(WINDOW, "requests", 2, 60_000)])
    real.advance_ms(100_000)
    assert [real.take(id, ONE)[0] for id in "abc"] == [TAKEN, TAKEN, REFUSED]
    real.advance_ms(-50_000)
    refused = real.take("d", ONE)
    assert refused[0] == REFUSED
    real.advance_ms(refused[6])
    assert real.take("e", ONE)[0] == TAKEN


def test_overspending_is_paid_by_the_next_window(valkey: Valkey):
    real = LimitScripts(valkey, [Bucket(WINDOW, "tokens", 10, 60_000)])
    assert real.take("a", need(0, 5))[0] == TAKEN
    real.advance_ms(30_000)
    real.settle("a", need(0, 25))
    refused = real.take("b", need(0, 1))
    assert refused[0] == REFUSED and refused[4] == 0 and 60_000 <= refused[6] <= 63_750
    real.advance_ms(refused[6])
    assert real.take("b", need(0, 1))[0] == TAKEN


def test_unspent_reservation_is_free_at_once(valkey: Valkey):
    real = LimitScripts(valkey, [Bucket(WINDOW, "tokens", 10, 60_000), Bucket(CALENDAR, "tokens", 20, DAY_MS)])
    real.take("a", need(0, 10))
    assert real.take("b", need(0, 10))[0] == REFUSED
    real.settle("a", need(0, 1))
    assert real.take("b", need(0, 9))[0] == TAKEN


TAKING_2_S = 2_000


@pytest.mark.parametrize("bucket", [Bucket(WINDOW, "tokens", 100, 60_000), Bucket(CALENDAR, "tokens", 100, DAY_MS)], ids=["minute", "day"])
def test_wait_while_reservations_are_in_flight_is_an_estimate_by_how_long_requests_take(valkey: Valkey, bucket: Bucket):
    real = LimitScripts(valkey, [bucket])
    real.take("first", need(0, 100))
    assert real.take("other", need(0, 50))[6:] == [1_000, 1]  # how long requests take is not known yet
    real.advance_ms(TAKING_2_S)
    real.settle("first", need(0, 1))
    real.take("second", need(0, 99))
    assert real.take("other", need(0, 50))[6:] == [TAKING_2_S, 1]
    real.advance_ms(TAKING_2_S)
    real.settle("second", need(0, 99))
    wait, is_estimate = real.take("other", need(0, 50))[6:]
    assert not is_estimate and wait > 50_000
    real.advance_ms(wait)
    assert real.take("other", need(0, 50))[0] == TAKEN


def test_wait_is_exact_where_what_is_in_flight_cannot_make_room_sooner(valkey: Valkey):
    real = LimitScripts(valkey, [Bucket(WINDOW, "tokens", 100, 60_000)])
    real.take("spent", need(0, 90))
    real.settle("spent", need(0, 90))
    real.advance_ms(10_000)
    real.take("in flight", need(0, 5))
    wait, is_estimate = real.take("other", need(0, 60))[6:]
    assert not is_estimate and wait > 45_000


def test_what_a_killed_process_held_is_not_in_flight_for_ever(valkey: Valkey):
    real = LimitScripts(valkey, [Bucket(CALENDAR, "tokens", 100, DAY_MS)])
    real.take("killed", need(0, 100))
    real.advance_ms(2 * 900_000)
    wait, is_estimate = real.take("other", need(0, 50))[6:]
    assert not is_estimate and wait == DAY_MS - 2 * 900_000


def test_spending_beyond_the_reservation_counts_in_the_new_calendar_period(valkey: Valkey):
    real = LimitScripts(valkey, [Bucket(CALENDAR, "tokens", 20, DAY_MS)])
    real.take("more", need(0, 5))
    real.take("less", need(0, 5))
    real.advance_ms(DAY_MS)
    real.settle("more", need(0, 12))
    real.settle("less", need(0, 1))
    assert real.take("", need(), PREVIEW)[4] == 13
    assert real.take("b", need(0, 13))[0] == TAKEN


def test_another_amount_is_in_force_until_its_very_last_millisecond(valkey: Valkey):
    real = LimitScripts(valkey, [Bucket(CALENDAR, "cost_usd", 10, DAY_MS, override=(30, START_MS + 1000))])
    cost = (1, 0, 0, 0, 10, 1)
    assert [real.take(id, cost)[0] for id in "abc"] == [TAKEN] * 3 and real.take("d", cost)[0] == REFUSED
    for id in "bc":
        real.settle(id, NONE)
    assert real.take("", NONE, PREVIEW)[4] == 20
    real.advance_ms(999)
    assert real.take("e", cost)[0] == TAKEN
    real.advance_ms(1)
    # What was spent meanwhile counts: nothing is left until the period ends.
    reply = real.take("f", cost)
    assert (reply[0], reply[4]) == (REFUSED, 0)
    real.settle("e", NONE)
    assert real.take("f", cost)[0] == REFUSED
    real.advance_ms(DAY_MS)
    assert [real.take(id, cost)[0] for id in "fg"] == [TAKEN, REFUSED]


@pytest.mark.parametrize("kind", [WINDOW, CALENDAR])
def test_wait_does_not_go_beyond_the_end_of_a_smaller_amount(valkey: Valkey, kind: int):
    """It is an estimate: what the usual amount lets pass then is not known before."""
    real = LimitScripts(valkey, [Bucket(kind, "requests", 2, 3_600_000, override=(1, START_MS + 5000))])
    assert real.take("a", ONE)[0] == TAKEN
    reply = real.take("b", ONE)
    assert (reply[0], reply[6:]) == (REFUSED, [5000, 1])
    real.advance_ms(5000)
    assert [real.take(id, ONE)[0] for id in "bc"] == [TAKEN, REFUSED]


def test_worker_with_wrong_calendar_periods_gets_the_server_time(valkey: Valkey):
    bucket = Bucket(CALENDAR, "requests", 1, DAY_MS)
    real = LimitScripts(valkey, [bucket])
    for ahead in (-2 * DAY_MS, 3 * DAY_MS):
        arguments = [*bucket.rule(START_MS + ahead)]
        assert real.take_raw("a", arguments, ONE) == [WRONG_TIME, START_MS]
    # Slightly behind is accepted: the arguments hold the next period too.
    assert real.take_raw("a", bucket.rule(START_MS - 1), ONE)[0] == TAKEN
    assert real.take("b", ONE)[0] == REFUSED


def test_concurrency_slot_is_free_when_settled_or_its_lease_ends(valkey: Valkey):
    real = LimitScripts(valkey, [Bucket(LEASES, "concurrency", 2)])
    assert [real.take(id, ONE)[0] for id in "abc"] == [TAKEN, TAKEN, REFUSED]
    real.settle("a", ONE)
    assert real.take("c", ONE)[0] == TAKEN
    real.advance_ms(LEASE_MS - 1)
    assert real.take("d", ONE)[0] == REFUSED
    assert real.renew([(0, "b")])[0] == 0
    real.advance_ms(1)
    assert [real.take(id, ONE)[0] for id in "ef"] == [TAKEN, REFUSED]
    # A settlement after its lease has ended frees no slot of another.
    real.settle("c", ONE)
    assert real.take("g", ONE)[0] == REFUSED


def test_concurrency_wait_is_estimated_from_previous_hold_times(valkey: Valkey):
    real = LimitScripts(valkey, [Bucket(LEASES, "concurrency", 2)])
    for id in "abcdef":
        real.take(id, ONE)
        real.advance_ms(4_000)
        real.settle(id, ONE)
    real.take("x", ONE)
    real.take("y", ONE)
    assert real.take("z", ONE)[6:] == [2_000, 1]


def test_cancelled_reservation_counts_nothing_even_if_it_arrives_after_its_cancellation(valkey: Valkey):
    real = LimitScripts(valkey, [Bucket(WINDOW, "requests", 1, 60_000), Bucket(LEASES, "concurrency", 1)])
    assert real.take("a", ONE)[0] == TAKEN
    assert real.settle("a", NONE) == 1
    assert real.take("b", ONE)[0] == TAKEN
    real.settle("b", NONE)
    real.settle("late", NONE)
    assert real.take("late", ONE) == [NOT_TAKEN, START_MS]
    assert real.take("c", ONE)[0] == TAKEN


def test_reservation_taken_twice_counts_once(valkey: Valkey):
    real = LimitScripts(valkey, [Bucket(WINDOW, "requests", 5, 60_000)])
    assert real.take("a", ONE)[0] == TAKEN
    assert real.take("a", ONE)[0] == NOT_TAKEN
    assert real.take("a", ONE, FORCE)[0] == TAKEN
    assert real.take("", need(), PREVIEW)[4] == 4


def test_fallback_reservation_is_settled_with_the_first(valkey: Valkey):
    real = LimitScripts(
        valkey, [Bucket(WINDOW, "tokens", 10, 60_000), Bucket(WINDOW, "tokens", 7, 60_000), Bucket(LEASES, "concurrency", 1)]
    )
    assert real.take("a", need(0, 6), only=[0])[0] == TAKEN
    assert real.take("a", need(0, 6), only=[1, 2], base=1)[0] == TAKEN
    assert real.take("", need(), PREVIEW)[4::4] == [4, 1, 0]
    real.settle("a", need(0, 3))
    assert real.take("", need(), PREVIEW)[4::4] == [7, 4, 1]


def test_flushed_redis_admits_nothing(valkey: Valkey):
    real = LimitScripts(valkey, [Bucket(WINDOW, "requests", 5, 60_000)])
    valkey.flush()
    assert real.take("a", ONE) == [FORGOTTEN, START_MS]
    assert real.renew([]) == [FORGOTTEN, START_MS]


@pytest.mark.parametrize("window_ms", [1_000, 60_000, 3_600_000])
def test_window_that_stays_full_after_data_loss_passes_exactly_after_its_retry_after(valkey: Valkey, window_ms: int):
    real = LimitScripts(valkey, [Bucket(WINDOW, "requests", 5, window_ms, stays_full=True)], born_ms=START_MS)
    real.mark_rebuilt(0, START_MS)
    real.advance_ms(window_ms // 3)
    refused = real.take("a", ONE)
    assert refused[0] == REFUSED and refused[4] == 0 and refused[7] == WAIT_IS_AFTER_LOSS
    real.advance_ms(refused[6] - 1)
    assert real.take("a", ONE)[0] == REFUSED
    real.advance_ms(1)
    assert [real.take(id, ONE)[0] for id in "abcdef"] == [TAKEN] * 5 + [REFUSED]


def test_window_after_data_loss_is_full_until_its_rule_is_rebuilt_and_then_counts_what_was_used(valkey: Valkey):
    real = LimitScripts(valkey, [Bucket(WINDOW, "requests", 5, 60_000), Bucket(WINDOW, "tokens", 99, 3_600_000)], born_ms=START_MS)
    real.advance_ms(1_000)
    refused = real.take("a", need(1))
    assert refused[0] == REFUSED and refused[4::4] == [0, 0]
    assert refused[7::4] == [WAIT_IS_ESTIMATE | WAIT_IS_AFTER_LOSS] * 2 and LEASE_MS < refused[6] < 2 * LEASE_MS
    assert real.take("running", need(1), FORCE)[0] == TAKEN  # it was in flight when the memory was lost
    assert real.rebuild(0, START_MS - 1, [(START_MS, 5)]) == 0  # of another loss
    assert real.rebuild(0, START_MS, [(START_MS - 40_000, 2), (START_MS, 1)]) == 1
    assert real.rebuild(0, START_MS, [(START_MS, 5)]) == 0  # once
    assert real.take("a", need(1))[0] == REFUSED
    for index in (0, 1):
        real.mark_rebuilt(index, START_MS)
    assert [real.take(id, need(1))[0] for id in "ab"] == [TAKEN, REFUSED]
    refused = real.take("b", need(1))
    assert not refused[7] and refused[6] < 30_000  # exact: until the slot of two requests has passed
    real.advance_ms(refused[6])
    assert [real.take(id, need(1))[0] for id in "bcd"] == [TAKEN, TAKEN, REFUSED]


@pytest.mark.parametrize("kind", [WINDOW, CALENDAR, LEASES])
def test_rule_newer_than_the_data_loss_lost_nothing(valkey: Valkey, kind: int):
    born_ms = START_MS + 10
    resource = "concurrency" if kind == LEASES else "requests"
    buckets = [Bucket(kind, resource, 1, DAY_MS if kind == CALENDAR else 60_000, lost_nothing_until_ms=born_ms - old) for old in (0, 1)]
    real = LimitScripts(valkey, buckets, born_ms=born_ms)
    real.advance_ms(10)
    assert real.take("old", ONE, only=[1])[0] == REFUSED
    assert [real.take(id, ONE, only=[0])[0] for id in "ab"] == [TAKEN, REFUSED]


def test_period_that_stays_full_after_data_loss_is_free_when_the_next_begins(valkey: Valkey):
    real = LimitScripts(valkey, [Bucket(CALENDAR, "requests", 5, DAY_MS, stays_full=True)], born_ms=START_MS + 10)
    real.advance_ms(LEASE_MS + 20)
    refused = real.take("a", ONE)
    assert refused[0] == REFUSED and refused[4] == 0 and refused[6:] == [START_MS + DAY_MS - real.now_ms, WAIT_IS_AFTER_LOSS]
    real.advance_ms(refused[6])
    assert real.take("a", ONE)[0] == TAKEN


def test_concurrency_slots_after_data_loss_are_free_once_holders_could_renew(valkey: Valkey):
    real = LimitScripts(valkey, [Bucket(LEASES, "concurrency", 2)], born_ms=START_MS)
    real.advance_ms(10)
    assert real.take("a", ONE)[0] == REFUSED
    real.renew([(0, "running")])
    real.advance_ms(LEASE_MS - 9)
    assert [real.take(id, ONE)[0] for id in "ab"] == [TAKEN, REFUSED]


def test_calendar_period_after_data_loss_starts_from_the_seeded_usage(valkey: Valkey):
    born_ms = START_MS + DAY_MS // 2
    real = LimitScripts(valkey, [Bucket(CALENDAR, "requests", 5, DAY_MS), Bucket(WINDOW, "tokens", 5, 1_000)], born_ms=born_ms)
    real.advance_ms(DAY_MS // 2)
    assert real.take("a", ONE)[6] == LEASE_MS + 1  # running requests have not renewed their leases yet
    real.advance_ms(LEASE_MS + 1)
    assert real.take("a", ONE) == [UNSEEDED, real.now_ms, born_ms, 0]
    assert real.take("live", ONE, FORCE)[0] == TAKEN  # one that was running when the data was lost
    assert real.seed(0, born_ms, 3) == 1
    assert real.seed(0, born_ms, 3) == 0
    assert [real.take(id, ONE)[0] for id in "ab"] == [TAKEN, REFUSED]
    real.advance_ms(DAY_MS)
    assert real.take("c", ONE)[0] == TAKEN  # the next day needs no recorded usage


def test_seed_for_another_redis_epoch_is_ignored(valkey: Valkey):
    real = LimitScripts(valkey, [Bucket(CALENDAR, "requests", 5, DAY_MS)], born_ms=START_MS + 5)
    real.advance_ms(LEASE_MS + 10)
    assert real.seed(0, START_MS + 4, 3) == 0
    assert real.take("a", ONE, ALLOW_UNSEEDED)[0] == TAKEN
    assert real.seed(0, START_MS + 5, 3) == 1
    assert real.take("", need(), PREVIEW)[4] == 1


def test_limit_keys_expire_within_two_days(valkey: Valkey):
    buckets = [Bucket(WINDOW, "requests", 5, 1_000), Bucket(CALENDAR, "requests", 5, DAY_MS), Bucket(LEASES, "concurrency", 5)]
    real = LimitScripts(valkey, buckets)
    real.take("a", ONE)
    kept = {key: valkey.client.pttl(key) for key in [*real.keys, b"nx:t:a"]}
    assert all(0 < ttl <= 2 * DAY_MS for ttl in kept.values()), kept
