"""Power, splits of alpha, rules that adapt weights, and pairs."""

from math import inf, log
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.results.statistics.best_arm import tracking_shares, winner
from app.results.statistics.compare import compare
from app.results.statistics.multiplicity import average_log_e_value, discoveries, split_alpha
from app.results.statistics.paired import compare_outcomes, compare_pairs, judge_score, unshrunk_difference
from app.results.statistics.plan import Plan
from app.results.statistics.posterior import Belief, beliefs
from app.results.statistics.power import chance_to_conclude, detectable_effect, duration, fixed_units, needed_units
from app.results.statistics.sample_ratio import sample_ratio, sample_ratio_of
from app.results.statistics.sums import Stratum, UnitSums
from app.results.statistics.thompson import probabilities_of_best, shares

bounded = settings(max_examples=60, deadline=None)  # a busy machine is no reason to fail
FLOAT = Plan("float", "max")
EVEN = {"control": 0.5, "arm": 0.5}


def test_fixed_size_is_the_usual_one() -> None:
    assert fixed_units(0.1, 1.0, 0.5, 0.05) == pytest.approx(2 * 15.7 / 0.1**2, rel=1e-3)
    assert fixed_units(0.1, 1.0, 0.1, 0.05) == pytest.approx(2 * 15.7 / 0.1**2 / 0.36, rel=1e-3)


def test_sequence_needs_the_printed_multiples_of_the_fixed_size() -> None:
    """Half of experiments have stopped by 0.93 of it, 80 % by 1.61, 90 % by 2.08 (4,000 simulated paths)."""
    fixed = fixed_units(0.1, 1.0, 0.5, 0.05)
    plan = Plan("float", "max", planned_units=round(fixed))
    for multiple, expected in ((0.93, 0.5), (1, 0.54), (1.5, 0.76), (1.61, 0.8), (2, 0.89), (2.08, 0.9), (3, 0.98)):
        assert chance_to_conclude(0.1, 1.0, plan, multiple * fixed) == pytest.approx(expected, abs=0.015)
    assert needed_units(0.1, 1.0, FLOAT) == pytest.approx(1.61 * fixed, rel=0.01)
    assert needed_units(0.1, 0.25, Plan("boolean", "max", complete=True)) < 2.2 * fixed_units(0.1, 0.25, 0.5, 0.05)


def test_without_an_effect_the_chance_to_conclude_stays_below_alpha() -> None:
    chances = [chance_to_conclude(0.0, 1.0, FLOAT, units) for units in (10_000, 100_000, 10_000_000)]
    assert chances == sorted(chances) and chances[0] > 0.01 and chances[-1] < 0.05


@pytest.mark.parametrize("effect", [1e-6, 0.01, 1.0, 100.0])
@pytest.mark.parametrize("units", [10, 10_000, 1_000_000_000])
def test_chance_to_conclude_is_a_probability_however_large_the_effect(effect: float, units: int) -> None:
    chance = chance_to_conclude(effect, 1.0, FLOAT, units)
    assert 0 <= chance <= 1
    assert chance_to_conclude(effect * 2, 1.0, FLOAT, units) >= chance - 1e-3


def test_detectable_effect_and_duration_agree_with_the_size() -> None:
    plan = Plan("float", "max", planned_units=5000)
    effect = detectable_effect(1.0, plan, 5000)
    assert chance_to_conclude(effect, 1.0, plan, 5000) == pytest.approx(0.8, abs=0.01)
    lasting = duration(0.1, 1.0, FLOAT, units_a_day=700)
    assert (lasting.days, lasting.units == needed_units(0.1, 1.0, FLOAT)) == (14, True)
    assert duration(0.1, 1.0, FLOAT, units_a_day=0).days is None


@bounded
@given(st.integers(1, 9), st.integers(1, 12))
def test_split_spends_alpha_and_no_more(arms: int, metrics: int) -> None:
    split = split_alpha(0.05, arms, [f"m{number}" for number in range(metrics)])
    assert sum(split.values()) * arms == pytest.approx(0.05)
    assert split["m0"] >= max(split.values())


def test_discoveries_need_more_the_fewer_they_are() -> None:
    assert discoveries([log(19), log(19)], 0.1) == {0, 1}
    assert discoveries([log(19), 0.0], 0.1) == set()
    assert discoveries([inf, -inf], 0.1) == {0}
    assert discoveries([], 0.1) == set()
    assert average_log_e_value([log(2), log(4)]) == pytest.approx(log(3))


def test_sample_ratio_finds_a_mismatch_and_an_arm_that_had_no_chance() -> None:
    assert not sample_ratio([({"control": 5000, "arm": 4950}, EVEN)]).mismatch
    found = sample_ratio([({"control": 5300, "arm": 4700}, EVEN), ({"control": 530, "arm": 470}, EVEN)])
    assert found.mismatch and found.p < 0.001
    impossible = sample_ratio([({"control": 10, "arm": 1}, {"control": 1.0, "arm": 0.0})])
    assert impossible.mismatch and impossible.p == 0
    assert not sample_ratio([({"control": 10}, {"control": 1.0, "arm": 0.0})]).mismatch
    assert not sample_ratio([]).mismatch
    assert sample_ratio_of([Stratum(1, None, EVEN, {"control": UnitSums(900), "arm": UnitSums(500)})]).mismatch


def test_probability_of_best_follows_means_and_their_errors() -> None:
    equal = probabilities_of_best({name: Belief(1.0, 0.1, 100) for name in "abc"}, "max")
    assert equal == pytest.approx(dict.fromkeys("abc", 1 / 3))
    two = probabilities_of_best({"a": Belief(0.0, 0.3, 100), "b": Belief(0.5, 0.4, 100)}, "max")
    assert two["b"] == pytest.approx(0.8413447, abs=1e-4), "one standard error of the difference"
    assert probabilities_of_best({"a": Belief(0.0, 0.3, 100), "b": Belief(0.5, 0.4, 100)}, "min")["a"] == pytest.approx(two["b"])
    wide = probabilities_of_best({"a": Belief(0.0, 1e-6, 100), "b": Belief(5.0, 1e-6, 100)}, "max")
    assert wide == pytest.approx({"a": 0.0, "b": 1.0})


@bounded
@given(st.lists(st.floats(0, 1), min_size=2, max_size=6), st.floats(0, 0.9))
def test_no_share_is_below_the_minimum(weights: list[float], minimum: float) -> None:
    total = sum(weights) or 1.0
    found = shares({str(place): weight / total for place, weight in enumerate(weights)}, minimum)
    if sum(weights):
        assert sum(found.values()) == pytest.approx(1)
    assert min(found.values()) >= min(minimum, 1 / len(weights)) - 1e-9


def test_tracking_shares_favour_the_best_and_its_rival() -> None:
    equal = tracking_shares({"a": Belief(1.0, 0.1, 100), "b": Belief(0.5, 0.1, 100)}, "max")
    assert equal == pytest.approx({"a": 0.5, "b": 0.5}, abs=1e-6)
    three = tracking_shares({"a": Belief(1.0, 0.1, 100), "b": Belief(0.8, 0.1, 100), "c": Belief(0.0, 0.1, 100)}, "max")
    assert three["a"] > three["c"] and three["b"] > 5 * three["c"] and sum(three.values()) == pytest.approx(1)
    noisy = tracking_shares({"a": Belief(1.0, 0.1, 100), "b": Belief(0.5, 0.3, 100)}, "max")
    assert noisy["b"] == pytest.approx(0.75, abs=1e-3), "shares of two arms are as their deviations"
    tied = tracking_shares({"a": Belief(1.0, 0.1, 100), "b": Belief(1.0, 0.1, 100)}, "max")
    assert tied == {"a": 0.5, "b": 0.5}


def test_winner_is_named_when_the_hardest_comparison_is_won() -> None:
    close = {"a": Belief(1.0, 0.1, 500), "b": Belief(0.9, 0.1, 500), "c": Belief(0.0, 0.1, 500)}
    assert winner(close, "max", 0.05) is None
    assert winner({**close, "b": Belief(0.4, 0.1, 500)}, "max", 0.05) == "a"
    assert winner({**close, "b": Belief(0.4, 0.1, 500)}, "min", 0.05) is None
    assert winner({"a": Belief(1.0, 0.01, 9), "b": Belief(0.0, 0.01, 500)}, "max", 0.05) is None


def test_beliefs_are_not_misled_by_weights_that_follow_a_drift() -> None:
    """Both arms are at 1 and later at 3, when nearly all units go to one of them: its plain mean is twice the other's."""

    def ones(units: int, value: int) -> UnitSums:
        return UnitSums(units, units * value, units * (value**2 + 1))

    early = Stratum(1, None, {"a": 0.9, "b": 0.1}, {"a": ones(900, 1), "b": ones(100, 1)})
    late = Stratum(2, None, {"a": 0.1, "b": 0.9}, {"a": ones(100, 3), "b": ones(900, 3)})
    found = beliefs([early, late], ["a", "b"])
    assert found is not None and found["a"].mean == pytest.approx(found["b"].mean) == pytest.approx(2)
    assert beliefs([Stratum(1, None, {"a": 0.5, "b": 0.5}, {"a": ones(9, 1), "b": ones(900, 1)})], ["a", "b"]) is None
    same = UnitSums(100, 0.0, 0.0, 100)
    unvaried = beliefs([Stratum(1, None, {"a": 0.5, "b": 0.5}, {"a": same, "b": same})], ["a", "b"])
    assert unvaried is not None and probabilities_of_best(unvaried, "min") == pytest.approx({"a": 0.5, "b": 0.5})


def test_many_small_versions_are_compared_together() -> None:
    """A bandit makes such versions: none has a hundred units of each arm.

    The level drifts, and the arm gets ever more units.
    """

    def around(units: int, value: float) -> UnitSums:
        return UnitSums(units, units * value, units * (value**2 + 1))

    strata: list[Stratum] = []
    for version in range(1, 41):
        percent, level = 20 + 2 * (version * 3 // 4), 5 + version / 40
        sums = {"control": around(100 - percent, level), "arm": around(percent, level + 1)}
        strata.append(Stratum(version, None, {"control": 1 - percent / 100, "arm": percent / 100}, sums))
    found = compare(strata, "control", "arm", Plan("float", "max", cap=10))
    assert (found.verdict, found.units, found.units_left_out) == ("better", 4000, 0)
    assert found.difference == pytest.approx(1.0, abs=0.02)
    assert compare(strata[:2], "control", "arm", Plan("float", "max", cap=10)).verdict == "too early"


def test_pairs_cancel_what_requests_have_in_common() -> None:
    better = compare_pairs(UnitSums(400, 80.0, 120.0), FLOAT)
    assert (better.verdict, better.difference) == ("better", 0.2)
    assert compare_pairs(UnitSums(99, 80.0, 120.0), FLOAT).reason == "99 units are complete, and 100 are needed"
    assert compare_pairs(UnitSums(400, 9.0, 9.0, 391, 9), FLOAT).verdict == "too early"
    assert compare_pairs(UnitSums(400, 400.0, 400.0, 0, 400), FLOAT).verdict == "too early"
    assert compare_pairs(UnitSums(), FLOAT).difference is None


def test_outcomes_of_pairs_are_compared_by_those_that_differ() -> None:
    assert compare_outcomes(10, 60, 1000, FLOAT).verdict == "better"
    assert compare_outcomes(60, 10, 1000, FLOAT).verdict == "worse"
    even = compare_outcomes(30, 36, 1000, FLOAT)
    assert even.verdict == "no difference yet" and even.interval is not None and even.interval.contains(0.006)
    assert compare_outcomes(0, 0, 0, FLOAT).verdict == "too early"


@bounded
@given(st.integers(1, 100_000))
def test_pairs_without_a_difference_may_differ_as_often_as_their_number_allows(pairs: int) -> None:
    none, more = (compare_outcomes(0, 0, each, FLOAT).interval for each in (pairs, 2 * pairs))
    assert none is not None and more is not None and none.low == -none.high and 0 < more.high < none.high
    # A rate that pairs alike exclude at this one look is excluded by no narrower interval at all looks.
    assert (1 - none.high) ** pairs <= FLOAT.alpha / 2
    assert none.high < log(pairs + 2) / pairs + 10 / pairs
    assert compare_outcomes(0, 0, pairs, FLOAT).difference == 0


@bounded
@given(st.integers(0, 200), st.integers(0, 200), st.integers(1, 2000))
def test_outcomes_swapped_are_the_same_difference_the_other_way(only_a: int, only_b: int, same: int) -> None:
    units = only_a + only_b + same
    one, other = compare_outcomes(only_a, only_b, units, FLOAT), compare_outcomes(only_b, only_a, units, FLOAT)
    assert one.interval is not None and other.interval is not None and one.difference is not None
    assert (one.interval.low, one.interval.high) == pytest.approx((-other.interval.high, -other.interval.low), abs=1e-6)
    assert one.interval.contains(one.difference)


@pytest.mark.parametrize(("of_a", "of_b"), [(0.0, 0.0), (0.0, 0.01), (0.02, 0.02), (0.1, 0.3), (0.5, 0.5)])
def test_interval_of_outcomes_holds_at_every_look(of_a: float, of_b: float) -> None:
    chance, missed = Random(7), 0
    for _ in range(200):
        only_a = only_b = 0
        has_missed = False
        for count in range(1, 801):
            drawn = chance.random()
            only_a, only_b = only_a + (drawn < of_a), only_b + (of_a <= drawn < of_a + of_b)
            if count % 20 == 0 and not has_missed:
                interval = compare_outcomes(only_a, only_b, count, FLOAT).interval
                has_missed = interval is None or not interval.contains(of_b - of_a)
        missed += has_missed
    assert missed <= 200 * FLOAT.alpha


def test_floats_that_never_differ_have_no_interval_and_say_so() -> None:
    found = compare_pairs(UnitSums(400, 0.0, 0.0, 400), FLOAT)
    assert (found.verdict, found.difference, found.interval) == ("too early", 0.0, None)
    assert found.reason is not None and found.reason.startswith("none of 400 units differs")


def test_judge_that_prefers_a_place_says_it_is_a_tie() -> None:
    assert judge_score(0.9, 0.2) == 0.5
    assert judge_score(0.9, 0.7) == pytest.approx(0.8)
    assert unshrunk_difference(0.07, 0.9, 0.8) == pytest.approx(0.1)
    with pytest.raises(ValueError, match="says nothing"):
        unshrunk_difference(0.07, 0.5, 0.5)
