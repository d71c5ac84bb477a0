"""The promises of results, over thousands of simulated experiments with a look after every unit.

Seeds are fixed, so these tests pass always or never. They log their numbers
(`make test-long ARGS="-k statistics --log-cli-level=INFO"`), which docs/statistics.md repeats.
"""

import logging
from math import exp, lgamma, log

import numpy as np
import pytest
from numpy.typing import NDArray

from app.results.statistics import sample_ratio
from app.results.statistics.best_arm import tracking_shares, winner
from app.results.statistics.plan import Plan
from app.results.statistics.posterior import beliefs
from app.results.statistics.power import fixed_units, needed_units
from app.results.statistics.sample_ratio import ALPHA
from app.results.statistics.sums import Stratum, UnitSums
from tests.support.simulated.simulated_bandit import play
from tests.support.simulated.simulated_looks import (
    RAMP,
    Units,
    Values,
    Versions,
    booleans,
    clustered,
    experiments,
    log_normals,
    mean_looks,
    normals,
    one,
    rarely,
    rejections,
    upper_bound,
    with_covariate,
)

LOG = logging.getLogger(__name__)
RUNS, UNITS = 2000, 5000
EVEN, UNEVEN = one(UNITS, 0.5), one(UNITS, 0.1)
CLICKS = Plan("boolean", "max", complete=True, planned_units=UNITS)
ERRORS = Plan("boolean", "min", complete=True, planned_units=UNITS, expected_rate=0.02)
SCORE = Plan("float", "max", planned_units=UNITS)
FEEDBACK = Plan("boolean", "max", planned_units=UNITS)
CAPPED_SCORE = Plan("float", "max", planned_units=UNITS, cap=7)  # two standard deviations above the mean
COST = Plan("heavy_tailed", "min", planned_units=UNITS)
P99_1, P99_2 = exp(2.3263), exp(2 * 2.3263)  # of log-normal values
CAPPED_1, CAPPED_2, CAPPED_300 = (Plan("heavy_tailed", "min", planned_units=UNITS, cap=cap) for cap in (P99_1, P99_2, 300))
# An arm of a tenth has its 500 units after 5,000 in all, and the ramp's first versions after many more.
LONG_UNEVEN = one(20_000, 0.1)
LONG_RAMP = Versions((10_000, 10_000, 10_000), (0.05, 0.2, 0.5), (0.0, 0.2, 0.4))
HOURLY = Versions((200,) * 25, tuple(0.1 + 0.8 * (7 * hour % 25) / 25 for hour in range(25)), tuple(0.02 * hour for hour in range(25)))

A_A: dict[str, tuple[Values, Versions, Plan]] = {
    "boolean .5, 50:50": (booleans(0.5), EVEN, CLICKS),
    "boolean .5, 90:10": (booleans(0.5), UNEVEN, CLICKS),
    "boolean .02, 50:50": (booleans(0.02), EVEN, ERRORS),
    "boolean .02, 90:10": (booleans(0.02), UNEVEN, ERRORS),
    "boolean, ramp with drift": (booleans(0.0), RAMP, CLICKS),
    "feedback .5, 50:50": (booleans(0.5), EVEN, FEEDBACK),
    "feedback .02, 90:10": (booleans(0.02), UNEVEN, FEEDBACK),
    "feedback, ramp with drift": (booleans(0.0), RAMP, FEEDBACK),
    "float, 50:50": (normals(), EVEN, SCORE),
    "float, 90:10, capped": (normals(), UNEVEN, CAPPED_SCORE),
    "float, ramp with drift": (normals(), RAMP, CAPPED_SCORE),
    "float, 25 versions": (normals(), HOURLY, CAPPED_SCORE),
    "float with covariate": (with_covariate(0.7), EVEN, SCORE),
    "log-normal 1, 50:50": (log_normals(1), EVEN, COST),
    "log-normal 2, 50:50": (log_normals(2), EVEN, COST),
    "log-normal 1, 70:30, capped": (log_normals(1, P99_1), one(UNITS, 0.3), CAPPED_1),
    "log-normal 2, 70:30, capped": (log_normals(2, P99_2), one(UNITS, 0.3), CAPPED_2),
    "log-normal 2, 90:10, capped, 20,000 units": (log_normals(2, P99_2), LONG_UNEVEN, CAPPED_2),
    "5 s, of 1 in 100 at a cap of 300, 90:10, 20,000 units": (rarely(0.01, 300), LONG_UNEVEN, CAPPED_300),
    "5 s, of 1 in 500 at a cap of 300, 90:10, 20,000 units": (rarely(0.002, 300), LONG_UNEVEN, CAPPED_300),
    "log-normal 2, ramp, capped, 30,000 units": (log_normals(2, P99_2), LONG_RAMP, CAPPED_2),
    "episodes of 1 to 8, float": (clustered(), EVEN, SCORE),
    "episodes of 1 to 8, boolean": (clustered(0.3), EVEN, CLICKS),
}


@pytest.mark.parametrize("name", A_A)
def test_equal_arms_are_called_different_in_at_most_six_of_a_hundred_experiments(name: str) -> None:
    """The bound holds for the true rate with 99 % certainty, where alpha is 0.05."""
    values, versions, plan = A_A[name]
    found = sum(int(rejections(units, versions, plan).sum()) for units in experiments(values, versions, RUNS, seed=1))
    LOG.info("A/A, %s: %.4f, at most %.4f", name, found / RUNS, upper_bound(found, RUNS))
    assert upper_bound(found, RUNS) <= 0.06


COVERED: dict[str, tuple[Values, Versions, Plan, float]] = {}
for multiple in (0, 1, 5):
    COVERED[f"boolean .5, {multiple} MDE"] = (booleans(0.5, multiple * 0.05), EVEN, CLICKS, multiple * 0.05)
    COVERED[f"boolean .02, 90:10, {multiple} MDE"] = (booleans(0.02, multiple * 0.02), UNEVEN, ERRORS, multiple * 0.02)
    COVERED[f"boolean, ramp, {multiple} MDE"] = (booleans(0.0, multiple * 0.05), RAMP, CLICKS, multiple * 0.05)
    COVERED[f"float, {multiple} MDE"] = (normals(multiple * 0.1), EVEN, SCORE, multiple * 0.1)
    COVERED[f"float, ramp, {multiple} MDE"] = (normals(multiple * 0.1), RAMP, CAPPED_SCORE, multiple * 0.1)
    COVERED[f"covariate, {multiple} MDE"] = (with_covariate(0.7, multiple * 0.1), EVEN, SCORE, multiple * 0.1)


@pytest.mark.parametrize("name", COVERED)
def test_interval_holds_the_true_difference_at_all_looks_together(name: str) -> None:
    values, versions, plan, truth = COVERED[name]
    runs = 1000
    missed = sum(int(rejections(units, versions, plan, truth).sum()) for units in experiments(values, versions, runs, seed=2))
    LOG.info("coverage, %s: %.4f", name, 1 - missed / runs)
    assert missed / runs <= 0.05


POWERED: dict[str, tuple[Values, float, float, Plan]] = {
    "float": (normals(0.2), 0.2, 1.0, Plan("float", "max")),
    "covariate, correlation .7": (with_covariate(0.7, 0.2), 0.2, 0.51, Plan("float", "max")),
    "feedback .5": (booleans(0.45, 0.1), 0.1, 0.25, Plan("boolean", "max")),
    "boolean .5": (booleans(0.45, 0.1), 0.1, 0.25, Plan("boolean", "max", complete=True)),
    "boolean .3": (booleans(0.26, 0.08), 0.08, 0.21, Plan("boolean", "max", complete=True)),
    "boolean .1": (booleans(0.08, 0.04), 0.04, 0.09, Plan("boolean", "max", complete=True)),
    "boolean .1, expected": (booleans(0.08, 0.04), 0.04, 0.09, Plan("boolean", "max", complete=True, expected_rate=0.1)),
    "boolean .02, expected": (booleans(0.015, 0.01), 0.01, 0.0196, Plan("boolean", "min", complete=True, expected_rate=0.02)),
}


@pytest.mark.parametrize("name", POWERED)
def test_calculator_predicts_the_power_within_five_points(name: str) -> None:
    values, effect, variance, plan = POWERED[name]
    runs = 1000
    needed = needed_units(effect, variance, plan)
    tuned = Plan(
        plan.kind,
        plan.optimize,
        planned_units=round(fixed_units(effect, variance, 0.5, 0.05)),
        expected_rate=plan.expected_rate,
        complete=plan.complete,
    )
    found = sum(int(rejections(units, one(needed, 0.5), tuned).sum()) for units in experiments(values, one(needed, 0.5), runs, seed=3))
    LOG.info("power, %s: %.3f by %d units, for which 0.8 was predicted", name, found / runs, needed)
    assert found / runs == pytest.approx(0.8, abs=0.05)


def test_guardrail_stops_a_harmless_arm_at_most_as_often_as_alpha() -> None:
    """An arm exactly at the margin is the worst harmless one."""
    runs, stopped = 2000, 0
    for units in experiments(normals(0.1), EVEN, runs, seed=4):
        stopped += int(mean_looks(units, EVEN, SCORE).exceed(0.1, 0.05).any(axis=1).sum())
    LOG.info("guardrail at its margin: %.4f", stopped / runs)
    assert upper_bound(stopped, runs) <= 0.06


def test_interval_covers_though_weights_followed_the_results_and_plain_means_do_not() -> None:
    runs = 400
    plan = Plan("boolean", "max", complete=True, planned_units=UNITS)
    played = [play((0.5, 0.5), 0.1, 25, 200, plan, np.random.default_rng([5, run])) for run in range(runs)]
    missed = sum(each.missed for each in played)
    misled = sum(abs(each.pooled_z) > 1.96 for each in played)
    LOG.info("Thompson, equal arms, drift: interval misses %.4f, one z-test of plain means %.4f", missed / runs, misled / runs)
    assert missed / runs <= 0.05 and misled / runs > 0.2


def test_thompson_loses_less_than_even_weights_and_its_interval_still_covers() -> None:
    runs = 200
    plan = Plan("boolean", "max", complete=True, planned_units=UNITS)
    played = [play((0.45, 0.55), 0.1, 25, 200, plan, np.random.default_rng([6, run])) for run in range(runs)]
    regret, even = sum(each.regret for each in played) / runs, 25 * 200 * 0.1 / 2
    missed = sum(each.missed for each in played)
    LOG.info("Thompson, .45 and .55: regret %.1f, of even weights %.1f; interval misses %.4f", regret, even, missed / runs)
    assert regret < even / 3 and missed / runs <= 0.05


def test_mismatch_of_samples_is_found_and_a_healthy_split_seldom_alarmed() -> None:
    """51:49 or 52:48 instead of 50:50 in 20,000 units of two versions, with a look after every unit."""
    runs, units = 1000, 20_000
    found = [0, 0, 0]
    for place, share in enumerate((0.5, 0.51, 0.52)):
        for chunk in range(0, runs, 100):
            arms = (np.random.default_rng([7, place, chunk]).random((100, units)) < share).cumsum(axis=1)
            found[place] += int((mismatch_evidence(arms) >= -log(ALPHA)).any(axis=1).sum())
    LOG.info("sample ratio: false alarms %.4f, 51:49 found in %.3f, 52:48 in %.3f", *(each / runs for each in found))
    assert found[0] / runs <= ALPHA and found[1] / runs > 0.2 and found[2] / runs > 0.95


def test_arm_that_fails_on_hard_units_gains_nothing_by_its_fallback() -> None:
    """A tenth of units is hard: there the arm fails, and the control answers, as well as it does. By who answered the arm looks better."""
    runs, rewarded, by_server, errors_found = 500, 0, 0, 0
    for chunk in range(0, runs, 100):
        generator = np.random.default_rng([8, chunk])
        arm = generator.random((100, UNITS)) < 0.5
        hard = generator.random((100, UNITS)) < 0.1
        value = (generator.random((100, UNITS)) < np.where(hard, 0.2, 0.7)).astype(np.float64)
        rewarded += int(rejections(Units(arm, value), EVEN, CLICKS).sum())
        by_server += int(rejections(Units(arm & ~hard, value), EVEN, CLICKS).sum())
        failed = Units(arm, (arm & hard).astype(np.float64))
        errors_found += int(rejections(failed, EVEN, ERRORS).sum())
    LOG.info(
        "survivors: by assignment %.4f, by who answered %.4f, failures found %.4f", rewarded / runs, by_server / runs, errors_found / runs
    )
    assert rewarded / runs <= 0.05 and by_server / runs > 0.9 and errors_found == runs


def test_track_and_stop_finds_the_best_of_three() -> None:
    runs, right, used = 200, 0, 0
    rates = {"a": 0.4, "b": 0.5, "c": 0.45}
    for run in range(runs):
        generator = np.random.default_rng([9, run])
        strata: list[Stratum] = []
        weights, best = dict.fromkeys(rates, 1 / 3), None
        while best is None and len(strata) < 400:
            units = dict(zip(rates, map(int, generator.multinomial(500, list(weights.values()))), strict=True))
            ones = {arm: int(generator.binomial(units[arm], rates[arm])) for arm in rates}
            sums = {arm: UnitSums(units[arm], ones[arm], ones[arm], units[arm] - ones[arm], ones[arm]) for arm in rates}
            strata.append(Stratum(len(strata) + 1, None, weights, sums))
            believed = beliefs(strata, list(rates))
            assert believed is not None
            best = winner(believed, "max", 0.05)
            tracked = tracking_shares(believed, "max")
            weights = {arm: 0.05 + 0.85 * tracked[arm] for arm in rates}
        right += best == "b"
        used += 500 * len(strata)
    LOG.info("track-and-stop: right in %.3f, after %.0f units", right / runs, used / runs)
    assert right / runs >= 0.95


def mismatch_evidence(arms: NDArray[np.int64]) -> NDArray[np.float64]:
    """ln E after each unit, of an even split; half of the units in each of two versions. By a table of ln gamma."""
    units = arms.shape[1]
    half, prior = units // 2, sample_ratio.PRIOR_UNITS
    tables = [np.array([lgamma(start + count) - lgamma(start) for count in range(half + 1)]) for start in (prior, prior / 2)]
    seen: NDArray[np.int64] = np.arange(1, half + 1, dtype=np.int64)

    def of_version(ones: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.asarray(tables[1][ones] + tables[1][seen - ones] - tables[0][seen] + seen * log(2), dtype=np.float64)

    first = of_version(arms[:, :half])
    return np.concatenate([first, first[:, -1:] + of_version(arms[:, half:] - arms[:, half - 1 : half])], axis=1)
