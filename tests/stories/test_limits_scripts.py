"""The scripts on a real Valkey, under a clock of our own, against a model that goes through everything that ever happened."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.gateway.limits.rules import CALENDAR, LEASES, WINDOW
from app.store.counters.commands import ALLOW_UNSEEDED, FORCE, PREVIEW, Amounts
from app.store.counters.scripts import FORGOTTEN, NOT_TAKEN, REFUSED, TAKEN, UNSEEDED, WRONG_TIME
from tests.stories.counting import DAY_MS, LEASE_MS, START_MS, Bucket, Model, Scripted
from tests.stories.valkey import Valkey, valkey, valkey_server

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
rows = st.lists(windows | windows | calendars | leases, min_size=1, max_size=5)
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


def follow(valkey: Valkey, row: list[Bucket], script: list[Any]) -> None:
    """Does the steps to the scripts and to the model, and compares what they say."""
    real, model = Scripted(valkey, row), Model(row)
    for number, step in enumerate(script):
        live = list(model.tickets)
        match step:
            case ("pass", ms):
                real.pass_ms(ms)
            case ("take", need):
                before = real.contents()
                expected = model.take(str(number), need, real.now_ms)
                said = real.take(str(number), need)
                assert said[0] == expected[0]
                if said[0] == REFUSED:
                    check_refusal(row, said, expected, model, real)
                    assert real.contents() == before
                else:
                    check_taken(row, said, need, model, real)
            case (_, chosen, spent) if live:
                ticket = str(live[int(chosen) % len(live)])
                model.settle(ticket, spent, real.now_ms)
                assert real.settle(ticket, spent) == 1
                after = real.contents()
                assert real.settle(ticket, spent) == 0 and (spent[0] == 0 or real.contents() == after)
            case _:
                pass
        told = real.take("", NONE, PREVIEW)
        lefts = [max(0, bucket.amount - model.used(index, real.now_ms)) for index, bucket in enumerate(row)]
        assert told[4::3] == lefts


def check_refusal(row: list[Bucket], said: list[Any], expected: tuple[int, int, int], model: Model, real: Scripted) -> None:
    _, index, wait = expected
    told = row[int(said[3])]
    waits: list[int] = said[6::3]
    if any(bucket.kind == LEASES and waits[place] > 0 for place, bucket in enumerate(row)):
        # How long others run is an estimate; all else is exact.
        assert (said[3] == index and waits[index] == wait) or told.kind == LEASES
    else:
        assert (said[3], waits[index]) == (index, wait)
    for place, bucket in enumerate(row):
        if bucket.kind != LEASES and wait >= 0:
            assert waits[place] <= waits[said[3]] or bucket.dry


def check_taken(row: list[Bucket], said: list[Any], need: Amounts, model: Model, real: Scripted) -> None:
    for index, bucket in enumerate(row):
        used = model.used(index, real.now_ms)
        assert said[3 + 2 * index] == bucket.amount - used
        if not bucket.dry and need[bucket.place]:
            assert used <= bucket.amount
            if bucket.kind == WINDOW:  # the law itself, whatever slots there are: no closed window of its length holds more
                since = real.now_ms - bucket.period_ms
                assert sum(entry.amount for entry in model.taken[index] if entry.at_ms >= since) <= bucket.amount


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(rows, steps)
def test_the_scripts_do_as_the_model(valkey: Valkey, row: list[Bucket], script: list[Any]):
    follow(valkey, row, script)


near_slots = st.integers(0, 18).map(lambda slots: 3_750 * slots) | st.integers(1, 17).map(lambda slots: 3_750 * slots - 1)
busy = st.lists(
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
@given(st.integers(1, 5), busy)
def test_no_window_ever_holds_more(valkey: Valkey, amount: int, script: list[Any]):
    follow(valkey, [Bucket(WINDOW, "requests", amount, 60_000)], script)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(windows | calendars, min_size=1, max_size=4), st.lists(st.tuples(amounts, times), max_size=12), amounts)
def test_who_waits_as_long_as_told_passes(valkey: Valkey, row: list[Bucket], before: list[Any], wanted: Amounts):
    real = Scripted(valkey, row)
    for number, (need, ms) in enumerate(before):
        real.take(str(number), need)
        real.pass_ms(ms)
    said = real.take("a", wanted)
    if said[0] == REFUSED:
        wait = said[6 + 3 * said[3]]
        assert (wait == -1) == any(wanted[bucket.place] > bucket.amount and not bucket.dry for bucket in row)
        if wait > 0:
            real.pass_ms(wait - 1)
            assert real.take("b", wanted)[0] == REFUSED
            real.pass_ms(1)
            assert real.take("c", wanted)[0] == TAKEN


def test_a_clock_that_goes_back_gives_nothing(valkey: Valkey):
    real = Scripted(valkey, [Bucket(WINDOW, "requests", 2, 60_000)])
    real.pass_ms(100_000)
    assert [real.take(ticket, ONE)[0] for ticket in "abc"] == [TAKEN, TAKEN, REFUSED]
    real.pass_ms(-50_000)
    refused = real.take("d", ONE)
    assert refused[0] == REFUSED
    real.pass_ms(refused[6])
    assert real.take("e", ONE)[0] == TAKEN


def test_debt_is_paid_by_the_next_window(valkey: Valkey):
    real = Scripted(valkey, [Bucket(WINDOW, "tokens", 10, 60_000)])
    assert real.take("a", need(0, 5))[0] == TAKEN
    real.pass_ms(30_000)
    real.settle("a", need(0, 25))
    refused = real.take("b", need(0, 1))
    assert refused[0] == REFUSED and refused[4] == 0 and 60_000 <= refused[6] <= 63_750
    real.pass_ms(refused[6])
    assert real.take("b", need(0, 1))[0] == TAKEN


def test_what_was_not_spent_is_free_at_once(valkey: Valkey):
    real = Scripted(valkey, [Bucket(WINDOW, "tokens", 10, 60_000), Bucket(CALENDAR, "tokens", 20, DAY_MS)])
    real.take("a", need(0, 10))
    assert real.take("b", need(0, 10))[0] == REFUSED
    real.settle("a", need(0, 1))
    assert real.take("b", need(0, 9))[0] == TAKEN


def test_what_is_spent_after_midnight_is_the_new_days(valkey: Valkey):
    real = Scripted(valkey, [Bucket(CALENDAR, "tokens", 20, DAY_MS)])
    real.take("more", need(0, 5))
    real.take("less", need(0, 5))
    real.pass_ms(DAY_MS)
    real.settle("more", need(0, 12))
    real.settle("less", need(0, 1))
    assert real.take("", need(), PREVIEW)[4] == 13
    assert real.take("b", need(0, 13))[0] == TAKEN


def test_a_worker_whose_periods_are_not_the_servers_is_told_the_time(valkey: Valkey):
    bucket = Bucket(CALENDAR, "requests", 1, DAY_MS)
    real = Scripted(valkey, [bucket])
    for ahead in (-2 * DAY_MS, 3 * DAY_MS):
        row = [*bucket.numbers(START_MS + ahead)]
        assert real.take_raw("a", row, ONE) == [WRONG_TIME, START_MS]
    # A little behind is well: the next period comes along.
    assert real.take_raw("a", bucket.numbers(START_MS - 1), ONE)[0] == TAKEN
    assert real.take("b", ONE)[0] == REFUSED


def test_a_place_is_free_when_it_is_settled_or_its_lease_ends(valkey: Valkey):
    real = Scripted(valkey, [Bucket(LEASES, "concurrency", 2)])
    assert [real.take(ticket, ONE)[0] for ticket in "abc"] == [TAKEN, TAKEN, REFUSED]
    real.settle("a", ONE)
    assert real.take("c", ONE)[0] == TAKEN
    real.pass_ms(LEASE_MS - 1)
    assert real.take("d", ONE)[0] == REFUSED
    assert real.renew([(0, "b")])[0] == 0
    real.pass_ms(1)
    assert [real.take(ticket, ONE)[0] for ticket in "ef"] == [TAKEN, REFUSED]
    # Who settles after that takes nobody's place away.
    real.settle("c", ONE)
    assert real.take("g", ONE)[0] == REFUSED


def test_how_long_until_a_place_is_free_is_estimated_from_how_long_they_were_held(valkey: Valkey):
    real = Scripted(valkey, [Bucket(LEASES, "concurrency", 2)])
    for ticket in "abcdef":
        real.take(ticket, ONE)
        real.pass_ms(4_000)
        real.settle(ticket, ONE)
    real.take("x", ONE)
    real.take("y", ONE)
    assert real.take("z", ONE)[6] == 2_000


def test_a_cancelled_ticket_is_as_if_it_had_never_been_even_if_it_comes_later(valkey: Valkey):
    real = Scripted(valkey, [Bucket(WINDOW, "requests", 1, 60_000), Bucket(LEASES, "concurrency", 1)])
    assert real.take("a", ONE)[0] == TAKEN
    assert real.settle("a", NONE) == 1
    assert real.take("b", ONE)[0] == TAKEN
    real.settle("b", NONE)
    real.settle("late", NONE)
    assert real.take("late", ONE) == [NOT_TAKEN, START_MS]
    assert real.take("c", ONE)[0] == TAKEN


def test_a_ticket_taken_twice_is_taken_once(valkey: Valkey):
    real = Scripted(valkey, [Bucket(WINDOW, "requests", 5, 60_000)])
    assert real.take("a", ONE)[0] == TAKEN
    assert real.take("a", ONE)[0] == NOT_TAKEN
    assert real.take("a", ONE, FORCE)[0] == TAKEN
    assert real.take("", need(), PREVIEW)[4] == 4


def test_what_a_fallback_takes_is_settled_with_the_rest(valkey: Valkey):
    real = Scripted(valkey, [Bucket(WINDOW, "tokens", 10, 60_000), Bucket(WINDOW, "tokens", 7, 60_000), Bucket(LEASES, "concurrency", 1)])
    assert real.take("a", need(0, 6), only=[0])[0] == TAKEN
    assert real.take("a", need(0, 6), only=[1, 2], base=1)[0] == TAKEN
    assert real.take("", need(), PREVIEW)[4::3] == [4, 1, 0]
    real.settle("a", need(0, 3))
    assert real.take("", need(), PREVIEW)[4::3] == [7, 4, 1]


def test_no_memory_admits_nothing(valkey: Valkey):
    real = Scripted(valkey, [Bucket(WINDOW, "requests", 5, 60_000)])
    valkey.forget()
    assert real.take("a", ONE) == [FORGOTTEN, START_MS]
    assert real.renew([]) == [FORGOTTEN, START_MS]


@pytest.mark.parametrize("window_ms", [1_000, 60_000, 3_600_000])
def test_after_a_loss_of_memory_windows_count_as_full_until_they_have_passed(valkey: Valkey, window_ms: int):
    real = Scripted(valkey, [Bucket(WINDOW, "requests", 5, window_ms)], born_ms=START_MS)
    real.pass_ms(window_ms // 3)
    refused = real.take("a", ONE)
    assert refused[0] == REFUSED and refused[4] == 0
    real.pass_ms(refused[6] - 1)
    assert real.take("a", ONE)[0] == REFUSED
    real.pass_ms(1)
    assert [real.take(ticket, ONE)[0] for ticket in "abcdef"] == [TAKEN] * 5 + [REFUSED]


def test_after_a_loss_of_memory_places_are_free_when_those_who_held_them_have_had_time_to_say_so(valkey: Valkey):
    real = Scripted(valkey, [Bucket(LEASES, "concurrency", 2)], born_ms=START_MS)
    real.pass_ms(10)
    assert real.take("a", ONE)[0] == REFUSED
    real.renew([(0, "running")])
    real.pass_ms(LEASE_MS - 9)
    assert [real.take(ticket, ONE)[0] for ticket in "ab"] == [TAKEN, REFUSED]


def test_after_a_loss_of_memory_a_period_begins_with_what_the_ledger_says(valkey: Valkey):
    born_ms = START_MS + DAY_MS // 2
    real = Scripted(valkey, [Bucket(CALENDAR, "requests", 5, DAY_MS), Bucket(WINDOW, "tokens", 5, 1_000)], born_ms=born_ms)
    real.pass_ms(DAY_MS // 2)
    assert real.take("a", ONE)[6] == LEASE_MS + 1  # those under way have not been taken again
    real.pass_ms(LEASE_MS + 1)
    assert real.take("a", ONE) == [UNSEEDED, real.now_ms, born_ms, 0]
    assert real.take("live", ONE, FORCE)[0] == TAKEN  # one that was running when the memory was lost
    assert real.seed(0, born_ms, 3) == 1
    assert real.seed(0, born_ms, 3) == 0
    assert [real.take(ticket, ONE)[0] for ticket in "ab"] == [TAKEN, REFUSED]
    real.pass_ms(DAY_MS)
    assert real.take("c", ONE)[0] == TAKEN  # the next day needs no ledger


def test_a_seed_of_another_memory_is_not_sown(valkey: Valkey):
    real = Scripted(valkey, [Bucket(CALENDAR, "requests", 5, DAY_MS)], born_ms=START_MS + 5)
    real.pass_ms(LEASE_MS + 10)
    assert real.seed(0, START_MS + 4, 3) == 0
    assert real.take("a", ONE, ALLOW_UNSEEDED)[0] == TAKEN
    assert real.seed(0, START_MS + 5, 3) == 1
    assert real.take("", need(), PREVIEW)[4] == 1


def test_what_is_kept_does_not_outlive_its_use(valkey: Valkey):
    row = [Bucket(WINDOW, "requests", 5, 1_000), Bucket(CALENDAR, "requests", 5, DAY_MS), Bucket(LEASES, "concurrency", 5)]
    real = Scripted(valkey, row)
    real.take("a", ONE)
    kept = {key: valkey.client.pttl(key) for key in [*real.keys, b"nx:t:a"]}
    assert all(0 < ttl <= 2 * DAY_MS for ttl in kept.values()), kept
