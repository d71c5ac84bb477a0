"""Formulas that need more than sums: values in their order, or histograms. Frozen values are those of ville 0.1.0 and confseq 0.0.11."""

from collections import Counter
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.results.statistics.aipw import Aipw
from app.results.statistics.bounded import betting, empirical_bernstein
from app.results.statistics.confidence_sequence import interval
from app.results.statistics.moments import mean, variance
from app.results.statistics.quantiles import bucket_of, quantile, quantile_difference, rank_margin, upper_edge
from app.results.statistics.sums import UnitSums
from app.results.statistics.tuning import kappa

bounded = settings(max_examples=60, deadline=None)  # a busy machine is no reason to fail
VALUES = [(37 * number % 101) / 100 for number in range(1, 501)]
ALPHA = 0.05


def test_empirical_bernstein_is_that_of_ville() -> None:
    found = empirical_bernstein(VALUES, ALPHA)
    assert (round(found.low, 7), round(found.high, 7)) == (0.4550321, 0.5460738)
    assert (found.low, found.high) == pytest.approx((0.4547565, 0.5466882), abs=7e-4), "confseq updates the variance a value later"


def test_betting_is_that_of_confseq_on_its_grid_of_a_thousandth() -> None:
    found = betting(VALUES, ALPHA)
    assert (found.low // 0.001 / 1000, -(-found.high // 0.001) / 1000) == (0.458, 0.545)
    assert (found.low, found.high) == pytest.approx((0.4585459, 0.5441544), abs=1e-4), "ville searches on a grid, too"


def test_asymptotic_sequence_of_one_sample_is_that_of_ville() -> None:
    sums = UnitSums(500, sum(VALUES), sum(value * value for value in VALUES))
    found = interval(mean(sums), (variance(sums) / 500) ** 0.5, kappa(500, 500, ALPHA), ALPHA)
    assert (round(found.low, 7), round(found.high, 7)) == (0.4606986, 0.5398614)


@pytest.mark.parametrize(("q", "expected"), [(0.5, (0.43, 0.57)), (0.9, (0.84, 0.97))])
def test_quantiles_are_those_of_ville(q: float, expected: tuple[float, float]) -> None:
    margin, ordered = rank_margin(500, ALPHA, 500), sorted(VALUES)
    share = Counter(VALUES)
    below = {value: sum(share[each] for each in share if each <= value) / 500 for value in ordered}
    low = next(value for value in ordered if below[value] > q - margin)
    high = next(value for value in ordered if below[value] > q + margin)
    assert (low, high) == expected


@bounded
@given(st.floats(1e-9, 1e9))
def test_value_lies_in_its_bucket(value: float) -> None:
    bucket = bucket_of(value)
    assert upper_edge(bucket - 1) <= value * (1 + 1e-7) and value <= upper_edge(bucket) * (1 + 1e-7)


def test_quantile_from_buckets_reaches_to_their_edges() -> None:
    histogram = Counter(bucket_of(value) for value in VALUES)
    found = quantile(histogram, 0.5, ALPHA, 500)
    assert found is not None
    assert found.interval.low <= 0.43 and found.interval.high >= 0.57
    assert found.interval.low == pytest.approx(0.43, rel=0.05) and found.interval.high == pytest.approx(0.57, rel=0.05)
    assert found.value == pytest.approx(0.5, rel=0.03)


def test_quantile_of_few_units_is_unbounded() -> None:
    found = quantile({bucket_of(3.0): 2}, 0.95, ALPHA, 10_000)
    assert found is not None and (found.interval.low, found.interval.high) == (0.0, inf)
    assert quantile({}, 0.5, ALPHA, 10_000) is None
    assert quantile_difference({}, {1: 1}, 0.5, ALPHA, 10_000) is None


def test_difference_of_quantiles_finds_a_slower_arm() -> None:
    fast = Counter(bucket_of(0.1 + value) for value in VALUES * 20)
    slow = Counter(bucket_of(0.4 + value) for value in VALUES * 20)
    same = quantile_difference(fast, fast, 0.95, ALPHA, 20_000)
    slower = quantile_difference(fast, slow, 0.95, ALPHA, 20_000)
    assert same is not None and same.contains(0.0)
    assert slower is not None and 0 < slower.low < 0.3 < slower.high


def test_no_values_bound_nothing() -> None:
    assert (betting([], ALPHA).low, empirical_bernstein([], ALPHA).high) == (0.0, 1.0)


@bounded
@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_intervals_of_bounded_values_hold_their_average(values: list[float]) -> None:
    average = sum(values) / len(values)
    found = betting(values, ALPHA)
    assert found.low <= average + 1e-7 and average - 1e-7 <= found.high
    assert 0 <= empirical_bernstein(values, ALPHA).low <= empirical_bernstein(values, ALPHA).high <= 1


def test_aipw_finds_the_difference_under_changing_probabilities() -> None:
    """The arm has 1 more, and gets ever more units; each probability is used exactly as often as it says."""
    sums = Aipw()
    for probability, of_arm, of_control in ((0.25, 1, 3), (0.5, 2, 2), (0.75, 3, 1)):
        for base in (1.0, 3.0) * 100:
            for _ in range(of_arm):
                sums.add(base + 1, True, probability)
            for _ in range(of_control):
                sums.add(base, False, probability)
    assert sums.difference == pytest.approx(1.0, abs=0.01)
    found = sums.interval(2400, ALPHA)
    assert found.low > 0.5 and found.high < 1.5
