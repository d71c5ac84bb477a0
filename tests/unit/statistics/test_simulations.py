"""A part of tests/long/test_statistics_at_length.py: fewer and shorter experiments, so that a formula that breaks is noticed at once."""

from math import exp

import numpy as np
import pytest

from app.results.statistics.compare import compare
from app.results.statistics.plan import Plan
from app.results.statistics.sums import Stratum, UnitSums
from tests.support.simulated.simulated_bandit import play
from tests.support.simulated.simulated_looks import (
    RAMP,
    Units,
    Values,
    Versions,
    agrees_with_app,
    booleans,
    clustered,
    experiments,
    log_normals,
    mean_looks,
    normals,
    one,
    rarely,
    rejections,
    strata_at,
    with_covariate,
)

UNITS = 2000
EVEN, UNEVEN = one(UNITS, 0.5), one(UNITS, 0.1)
SHORT_RAMP = Versions((700, 700, 600), (0.05, 0.2, 0.5), (0.30, 0.36, 0.42))
SMALL = Versions((100,) * 15, (0.3, 0.4, 0.7) * 5, tuple(0.1 * number for number in range(15)))
CLICKS = Plan("boolean", "max", complete=True, planned_units=UNITS)
ERRORS = Plan("boolean", "min", complete=True, planned_units=UNITS, expected_rate=0.02)
SCORE = Plan("float", "max", planned_units=UNITS)
CAPPED_SCORE = Plan("float", "max", planned_units=UNITS, cap=7)
P99 = exp(2.3263)
CAPPED_COST = Plan("heavy_tailed", "min", planned_units=UNITS, cap=P99)

CASES: dict[str, tuple[Values, Versions, Plan]] = {
    "boolean": (booleans(0.5), EVEN, CLICKS),
    "rare boolean, 90:10": (booleans(0.02), UNEVEN, ERRORS),
    "boolean, ramp with drift": (booleans(0.0), SHORT_RAMP, CLICKS),
    "feedback": (booleans(0.5), EVEN, Plan("boolean", "max", planned_units=UNITS)),
    "float": (normals(), EVEN, SCORE),
    "float, ramp with drift": (normals(), RAMP, CAPPED_SCORE),
    "float, 15 small versions": (normals(), SMALL, CAPPED_SCORE),
    "float with covariate": (with_covariate(0.7), EVEN, SCORE),
    "heavy tail, capped, 70:30": (log_normals(1, P99), one(UNITS, 0.3), CAPPED_COST),
    "rarely at a cap far above, 90:10": (rarely(0.002, 300), one(8000, 0.1), Plan("heavy_tailed", "min", planned_units=UNITS, cap=300)),
    "episodes of several inferences": (clustered(), EVEN, SCORE),
    "booleans of several inferences": (clustered(0.3), EVEN, CLICKS),
}


@pytest.mark.parametrize("name", CASES)
def test_looks_on_arrays_are_those_of_the_app(name: str) -> None:
    values, versions, plan = CASES[name]
    agrees_with_app(next(iter(experiments(values, versions, 5, seed=1))), versions, plan, looks=12, seed=2)


@pytest.mark.parametrize("name", CASES)
def test_equal_arms_are_seldom_called_different_though_looked_at_after_every_unit(name: str) -> None:
    values, versions, plan = CASES[name]
    runs = 100
    found = sum(int(rejections(units, versions, plan).sum()) for units in experiments(values, versions, runs, seed=3))
    assert found / runs <= 0.06


def test_looking_at_a_z_test_all_the_time_is_what_this_is_for() -> None:
    looks = mean_looks(next(iter(experiments(normals(), EVEN, 100, seed=3))), EVEN, SCORE)
    assert (np.abs(looks.difference) > 1.96 * looks.error).any(axis=1).mean() > 0.2


@pytest.mark.parametrize("truth", [0.1, 0.5])
def test_interval_holds_the_true_difference(truth: float) -> None:
    for values, plan in ((booleans(0.3, truth), CLICKS), (normals(truth), SCORE)):
        missed = sum(int(rejections(units, EVEN, plan, truth).sum()) for units in experiments(values, EVEN, 400, seed=4))
        assert missed / 400 <= 0.05


def test_order_of_units_within_a_version_changes_nothing() -> None:
    for values, versions, plan in (CASES["boolean, ramp with drift"], CASES["episodes of several inferences"]):
        units = next(iter(experiments(values, versions, 1, seed=5)))
        generator, starts = np.random.default_rng(6), np.cumsum((0, *versions.units[:-1]))
        order = np.concatenate([start + generator.permutation(count) for start, count in zip(starts, versions.units, strict=True)])
        shuffled = Units(units.arm[:, order], units.value[:, order])
        before, after = (compare(strata_at(each, versions, 0, versions.total), "control", "arm", plan) for each in (units, shuffled))
        assert before.verdict == after.verdict and before.log_e_value == pytest.approx(after.log_e_value)
        assert before.interval is not None and after.interval is not None
        assert (before.interval.low, before.interval.high) == pytest.approx((after.interval.low, after.interval.high))


def test_sums_add_up_exactly_in_any_order() -> None:
    generator = np.random.default_rng(7)
    values = [int(value) for value in generator.integers(1, 10**12, 300)]
    parts = [UnitSums(1, y, y * y, 0, 0, 3 * y, 9 * y * y, 3 * y * y) for y in values]
    half = sum(parts[:100], UnitSums()) + sum(parts[100:], UnitSums())
    backwards = sum(reversed(parts), UnitSums())
    assert half == backwards and half.yy == sum(y * y for y in values)


def test_arm_that_fails_on_hard_units_gains_nothing_by_its_fallback() -> None:
    """A tenth of units is hard: the arm fails there, and the control answers in its place, as well as it does for its own."""
    generator = np.random.default_rng(8)
    arm, hard = generator.random((40, 5000)) < 0.5, generator.random((40, 5000)) < 0.1
    value = (generator.random(arm.shape) < np.where(hard, 0.2, 0.7)).astype(np.float64)
    plan, versions = Plan("boolean", "max", complete=True, planned_units=5000), one(5000, 0.5)
    assert rejections(Units(arm, value), versions, plan).mean() <= 0.05
    assert rejections(Units(arm & ~hard, value), versions, plan).mean() > 0.9, "by who answered, it looks better"


def test_weights_that_follow_results_leave_the_interval_true() -> None:
    plan = Plan("boolean", "max", complete=True, planned_units=3000)
    played = [play((0.4, 0.6), 0.1, 15, 200, plan, np.random.default_rng([9, run])) for run in range(25)]
    assert sum(each.missed for each in played) <= 2
    assert sum(each.regret for each in played) / 25 < 3000 * 0.2 / 2 / 2, "half of what even weights lose"
    assert min(each.last_share for each in played) > 0.5


def test_split_that_loses_units_of_one_arm_is_no_difference() -> None:
    """The bets count on the weights: a tenth of the control's units is missing, at the same rate in both."""

    def ones(units: int) -> UnitSums:
        return UnitSums(units, units * 0.9, units * 0.9, round(units * 0.1), round(units * 0.9))

    lossy = [Stratum(1, None, {"control": 0.5, "arm": 0.5}, {"control": ones(9000), "arm": ones(10_000)})]
    found = compare(lossy, "control", "arm", CLICKS)
    assert found.verdict == "no difference yet" and found.difference == pytest.approx(0)
