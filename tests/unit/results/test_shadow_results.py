"""Results of shadows: each difference gets its part of alpha, and is too early until it has enough episodes."""

import math

import pytest

from app.results.shadow_results import ALPHA, compare
from app.store.replays.shadow_pairs import METRICS, PairSums


def sums_of(values: list[float]) -> tuple[int, float, float, int]:
    return len(values), math.fsum(values), math.fsum(each * each for each in values), values.count(0)


def make(values: list[float], *, same: int = 0, different: int = 0) -> PairSums:
    return PairSums("plain", "polite", 900, len(values), 700, same, different, dict.fromkeys(METRICS, sums_of(values)))


def test_difference_that_is_clear_has_an_interval_without_zero():
    values = [0.5 + (at * 37 % 101) / 100 for at in range(600)]
    found = {each.metric: each for each in compare(make(values)).differences}
    latency = found["latency"]
    assert latency.difference == pytest.approx(sum(values) / 600)
    assert latency.low is not None and latency.high is not None
    assert latency.difference is not None and 0 < latency.low < latency.difference < latency.high
    assert {each.verdict for each in found.values()} == {"worse"}


def test_latency_needs_more_episodes_than_errors():
    values = [float(at % 3 - 1) for at in range(300)]
    found = {each.metric: each for each in compare(make(values)).differences}
    assert (found["error"].verdict, found["error"].reason) == ("no difference yet", None)
    assert found["latency"].verdict == "too early" and found["latency"].low is None
    assert found["latency"].reason is not None and "500" in found["latency"].reason


def test_without_a_value_nothing_is_concluded():
    empty = compare(make([]))
    assert {each.verdict for each in empty.differences} == {"too early"} and empty.same is None
    assert [each.difference for each in empty.differences] == [None] * len(METRICS)


def test_share_of_equal_responses_has_bounds_around_it():
    same = compare(make([0.0], same=300, different=100)).same
    assert same is not None and same.share == 0.75
    assert 0.6 < same.low < 0.75 < same.high < 0.85
    assert ALPHA == 0.05
