"""Guardrails: which arms are stopped, by which evidence, and how rarely a harmless one."""

import json
import random
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from app.domain.experiments import AnalysisConfig
from app.results.guard import evidence
from app.results.guard.guardrails import ArmBaseline, Stop, find_stops, results_since, stop_alpha
from app.results.statistics.sums import Stratum, UnitSums
from tests.support.simulated.simulated_experiment import SimulatedExperiment, errors, facts_of


def booleans(n: int, ones: int) -> UnitSums:
    return UnitSums(n, ones, ones, n - ones, ones)


def of_errors(arm: UnitSums, control: UnitSums, version: int = 1, p: float = 0.5) -> list[Stratum]:
    return [Stratum(version, "minted", {"a": p, "b": 1 - p}, {"a": arm, "b": control})]


def stops(
    facts_changes: Mapping[str, object], results: Mapping[str, list[Stratum]], baselines: Mapping[str, ArmBaseline] = {}
) -> list[Stop]:
    return find_stops(facts_of(**facts_changes), results, baselines)


def test_arm_that_fails_outright_is_stopped_at_once_for_all_its_units():
    [stop] = stops({}, {"error": of_errors(booleans(60, 60), booleans(60, 0))})
    assert (stop.arm, stop.now) == ("a", True)
    [test] = stop.tests
    assert test.fails_outright and test.units == (60, 60) and test.harm == 1 and test.above is not None and test.above > 0.4


def test_arm_that_is_worse_by_more_than_the_margin_gets_no_new_units_and_keeps_its_own():
    [stop] = stops({}, {"error": of_errors(booleans(2_000, 160), booleans(2_000, 40))})
    assert (stop.arm, stop.now) == ("a", False)


def test_arm_that_is_worse_by_less_than_the_margin_is_not_stopped_however_sure_that_is():
    assert stops({}, {"error": of_errors(booleans(1_000_000, 28_000), booleans(1_000_000, 20_000))}) == []


def test_control_is_never_stopped():
    assert stops({}, {"error": of_errors(booleans(500, 0), booleans(500, 500))}) == []


def test_arm_of_units_without_a_time_of_birth_is_stopped_for_all_of_them():
    [stop] = stops({"unit": "user"}, {"error": of_errors(booleans(2_000, 160), booleans(2_000, 40))})
    assert stop.now


def test_stopped_arm_is_left_alone_unless_its_running_units_fail_outright():
    retired = {"arms": {"a": 0.0, "b": 1.0}}
    worse = {"error": of_errors(booleans(2_000, 160), booleans(2_000, 40))}
    failing = {"error": of_errors(booleans(100, 100), booleans(100, 0))}
    assert stops(retired, worse) == []
    assert [stop.now for stop in stops(retired, failing)] == [True]
    assert stops({**retired, "stopped": ("a",)}, failing) == []


def test_arm_that_a_person_put_back_is_judged_by_what_came_since():
    bad, good = booleans(2_000, 160), booleans(2_000, 40)
    back_in_version_2 = {"a": ArmBaseline(2, {})}
    assert stops({}, {"error": of_errors(bad, good)}, back_in_version_2) == []
    again = {"error": [*of_errors(bad, good), *of_errors(bad, good, version=2)]}
    assert len(stops({}, again, back_in_version_2)) == 1
    # Users stay in their version: what was known when the arm was put back is taken off.
    within_version = {"a": ArmBaseline(1, {"error": of_errors(bad, good)})}
    assert stops({"unit": "user"}, {"error": of_errors(bad, good)}, within_version) == []
    twice = {"error": of_errors(bad + bad, good + good)}
    assert len(stops({"unit": "user"}, twice, within_version)) == 1
    # After an erasure less may be left than was known then.
    assert stops({"unit": "user"}, {"error": of_errors(booleans(10, 10), booleans(10, 0))}, within_version) == []


def test_covariates_of_units_from_before_an_arm_was_put_back_are_taken_off_too():
    """Those of the arm were of heavy users: what is known of them says nothing of the units that came since."""

    def of_latency(units: int, mean: float, x: float) -> UnitSums:
        """Returns sums of units of which half are at each side of the mean, by as much as their covariate."""
        return UnitSums(units, units * mean, units * (mean**2 + 1), 0, 0, units * x, units * (x**2 + 1), units * (x * mean + 0.5))

    facts = facts_of(unit="user", analysis=AnalysisConfig(metrics=("latency",), guardrails={"latency": 0.5}))
    before = {"latency": of_errors(of_latency(1_000, 9, 20), of_latency(1_000, 5, 5))}
    since = {"latency": of_errors(of_latency(1_000, 5, 5), of_latency(1_000, 5, 5))}
    stored = json.loads(json.dumps(evidence.of_put_back(facts, "a", before)))
    baseline = {"a": evidence.read_baseline(stored)}
    together = {
        "latency": [
            Stratum(1, "minted", earlier.probabilities, {arm: earlier.arms[arm] + later.arms[arm] for arm in "ab"})
            for earlier, later in zip(before["latency"], since["latency"], strict=True)
        ]
    }
    assert find_stops(facts, together, baseline) == []
    assert results_since(together, baseline["a"]) == since


def test_all_guardrails_of_all_arms_share_one_alpha():
    analysis = AnalysisConfig(metrics=("error", "helpful"), guardrails={"error": 0.01, "helpful": 0.1})
    facts = facts_of(arms={"a": 1.0, "b": 1.0, "c": 1.0}, analysis=analysis)
    assert stop_alpha(facts) == 0.05 / 4
    assert stop_alpha(facts_of(analysis=AnalysisConfig())) == 0.05


def test_metric_of_which_more_is_better_stops_an_arm_that_has_less():
    analysis = AnalysisConfig(metrics=("helpful",), guardrails={"helpful": 0.05})
    found = {"helpful": of_errors(booleans(2_000, 1_000), booleans(2_000, 1_400))}
    [stop] = stops({"analysis": analysis}, found)
    [test] = stop.tests
    assert not stop.now and test.harm == pytest.approx(0.2)
    assert stops({"analysis": analysis}, {"helpful": of_errors(booleans(2_000, 1_400), booleans(2_000, 1_000))}) == []


def test_costs_stop_an_arm_only_past_their_burn_in():
    analysis = AnalysisConfig(metrics=("cost",), guardrails={"cost": 0.001})

    def costs(n: int, mean: float) -> UnitSums:
        return UnitSums(n, n * mean, n * mean**2 * 1.5)

    assert stops({"analysis": analysis}, {"cost": of_errors(costs(499, 0.5), costs(499, 0.01))}) == []
    assert len(stops({"analysis": analysis}, {"cost": of_errors(costs(500, 0.5), costs(500, 0.01))})) == 1
    unequal = {"cost": of_errors(costs(600, 0.5), costs(6_000, 0.01), p=0.1)}
    assert stops({"analysis": analysis}, unequal) == [], "heavy tails with an unequal split: only with a cap"
    assert len(stops({"analysis": replace(analysis, caps={"cost": 1.0})}, unequal)) == 1


def test_feedback_that_is_missing_more_often_in_one_arm_stops_nothing():
    """Nine in ten of those who gave feedback were helped in both arms, but fewer of the arm's users gave any."""
    analysis = AnalysisConfig(metrics=("helpful",), guardrails={"helpful": 0.01})
    assert stops({"analysis": analysis}, {"helpful": of_errors(booleans(10_000, 9_000), booleans(20_000, 18_000))}) == []


@given(st.integers(0, 500), st.integers(0, 500), st.integers(0, 500), st.integers(0, 500), st.floats(0.05, 0.95))
def test_whatever_the_counts_no_arm_is_stopped_that_was_not_seen_to_be_worse(
    ones: int, zeros: int, control_ones: int, control_zeros: int, p: float
):
    found = stops({}, {"error": of_errors(booleans(ones + zeros, ones), booleans(control_ones + control_zeros, control_ones), p=p)})
    for stop in found:
        [test] = stop.tests
        assert test.above is not None and test.above > test.margin - 1e-9
        assert ones > 0


def ever_stopped(seed: int, rate: float, harm: float, units: int, look_every: int) -> int | None:
    """Returns after how many units the arm is stopped, or None, with a ramp and a base rate that drifts."""
    running = SimulatedExperiment(facts_of(arms={"a": 0.1, "b": 0.9}), lambda source, arm, at: draw(source, arm, at), seed)

    def draw(source: random.Random, arm: str, at: int) -> Mapping[str, float]:
        base = rate * (1 + at / units)
        return {"error": float(source.random() < base + (harm if arm == "a" else 0.0))}

    while running.units < units:
        if running.units == units // 2 // look_every * look_every:
            running.change(arms={"a": 0.5, "b": 0.5})
        running.run(look_every)
        if find_stops(running.facts, running.results, {}):
            return running.units
    return None


def test_harmless_arms_are_stopped_no_more_often_than_alpha_through_a_ramp():
    """The arm is at the margin itself, the worst that counts as harmless. tests/long looks at many more."""
    stopped = sum(ever_stopped(seed, 0.02, 0.01, 3_000, 250) is not None for seed in range(40))
    assert stopped <= 5  # of 40: more happens less than once in 50 times even at 0.05


def test_arm_with_twenty_more_errors_in_a_hundred_is_stopped_soon():
    after = [ever_stopped(seed, 0.02, 0.2, 4_000, 50) for seed in range(20)]
    assert all(each is not None and each <= 2_000 for each in after)


def test_arm_whose_every_unit_fails_is_stopped_within_a_hundred_units():
    for seed in range(20):
        running = SimulatedExperiment(facts_of(), errors({"a": 1.0, "b": 0.0}), seed)
        while not find_stops(running.facts, running.results, {}):
            running.run(1)
        assert running.units <= 40
        while not find_stops(running.facts, running.results, {})[0].now:
            running.run(1)
        assert running.units <= 100
