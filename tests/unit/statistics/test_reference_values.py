"""Formulas against numbers that gbstats 0.8.0, confseq 0.0.11 and ville 0.1.0 gave for the same data, to the digits that were kept.

gbstats tunes by another x* than ours (7.936 against 8.212 for alpha 0.05), so its sequences are compared with its own kappa.
"""

from math import log, sqrt

import pytest

from app.results.statistics import boolean_counts, multiplicity, sample_ratio
from app.results.statistics.boolean_counts import Successes
from app.results.statistics.confidence_sequence import (
    Interval,
    always_valid_p,
    boundary,
    critical_z,
    interval,
    log_e_value,
    one_sided_critical_z,
)
from app.results.statistics.cuped import adjusted_difference, adjusted_variance, slope
from app.results.statistics.moments import mean, variance
from app.results.statistics.rate import rate_interval
from app.results.statistics.ratio import ratio, ratio_variance
from app.results.statistics.sums import UnitSums
from app.results.statistics.tuning import optimal_kappa

ALPHA = 0.05


def booleans(units: int, ones: int) -> UnitSums:
    return UnitSums(units, ones, ones, units - ones, ones)


def gbstats_kappa(control: UnitSums, arm: UnitSums, tuned_to: int) -> float:
    rho_squared = (-2 * log(ALPHA) + log(-2 * log(ALPHA) + 1)) / tuned_to
    return (control.n + arm.n) * rho_squared


def rounded(given: Interval, digits: int) -> tuple[float, float]:
    return round(given.low, digits), round(given.high, digits)


HUNDRED, MORE = booleans(1000, 100), booleans(1000, 130)


@pytest.mark.parametrize(
    ("tuned_to", "expected", "p"),
    [(5000, (-0.01451796, 0.07451796), 0.3789315), (2000, (-0.01325572, 0.07325572), 0.4178380)],
)
def test_difference_of_rates_is_that_of_gbstats(tuned_to: int, expected: tuple[float, float], p: float) -> None:
    error = sqrt(variance(HUNDRED) / HUNDRED.n + variance(MORE) / MORE.n)
    kappa = gbstats_kappa(HUNDRED, MORE, tuned_to)
    assert round(error, 8) == 0.01425132
    assert rounded(interval(mean(MORE) - mean(HUNDRED), error, kappa, ALPHA), 8) == expected
    assert round(always_valid_p(log_e_value(0.03 / error, kappa)), 7) == p


def test_relative_difference_is_that_of_gbstats() -> None:
    """gbstats uses the delta method of the ratio itself, ours its logarithm, so this checks the parts, not the choice."""
    error = sqrt(variance(MORE) / (MORE.n * 0.1**2) + variance(HUNDRED) * 0.13**2 / (HUNDRED.n * 0.1**4))
    kappa = gbstats_kappa(HUNDRED, MORE, 5000)
    assert round(error, 7) == 0.1628496
    assert rounded(interval(0.3, error, kappa, ALPHA), 7) == (-0.2087063, 0.8087063)
    assert round(always_valid_p(log_e_value(0.3 / error, kappa)), 7) == 0.5622209


def test_difference_of_means_is_that_of_gbstats() -> None:
    control, arm = UnitSums(4000, 10_000, 61_000), UnitSums(6000, 14_400, 82_560)
    error = sqrt(variance(control) / control.n + variance(arm) / arm.n)
    kappa = gbstats_kappa(control, arm, 10_000)
    found = interval(mean(arm) - mean(control), error, kappa, ALPHA)
    assert round(error, 8) == 0.05986751
    assert (round(found.low, 7), round(found.high, 8)) == (-0.2817104, 0.08171039)
    assert round(always_valid_p(log_e_value(-0.1 / error, kappa)), 7) == 0.8659931


def test_difference_of_ratios_is_that_of_gbstats() -> None:
    control = UnitSums(500, 3000, 30_000, 0, 0, 1500, 6000, 12_000)
    arm = UnitSums(520, 3380, 35_000, 0, 0, 1560, 6240, 13_200)
    error = sqrt(ratio_variance(control) / control.n + ratio_variance(arm) / arm.n)
    found = interval(ratio(arm) - ratio(control), error, gbstats_kappa(control, arm, 5000), ALPHA)
    assert (round(ratio_variance(control), 7), round(ratio_variance(arm), 7)) == (1.3360053, 1.5185899)
    assert (round(ratio(arm) - ratio(control), 7), round(error, 8)) == (0.1666667, 0.07478219)
    assert (round(found.low, 8), round(found.high, 7)) == (-0.08415719, 0.4174905)


def test_covariate_adjustment_is_that_of_gbstats() -> None:
    control = UnitSums(1000, 5000, 34_000, 0, 0, 4800, 32_000, 30_000)
    arm = UnitSums(1000, 5300, 37_500, 0, 0, 4850, 32_500, 32_000)
    theta = slope(control, arm)
    error = sqrt(adjusted_variance(control, theta) / control.n + adjusted_variance(arm, theta) / arm.n)
    difference = adjusted_difference(control, arm, theta)
    found = interval(difference, error, gbstats_kappa(control, arm, 5000), ALPHA)
    assert (round(theta, 7), round(difference, 7), round(error, 8)) == (0.6858059, 0.2657097, 0.09996282)
    assert (round(found.low, 8), round(found.high, 7)) == (-0.04655206, 0.5779715)


def test_normal_mixture_boundary_is_that_of_ville_and_confseq() -> None:
    assert round(boundary(1000, 608.86744, ALPHA), 5) == 105.84321
    assert round(boundary(100, 12.177349, ALPHA), 6) == 30.351224
    assert round(one_sided_critical_z(100 / 12.177349, ALPHA) * 10, 6) == 27.689189
    assert round(boundary(1000, 630.028, ALPHA), 5) == 106.37547
    assert round(5000 / optimal_kappa(ALPHA), 5) == 608.86744


def test_tuning_has_its_printed_values() -> None:
    assert [round(optimal_kappa(alpha), 4) for alpha in (0.1, 0.05, 0.01, 0.005)] == [6.6384, 8.2120, 11.7564, 13.2536]
    of_plan = [(0.01, 8.94), (0.1, 3.82), (0.25, 3.25), (0.5, 3.08), (1, 3.035), (2, 3.06), (4, 3.13), (10, 3.25), (100, 3.57)]
    for part, expected in of_plan:
        assert critical_z(part * optimal_kappa(ALPHA), ALPHA) == pytest.approx(expected, abs=0.006 if part != 1 else 0.0006)


def test_sample_ratio_is_that_of_ssrm() -> None:
    even = {"a": 0.5, "b": 0.5}
    assert round(sample_ratio.log_e_value({"a": 140, "b": 60}, even, 2), 7) == 13.9426116
    assert round(sample_ratio.log_e_value({"a": 5150, "b": 4850}, even, 1000), 7) == 2.8926135
    assert round(sample_ratio.log_e_value({"a": 5200, "b": 4800}, even, 100), 7) == 5.6136134
    assert round(sample_ratio.log_e_value({"a": 910, "b": 90}, {"a": 0.95, "b": 0.05}, 100), 7) == 11.2286525


def test_rate_of_one_arm_is_that_of_ville() -> None:
    """It has a uniform prior; ours is one half of each."""
    assert rounded(rate_interval(140, 60, ALPHA, prior=1.0), 7) == (0.5865521, 0.7990027)


def test_exact_test_of_booleans_has_its_printed_values() -> None:
    one = [Successes(0.05, 900, 60), Successes(0.2, 500, 150)]
    ramp = [Successes(0.05, 760, 45), Successes(0.2, 490, 130), Successes(0.5, 440, 480)]
    assert round(boolean_counts.log_e_value(one, points=201), 7) == 1.8107429
    assert round(boolean_counts.log_e_value([Successes(0.5, 100, 130)], points=201), 7) == 0.7713965
    assert round(boolean_counts.log_e_value(ramp, points=201), 7) == -0.1881164


def test_discoveries_are_the_printed_ones() -> None:
    assert multiplicity.discoveries([log(value) for value in (100, 45, 30, 10, 1)], 0.1) == {0, 1, 2}
