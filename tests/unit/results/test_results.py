"""Results from sums: units and probabilities of strata, what is concluded, and how long it still takes. Pure, but for the thread."""

import datetime
from math import inf, nan
from typing import Any

import pytest

from app.domain.experiments import AnalysisConfig, MetricConfig
from app.results.experiments.metric_facts import metric_facts
from app.results.experiments.power import PowerQuestion, answer_power
from app.results.experiments.read import Reading
from app.results.experiments.results import ExperimentResults
from app.store.experiment_units.sums import COUNT_NAMES, SUM_NAMES, CountKey, SumKey
from app.store.experiments.queries import ExperimentRow

NOW = datetime.datetime(2026, 11, 28, 12, tzinfo=datetime.UTC)
HELPFUL = {"helpful": MetricConfig(kind="boolean", level="inference", optimize="max")}


def experiment(**changes: Any) -> ExperimentRow:
    fields: dict[str, Any] = {
        **{"id": "e", "name": "size", "section": "models", "owner": "m", "status": "running", "salt": "s", "arms": ["a", "b"]},
        **{"unit": "episode", "control": "a", "eligible": {}, "holdout": 0, "layer": None, "slots": None, "winner": None, "ended_at": None},
        **{"created_at": "2026-11-18T00:00:00+00:00", "started_at": "2026-11-18T00:00:00+00:00"},
        "analysis": AnalysisConfig(metrics=("helpful", "latency"), planned_units=4000),
    }
    known: dict[str, Any] = dict.fromkeys(ExperimentRow.__struct_fields__)
    return ExperimentRow(**{**known, **fields, **changes})


def boolean(arm: str, ones: int, zeros: int, version: int = 1, kind: str = "minted", **more: str) -> tuple[SumKey, dict[str, int]]:
    n, micro = ones + zeros, 1_000_000
    values = (n, ones * micro, ones * micro**2, zeros, ones, 0, 0, 0, 0, ones * micro)
    key = SumKey("e", "helpful", more.get("slice", ""), more.get("value", ""), version, kind, arm)
    return key, dict(zip(SUM_NAMES, values, strict=True))


def counted(arm: str, units: int, version: int = 1, kind: str = "minted", **more: int) -> tuple[CountKey, dict[str, int]]:
    values = {**dict.fromkeys(COUNT_NAMES, 0), "units": units, "measured": units, "complete": units, **more}
    return CountKey("e", version, kind, arm, datetime.date(2026, 11, 25)), values


def read(
    sums: Any, counts: Any, of: ExperimentRow | None = None, weights: Any = None, sliced: Any = (), **options: Any
) -> ExperimentResults:
    reading = Reading(of or experiment(), weights or {1: {"a": 1, "b": 1}}, counts, HELPFUL, NOW, options.pop("arm", None))
    return reading.results(sums, sliced, options.pop("metrics", None))


def test_clear_difference_is_a_conclusion_and_an_unclear_one_says_that_it_is_none() -> None:
    counts = [counted("a", 2000), counted("b", 2000)]
    clear = read([boolean("a", 1000, 1000), boolean("b", 1300, 700)], counts)
    assert clear.metrics[0].comparisons[0].verdict == "better"
    assert clear.conclusion.startswith("b is better than a in helpful: +15 points") and "may be concluded now" in clear.conclusion
    unclear = read([boolean("a", 1000, 1000), boolean("b", 1020, 980)], counts)
    comparison = unclear.metrics[0].comparisons[0]
    assert comparison.verdict == "no difference yet" and "not mean that they are equal" in comparison.conclusion
    assert comparison.more_units is not None and comparison.more_units > 4000
    # 4000 units in the last seven full days
    assert unclear.units_per_day == pytest.approx(4000 / 7)
    assert comparison.more_days == pytest.approx(comparison.more_units / (4000 / 7))
    assert "more days" in comparison.conclusion


def test_wait_is_of_the_split_that_new_units_have() -> None:
    """A tenth in the arm: 2.8 times the units of an equal split, and of 100 units that are needed 90 go to the control."""
    uneven = {1: {"a": 9, "b": 1}}
    equal = read([boolean("a", 1000, 1000), boolean("b", 1030, 970)], [counted("a", 2000), counted("b", 2000)])
    unequal = read([boolean("a", 1800, 1800), boolean("b", 206, 194)], [counted("a", 3600), counted("b", 400)], weights=uneven)
    needed = [found.metrics[0].comparisons[0].more_units for found in (equal, unequal)]
    assert needed[0] is not None and needed[1] is not None and needed[1] + 4000 == pytest.approx((needed[0] + 4000) / 0.36, rel=0.01)
    early = read([boolean("a", 90, 90), boolean("b", 10, 10)], [counted("a", 180), counted("b", 20)], weights=uneven)
    assert early.metrics[0].comparisons[0].more_units == 800
    stopped = read([boolean("a", 1000, 1000), boolean("b", 1020, 980)], [], weights={1: {"a": 1, "b": 1}, 2: {"a": 1, "b": 0}})
    assert (stopped.metrics[0].comparisons[0].more_units, stopped.metrics[0].comparisons[0].more_days) == (None, None)
    same = read([boolean("a", 500, 0), boolean("b", 500, 0)], [counted("a", 500), counted("b", 500)])
    assert same.metrics[0].comparisons[0].verdict == "too early" and "takes" not in same.conclusion, "nobody knows how long"


def test_wait_for_feedback_is_as_long_as_few_units_get_any() -> None:
    sums = [boolean("a", 1000, 1000), boolean("b", 1020, 980)]
    all_of_them, a_tenth = (read(sums, [counted(arm, units) for arm in "ab"]) for units in (2000, 20_000))
    wait = [found.metrics[0].comparisons[0].more_days for found in (all_of_them, a_tenth)]
    assert wait[0] == pytest.approx(wait[1]), "ten times the units a day, of which one in ten has a value"


def test_nothing_is_known_before_the_feedback_of_the_first_units_is_complete() -> None:
    analysis = AnalysisConfig(metrics=("helpful", "latency"), feedback_hours=72)
    young = experiment(started_at=(NOW - datetime.timedelta(hours=6)).isoformat(), analysis=analysis)
    helpful, latency = read([], [counted(arm, 5000, measured=0, complete=0) for arm in "ab"], of=young).metrics
    assert helpful.comparisons[0].more_days == pytest.approx(66 / 24, abs=0.1)
    assert latency.comparisons[0].more_days == pytest.approx(0, abs=0.1)


def test_few_units_are_too_early_and_nothing_at_all_too() -> None:
    early = read([boolean("a", 10, 10), boolean("b", 10, 10)], [counted("a", 20), counted("b", 20)])
    assert early.metrics[0].comparisons[0].verdict == "too early" and early.conclusion.startswith("Too early")
    empty = read([], [])
    assert [each.comparisons[0].verdict for each in empty.metrics] == ["too early", "too early"]
    assert (empty.units_per_day, empty.warnings, empty.arms[0].inferences_per_episode) == (0, [], None)


def test_mismatch_of_the_split_forbids_any_conclusion() -> None:
    found = read([boolean("a", 1000, 1000), boolean("b", 1300, 700)], [counted("a", 2600), counted("b", 2000)])
    assert found.sample_ratio.mismatch and found.conclusion.startswith("Sample ratio mismatch")
    assert found.warnings[0] == found.conclusion


def test_units_without_values_in_one_arm_are_warned_of() -> None:
    found = read([boolean("a", 1000, 1000), boolean("b", 900, 500)], [counted("a", 2000), counted("b", 2000)])
    assert not found.sample_ratio.mismatch and found.metrics[0].sample_ratio.mismatch
    assert "are of the survivors" in found.warnings[0] and found.conclusion == found.warnings[0]


def test_versions_are_compared_apart_by_their_own_weights() -> None:
    """Pooled, b would seem better by far: the second version has most of it, and a better time."""
    weights = {1: {"a": 9, "b": 1}, 2: {"a": 1, "b": 1}}
    sums = [boolean("a", 1800, 7200), boolean("b", 200, 800), boolean("a", 3000, 2000, 2), boolean("b", 3000, 2000, 2)]
    counts = [counted("a", 9000), counted("b", 1000), counted("a", 5000, 2), counted("b", 5000, 2)]
    found = read(sums, counts, weights=weights)
    assert not found.sample_ratio.mismatch
    assert found.metrics[0].comparisons[0].difference == pytest.approx(0, abs=1e-12)
    # Units of named episodes are always split by the first version's weights.
    named = [counted("a", 9000, 2, "text"), counted("b", 1000, 2, "text")]
    assert not read([], named, weights=weights).sample_ratio.mismatch
    assert read([], [counted("a", 9000, 2), counted("b", 1000, 2)], weights=weights).sample_ratio.mismatch


def test_kinds_of_ids_and_slices_are_parts() -> None:
    kinds = [boolean(arm, 500, 500, kind=kind) for arm in "ab" for kind in ("minted", "text")]
    sliced = [boolean(arm, 100 + size, 100, slice="tenant", value=f"t{size}") for arm in "ab" for size in range(30)]
    found = read(kinds, [counted(arm, 1000, kind=kind) for arm in "ab" for kind in ("minted", "text")], sliced=sliced)
    parts = found.metrics[0].parts
    assert [each.value for each in parts if each.kind == "episode_kind"] == ["minted", "text"]
    assert [each.value for each in parts if each.kind == "slice"] == [f"t{size}" for size in range(29, 9, -1)], "the largest"
    assert "ids that callers chose" in found.warnings[0]


def test_served_by_others_excluded_and_inferences_are_beside_each_arm() -> None:
    more: dict[str, Any] = {"inferences": 300, "episodes": 100, "served_by_other": 30, "excluded": 40}
    found = read([], [counted("a", 100), counted("b", 100, **more)])
    arm = found.arms[1]
    assert (arm.inferences_per_episode, arm.served_by_other_share, arm.excluded, arm.share) == (3, 0.1, 40, 0.5)
    assert found.warnings[0].startswith("40 of 240 units are excluded")


def test_alpha_is_split_by_what_the_start_declared_and_not_by_what_is_read() -> None:
    all_of_them = metric_facts(experiment(arms=["a", "b", "c"]), HELPFUL)
    assert [each.plan.alpha for each in all_of_them] == [0.0125, 0.0125]
    assert [each.metric for each in read([], [], metrics=["latency"]).metrics] == ["latency"]
    assert read([], [], metrics=["latency"]).metrics[0].alpha == read([], []).metrics[1].alpha


def test_power_needs_more_units_for_smaller_effects_more_arms_and_unequal_shares() -> None:
    plain = answer_power(PowerQuestion(effect=0.02, rate=0.1, units_per_day=500))
    assert plain.fixed_units < plain.units and plain.days is not None and plain.days * 500 >= plain.units
    for harder in ({"effect": 0.01}, {"arms": 3}, {"share": 0.1}, {"metrics": 8}, {"power": 0.95}):
        question: dict[str, Any] = {"effect": 0.02, "rate": 0.1, **harder}
        assert answer_power(PowerQuestion(**question)).units > plain.units
    assert [each.chance for each in plain.chances] == sorted(each.chance for each in plain.chances)
    assert plain.chances[3].chance == pytest.approx(0.8, abs=0.03)
    both = {"effect": 0.1, "rate": 0.1, "deviation": 1.0}
    impossible: list[dict[str, Any]] = [{"effect": 0.1}, {"effect": 0, "rate": 0.1}, both, {"effect": -0.2, "rate": 0.1}]
    impossible += [{"effect": 2.2e-311, "deviation": 11220210.0}, {"effect": 1e-20, "rate": 0.0}]
    impossible += [{"effect": 0.1, "deviation": 5e-324}, {"effect": 0.1, "rate": 0.1, "units_per_day": 5e-324}]
    impossible += [{"effect": effect, "deviation": 1.0} for effect in (1e300, inf, -inf, nan)]
    impossible += [{"effect": 0.1, "rate": 0.1, "units_per_day": inf}]
    for wrong in impossible:
        with pytest.raises(ValueError, match=r"effect|rate|deviation|units_per_day"):
            answer_power(PowerQuestion(**wrong))


def test_power_is_of_the_comparison_that_results_make() -> None:
    """Nobody tells them which rate to expect, and before the burn-in they say nothing."""
    rare = answer_power(PowerQuestion(effect=0.02, rate=0.02))
    assert rare.units == pytest.approx(2.1 * rare.fixed_units, rel=0.02)
    for large in (PowerQuestion(effect=5.0, deviation=1.0), PowerQuestion(effect=0.9, rate=0.05)):
        assert answer_power(large).units == 200
    unequal = answer_power(PowerQuestion(effect=5.0, deviation=1.0, share=0.1))
    assert (unequal.units, [each.chance for each in unequal.chances[:3]]) == (5000, [0, 0, 0])
