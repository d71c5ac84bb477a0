"""The verdicts of a comparison, and the cases in which it says nothing."""

from math import exp, log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.results.statistics import boolean_counts
from app.results.statistics.boolean_difference import Evidence
from app.results.statistics.compare import Comparison, compare
from app.results.statistics.estimate import arm_estimate
from app.results.statistics.harm import harm
from app.results.statistics.pairs import pairs, planned_overlap
from app.results.statistics.plan import Plan
from app.results.statistics.sums import Stratum, UnitSums

bounded = settings(max_examples=60, deadline=None)  # a busy machine is no reason to fail
EVEN = {"control": 0.5, "arm": 0.5}
ARMS = "control", "arm"
UNEVEN = {"control": 0.9, "arm": 0.1}
SUCCESS = Plan("boolean", "max", complete=True)
FEEDBACK = Plan("boolean", "max")
SCORE = Plan("float", "max")
COST = Plan("heavy_tailed", "min")


def booleans(units: int, ones: int) -> UnitSums:
    return UnitSums(units, ones, ones, units - ones, ones)


def values(units: int, mean: float, deviation: float = 1.0) -> UnitSums:
    """Returns sums of units of which half are a deviation above the mean, and half below."""
    return UnitSums(units, units * mean, units * (mean**2 + deviation**2))


def stratum(control: UnitSums, arm: UnitSums, weights: dict[str, float] = EVEN, version: int = 1) -> Stratum:
    return Stratum(version, "ours", weights, {"control": control, "arm": arm})


def compared(strata: list[Stratum], plan: Plan) -> Comparison:
    return compare(strata, "control", "arm", plan)


def test_arm_that_is_clearly_better_is_called_better_and_the_other_way_round_worse() -> None:
    found = compared([stratum(values(1000, 5), values(1000, 5.5))], SCORE)
    assert (found.verdict, found.difference, found.method) == ("better", 0.5, "confidence sequence")
    assert found.interval is not None and found.interval.low > 0 and found.p < 0.05
    assert compared([stratum(values(1000, 5.5), values(1000, 5))], SCORE).verdict == "worse"
    assert compared([stratum(values(1000, 5), values(1000, 5.5))], COST).verdict == "worse"


def test_without_enough_units_there_is_a_reason_and_no_interval() -> None:
    found = compared([stratum(values(99, 5), values(200, 9))], SCORE)
    assert (found.verdict, found.interval, found.p) == ("too early", None, 1.0)
    assert found.reason == "an arm has 99 complete units, and 100 are needed"
    assert found.arm is not None and (found.arm.value, found.arm.interval) == (9, None)
    assert compared([stratum(values(499, 5), values(600, 9))], COST).verdict == "too early"
    assert compared([stratum(values(500, 5), values(600, 9))], COST).verdict == "worse"
    assert compared([], SCORE).reason == "no unit is complete yet"


def test_units_that_nearly_all_have_one_value_are_too_early() -> None:
    mostly_one = UnitSums(1000, 991.0 + 4.5, 991.0 + 2.25, 0, 991)
    assert compared([stratum(mostly_one, values(1000, 0.5, 0.1))], SCORE).verdict == "too early"
    same = UnitSums(1000, 1000 * 0.1, 1000 * 0.1 * 0.1)
    assert compared([stratum(same, same)], SCORE).reason == "all units of an arm have the same value"


def test_unequal_arms_need_a_cap_and_then_more_units() -> None:
    unequal = [stratum(values(4000, 5), values(450, 9), UNEVEN)]
    assert compared(unequal, COST).verdict == compared(unequal, SCORE).verdict == "needs a cap"
    assert compared(unequal, Plan("float", "max", cap=10)).verdict == "too early"
    assert compared([stratum(values(4000, 5), values(500, 9), UNEVEN)], Plan("float", "max", cap=10)).verdict == "better"


def test_arm_without_a_rare_value_near_the_cap_is_no_better() -> None:
    """The control took 300 seconds once in 500 times, the arm of 500 units not yet: a usual interval would leave 0 out."""
    control = UnitSums(4500, 9 * 300 + 4491 * 5, 9 * 300**2 + 4491 * 25.25)
    arm = UnitSums(500, 500 * 5, 500 * 25.25)
    plan = Plan("heavy_tailed", "min", cap=300)
    assert compared([stratum(control, arm, UNEVEN)], plan).verdict == "no difference yet"
    even = compared([stratum(arm, arm)], plan)
    assert even.interval is not None and even.interval.contains(0.6), "if one of them alone has them, none may have come yet"
    slow = UnitSums(500, 500 * 9, 500 * 81.25)
    assert compared([stratum(control, slow, UNEVEN)], plan).verdict == "worse", "clearly slower, whatever the rare values are"


def test_number_has_an_interval_of_its_own_only_with_a_cap() -> None:
    """The skewness of a number by itself is not cancelled.

    An interval of the mean of 5 seconds and rarely 300 would be wrong in four of ten experiments.
    """
    strata = [stratum(values(600, 5), values(600, 5))]
    uncapped, capped = (arm_estimate(strata, "arm", Plan("heavy_tailed", "min", cap=cap)) for cap in (None, 10))
    assert uncapped is not None and (uncapped.value, uncapped.interval) == (5, None)
    assert capped is not None and capped.interval is not None and capped.interval.contains(5)
    of_booleans = arm_estimate([stratum(booleans(60, 30), booleans(60, 30))], "arm", SUCCESS)
    assert of_booleans is not None and of_booleans.interval is not None


def test_ramp_with_a_drifting_level_shows_no_difference_between_equal_arms() -> None:
    """The arm would be at 6.4 and the control at 5.4 if they were pooled."""
    ramp = [
        stratum(values(9500, 5), values(500, 5), {"control": 0.95, "arm": 0.05}, 1),
        stratum(values(8000, 6), values(2000, 6), {"control": 0.8, "arm": 0.2}, 2),
        stratum(values(5000, 7), values(5000, 7), {"control": 0.5, "arm": 0.5}, 3),
    ]
    found = compared(ramp, Plan("float", "max", cap=10))
    assert (found.verdict, found.difference) == ("no difference yet", pytest.approx(0, abs=1e-12))
    assert found.control is not None and found.arm is not None and found.arm.value == pytest.approx(found.control.value)


def test_versions_that_lack_units_are_left_out_until_they_have_them() -> None:
    ready, early = stratum(values(1000, 5), values(1000, 5.5)), stratum(values(50, 1), values(50, 99), version=2)
    found = compared([ready, early], SCORE)
    assert (found.difference, found.units, found.units_left_out) == (0.5, 2000, 100)


def test_version_in_which_an_arm_had_no_chance_does_not_count() -> None:
    alone = stratum(values(1000, 50), values(1000, 1), {"control": 0.0, "arm": 1.0}, 2)
    assert compared([stratum(values(1000, 5), values(1000, 5.5)), alone], SCORE).difference == 0.5


def test_difference_within_the_margin_is_called_equal_only_if_the_interval_is() -> None:
    close = [stratum(values(10_000, 5), values(10_000, 5.01))]
    assert compared(close, Plan("float", "max", equal_within=0.1)).verdict == "equal"
    assert compared(close, Plan("float", "max", equal_within=0.02)).verdict == "no difference yet"


def test_lift_is_shown_only_where_the_control_is_known_well() -> None:
    found = compared([stratum(values(1000, 5), values(1000, 5.5))], SCORE)
    assert found.lift == pytest.approx(0.1)
    assert found.lift_interval is not None and found.lift_interval.low < 0.1 < found.lift_interval.high
    assert compared([stratum(values(1000, 0.3), values(1000, 0.5))], SCORE).lift is None


def test_covariate_narrows_the_interval() -> None:
    control = UnitSums(1000, 5000, 34_000, 0, 0, 4800, 32_000, 30_000)
    arm = UnitSums(1000, 5300, 37_500, 0, 0, 4850, 32_500, 32_000)
    found = compared([stratum(control, arm)], SCORE)
    assert found.difference == pytest.approx(0.2657097) and found.variance_reduction == pytest.approx(0.4578, abs=1e-4)


def test_covariate_that_is_the_same_for_all_changes_nothing() -> None:
    """0.1 summed a thousand times is not a thousand times 0.1: what rounding leaves must not pass for a covariate."""
    total, squares, products = 0.0, 0.0, 0.0
    for number in range(1000):
        total, squares, products = total + 0.1, squares + 0.1 * 0.1, products + 0.1 * (5 + (-1) ** number)
    sums = UnitSums(1000, 5000, 26_000, 0, 0, total, squares, products)
    other = UnitSums(1000, 5500, 31_250, 0, 0, total, squares, products + 50)
    found = compared([stratum(sums, other)], SCORE)
    assert (found.difference, found.variance_reduction) == (pytest.approx(0.5), 0.0)


def test_arms_that_each_have_one_value_are_too_early_whatever_their_covariates_are() -> None:
    """One arm might take 16 tokens and the other 32, each time."""
    control = UnitSums(600, 600 * 16.0, 600 * 16.0**2, 0, 0, 3000, 18_000, 3000 * 16)
    arm = UnitSums(600, 600 * 32.0, 600 * 32.0**2, 0, 0, 3100, 19_000, 3100 * 32)
    found = compared([stratum(control, arm)], COST)
    assert (found.verdict, found.reason) == ("too early", "all units of an arm have the same value")
    assert harm([stratum(control, arm)], "control", "arm", COST, 1.0).reason == found.reason


def test_feedback_that_one_arm_gets_more_often_is_no_difference() -> None:
    """Users of the arm answer half as often again, as pleased as those of the control: the counts alone would tell the arms apart."""
    answered = [stratum(booleans(1000, 600), booleans(1500, 901))]
    assert compared(answered, SUCCESS).log_e_value > 3
    found = compared(answered, FEEDBACK)
    assert (found.verdict, found.method) == ("no difference yet", "confidence sequence")
    assert compared([stratum(booleans(99, 60), booleans(99, 60))], FEEDBACK).interval is None
    assert not harm(answered, "control", "arm", FEEDBACK, 0.0).exceeds


def test_few_booleans_have_an_exact_interval_and_a_broken_arm_is_found_among_them() -> None:
    few = compared([stratum(booleans(30, 20), booleans(30, 22))], SUCCESS)
    assert few.verdict == "too early" and few.interval is not None and few.interval.contains(0)
    broken = compared([stratum(booleans(20, 0), booleans(20, 20))], Plan("boolean", "min", complete=True))
    assert (broken.verdict, broken.method) == ("worse", "exact counts")


def test_booleans_of_one_version_without_a_unit_in_one_arm_do_not_fail() -> None:
    found = compared([stratum(booleans(0, 0), booleans(1, 1)), stratum(booleans(1, 0), booleans(1, 1), version=2)], SUCCESS)
    assert (found.verdict, found.units, found.units_left_out) == ("too early", 2, 1)
    with_covariates = UnitSums(1, 1, 1, 0, 1, 3, 9, 3)
    assert compared([stratum(with_covariates, UnitSums(1, 0, 0, 1, 0, 4, 16, 0))], SUCCESS).difference == -1


@pytest.mark.parametrize("rate", [0.02, 0.3, 0.5, 0.9])
def test_interval_of_booleans_is_little_wider_than_the_asymptotic_one(rate: float) -> None:
    """The interval is less than a quarter wider at the planned size: not knowing the rate beforehand costs that."""
    ones = int(5000 * rate)
    found = compared([stratum(booleans(5000, ones), booleans(5000, ones))], SUCCESS)
    asymptotic = 3.035 * (rate * (1 - rate) / 2500) ** 0.5
    assert found.interval is not None and asymptotic < found.interval.high < 1.25 * asymptotic
    guessed = compared([stratum(booleans(5000, ones), booleans(5000, ones))], Plan("boolean", "max", complete=True, expected_rate=rate))
    assert guessed.interval is not None and guessed.interval.high < found.interval.high


def test_verdict_interval_and_evidence_of_booleans_agree() -> None:
    for ones in range(500, 620, 3):
        found = compared([stratum(booleans(1000, 500), booleans(1000, ones))], SUCCESS)
        assert found.interval is not None
        assert (found.verdict == "better") == (found.interval.low > 0) == (found.log_e_value >= -log(0.05))


def test_count_test_of_successes_is_a_bet_without_a_centre() -> None:
    """Both are the likelihood of a success's arm: one as theta over pi, the other as a stake on it."""
    counts = boolean_counts.Successes(0.2, 400, 130)
    delta = 0.3
    theta = 0.2 * exp(delta) / (0.2 * exp(delta) + 0.8)
    stake = theta / 0.2 - 1
    bet = 130 * log(1 + stake) + 400 * log(1 - stake * 0.2 / 0.8)
    assert boolean_counts.log_likelihood([counts], delta) == pytest.approx(bet)


def test_risk_ratio_is_unbounded_where_nothing_bounds_it() -> None:
    nothing = boolean_counts.risk_ratio([boolean_counts.Successes(0.5, 0, 0)], 0.05)
    assert (nothing.low, nothing.high) == (0.0, float("inf"))
    one_sided = boolean_counts.risk_ratio([boolean_counts.Successes(0.5, 0, 30)], 0.05)
    assert one_sided.low > 1 and one_sided.high == float("inf")


def test_harm_beyond_the_margin_stops_and_harm_within_it_does_not() -> None:
    worse = [stratum(booleans(5000, 100), booleans(5000, 250))]
    errors = Plan("boolean", "min", complete=True)
    assert harm(worse, "control", "arm", errors, 0.01).exceeds
    small = harm(worse, "control", "arm", errors, 0.05)
    assert (small.exceeds, small.clear) == (False, True)
    mirrored = [stratum(booleans(5000, 4900), booleans(5000, 4750))]
    assert harm(mirrored, "control", "arm", SUCCESS, 0.01).exceeds
    costly = [stratum(values(2000, 5), values(2000, 5.5))]
    assert harm(costly, "control", "arm", COST, 0.3).exceeds
    assert harm(costly, "control", "arm", COST, 1.0).clear
    assert not harm(costly, "control", "arm", COST, 0.5).exceeds
    assert harm(costly, "control", "arm", SCORE, 0.0).clear, "a higher score is no harm"
    assert harm([stratum(values(100, 5), values(100, 50))], "control", "arm", COST, 0.3).reason is not None


counts = st.integers(0, 400).flatmap(lambda units: st.tuples(st.just(units), st.integers(0, units)))


@bounded
@given(counts, counts, st.sampled_from([0.05, 0.3, 0.5]))
def test_swapping_arms_mirrors_the_comparison(control: tuple[int, int], arm: tuple[int, int], share: float) -> None:
    one = [stratum(booleans(*control), booleans(*arm), {"control": 1 - share, "arm": share})]
    other = [stratum(booleans(*arm), booleans(*control), {"control": share, "arm": 1 - share})]
    left, right = compared(one, SUCCESS), compared(other, SUCCESS)
    if left.interval is None or right.interval is None:
        assert left.interval == right.interval and control[0] + arm[0] == 0
        return
    assert (left.interval.low, left.interval.high) == pytest.approx((-right.interval.high, -right.interval.low), abs=1e-7)
    assert left.log_e_value == pytest.approx(right.log_e_value)


@bounded
@given(counts, counts)
def test_counting_failures_mirrors_the_comparison(control: tuple[int, int], arm: tuple[int, int]) -> None:
    successes = compared([stratum(booleans(*control), booleans(*arm))], SUCCESS)
    failed = (control[0], control[0] - control[1]), (arm[0], arm[0] - arm[1])
    failures = compared([stratum(booleans(*failed[0]), booleans(*failed[1]))], SUCCESS)
    if successes.interval is not None and failures.interval is not None:
        assert successes.interval.low == pytest.approx(-failures.interval.high, abs=1e-7)


@bounded
@given(counts, counts, counts, counts)
def test_versions_with_one_split_are_as_one(a: tuple[int, int], b: tuple[int, int], c: tuple[int, int], d: tuple[int, int]) -> None:
    """Enrolment may be ramped: the exact test of booleans does not see it."""
    apart = [stratum(booleans(*a), booleans(*b)), stratum(booleans(*c), booleans(*d), version=2)]
    together = [stratum(booleans(*a) + booleans(*c), booleans(*b) + booleans(*d))]
    evidence = [Evidence(found, planned_overlap(found, 10_000), 0.05) for found in (pairs(apart, *ARMS), pairs(together, *ARMS))]
    assert evidence[0].log_e_value() == pytest.approx(evidence[1].log_e_value(), abs=1e-9)
