"""Differences with overlap weights, over versions of different weights."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.analytics.guard.pair_difference import (
    PairDifference,
    compare,
    interval,
    is_burned_in,
    log_e_above,
    log_e_below,
    tuning,
)
from app.analytics.statistics.sums import Stratum, UnitSums


def sums(n: int, mean: float, deviation: float = 1.0) -> UnitSums:
    return UnitSums(n, n * mean, n * mean**2 + (n - 1) * deviation**2)


def stratum(version: int, p: float, arm: UnitSums, other: UnitSums) -> Stratum:
    return Stratum(version, "minted", {"a": p, "b": 1 - p}, {"a": arm, "b": other})


def test_difference_weighs_versions_by_their_overlap_and_does_not_see_what_changes_between_them():
    # The base rate rises while the arm's share grows: pooled, the arm would look better by 0.16.
    strata = [stratum(1, 0.5, sums(200, 1.0), sums(200, 1.0)), stratum(2, 0.5, sums(900, 1.3), sums(900, 1.3))]
    compared = compare(strata, "a", "b", capped=False)
    assert compared is not None
    assert compared.estimate == pytest.approx(0, abs=1e-12)
    assert (compared.clock, compared.units, compared.strata) == (pytest.approx(100 + 450), (1100, 1100), 2)
    # One unit's variance is 1: weight w has the variance w, so the whole has 1 / sum of w.
    assert compared.variance == pytest.approx(1 / 550)


@pytest.mark.parametrize(
    ("times", "wanted"), [(0.01, 8.94), (0.1, 3.82), (0.25, 3.25), (0.5, 3.08), (1, 3.035), (2, 3.06), (4, 3.13), (10, 3.25), (100, 3.57)]
)
def test_interval_is_as_many_standard_errors_wide_as_the_reference_says(times: float, wanted: float):
    """reference/experiments.md, 2.2: z* by the information as a multiple of the planned one."""
    planned = 10_000
    difference = PairDifference(0.0, 1.0, times * planned / 4, (1, 1), 1)
    low, high = interval(difference, planned, 0.05)
    assert (high, low) == (pytest.approx(wanted, abs=0.006), -high)


def test_boundary_is_that_of_the_normal_mixture():
    """reference/experiments.md, reference values, 5: of ville, r 608.86744 and v 1000; one-sided r 12.177349 and v 100."""
    planned = 608.86744 * 8.211968062068253 * 4
    half = interval(PairDifference(0.0, 1 / 1000, 1000, (1, 1), 1), round(planned), 0.05)[1]
    assert half * 1000 == pytest.approx(105.84321, rel=1e-5)
    growth = 12.177349 / tuning(4, 0.1)
    at_boundary = PairDifference(27.689189 / 100, 1 / 100, 100, (1, 1), 1)
    assert log_e_above(at_boundary, 0.0, round(growth * 4), 0.05) == pytest.approx(math.log(20), abs=0.02)


@given(st.floats(-3, 3), st.floats(0.001, 2), st.floats(10, 1e6), st.floats(-1, 1))
def test_evidence_for_both_sides_is_never_large_at_once(estimate: float, variance: float, clock: float, margin: float):
    difference = PairDifference(estimate, variance, clock, (1, 1), 1)
    above, below = log_e_above(difference, margin, 10_000, 0.05), log_e_below(difference, margin, 10_000, 0.05)
    assert min(above, below) <= math.log(2)
    assert (above > below) == (estimate > margin) or estimate == pytest.approx(margin, abs=1e-6)


def test_burn_in_needs_units_outcomes_and_for_heavy_tails_a_cap_or_an_equal_split():
    few, many = sums(99, 1.0), sums(600, 1.0)
    enough = sums(100, 1.0)
    assert not is_burned_in(few, many, 0.5, capped=True)
    assert is_burned_in(enough, enough, 0.5, capped=False)
    assert not is_burned_in(many, many, 0.1, capped=False)
    assert is_burned_in(many, many, 0.1, capped=True)
    assert not is_burned_in(enough, many, 0.1, capped=True)
    rare, seen = UnitSums(1000, 9, 9, 991, 9), UnitSums(1000, 10, 10, 990, 10)
    assert is_burned_in(seen, seen, 0.1, capped=False) and not is_burned_in(rare, seen, 0.5, capped=False)


def test_nothing_is_compared_before_the_burn_in():
    assert compare([stratum(1, 0.5, sums(99, 5.0), sums(99, 0.0))], "a", "b", capped=True) is None
    assert compare([], "a", "b", capped=True) is None
    assert compare([stratum(1, 1.0, sums(500, 5.0), sums(500, 0.0))], "a", "b", capped=True) is None
