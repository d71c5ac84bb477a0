"""Promotion: every condition that is not met is listed with its numbers."""

from typing import Any

import pytest

from app.domain.errors import BadConfiguration
from app.domain.experiments import AnalysisConfig
from app.results.guard.promotion import Promotion, check_promotion
from app.results.statistics.sample_ratio import SampleRatio
from app.results.statistics.sums import Stratum, UnitSums
from tests.support.simulated.simulated_experiment import facts_of

ANALYSIS = AnalysisConfig(metrics=("helpful", "error"), guardrails={"error": 0.01})


def results(n: int = 5_000, helpful: tuple[int, int] = (3_000, 2_500), errors: tuple[int, int] = (20, 20)) -> dict[str, list[Stratum]]:
    def strata(counts: tuple[int, int]) -> list[Stratum]:
        sums = [UnitSums(n, ones, ones, n - ones, ones) for ones in counts]
        return [Stratum(1, "minted", {"a": 0.5, "b": 0.5}, dict(zip("ab", sums, strict=True)))]

    return {"helpful": strata(helpful), "error": strata(errors)}


AS_WEIGHTED = SampleRatio(0.0, 1.0, mismatch=False)
ALARM = SampleRatio(6.9, 0.001, mismatch=True)


def check(
    found: dict[str, list[Stratum]], days: float = 8, ratio: SampleRatio | None = AS_WEIGHTED, arm: str = "a", **changes: Any
) -> Promotion:
    return check_promotion(facts_of(**{"analysis": ANALYSIS, **changes}), found, arm, days=days, assigned=ratio)


def unmet(promotion: Promotion) -> list[str]:
    return [condition.name for condition in promotion.unmet]


def test_arm_that_is_better_in_a_full_week_with_every_guardrail_met_may_be_promoted():
    promotion = check(results())
    assert unmet(promotion) == []
    assert promotion.primary.difference == pytest.approx(0.1)
    assert promotion.primary.interval is not None and promotion.primary.interval.low > 0


@pytest.mark.parametrize(
    ("found", "changes", "names", "text"),
    [
        (results(), {"days": 6.9}, ["days"], "It has run for 6.9 days, of at least 7 (minimum_days)."),
        (results(), {"ratio": ALARM}, ["sample_ratio"], "The split of units is not as the weights say (p 0.001, an alarm below 0.01)."),
        (results(), {"ratio": None}, ["sample_ratio"], "The split of units cannot be checked yet"),
        (results(helpful=(2_510, 2_500)), {}, ["primary"], "which is not clear of 0 in the better direction."),
        (results(helpful=(2_500, 3_000)), {}, ["primary"], "helpful differs from the control by -0.1"),
        (results(errors=(60, 20)), {}, ["guardrail"], "which is not clear of its margin of 0.01."),
        (results(), {"arms": {"a": 0.0, "b": 1.0}}, ["enrols"], "a was stopped"),
        (results(), {"stopped": ("a",)}, ["enrols"], "a was stopped"),
        (results(499, (400, 100), (0, 0)), {}, ["units", "guardrail"], "499 complete units of the arm and 499 of the control"),
        ({}, {"days": 0, "ratio": None}, ["units", "days", "burn_in", "guardrail", "sample_ratio", "outcomes"], "0 complete units"),
    ],
    ids=str,
)
def test_condition_that_is_not_met_is_listed_with_its_numbers(
    found: dict[str, list[Stratum]], changes: dict[str, Any], names: list[str], text: str
):
    promotion = check(found, **changes)
    assert unmet(promotion) == names
    assert any(text in condition.text for condition in promotion.unmet), [condition.text for condition in promotion.unmet]


def test_feedback_that_is_missing_more_often_in_one_arm_is_no_reason_to_promote_it():
    found = results()
    [stratum] = found["helpful"]
    found["helpful"] = [Stratum(1, "minted", stratum.probabilities, {**stratum.arms, "b": UnitSums(4_000, 2_000, 2_000, 2_000, 2_000)})]
    promotion = check(found)
    assert unmet(promotion) == ["outcomes"]
    assert "The split of units with a value of helpful is not as the weights say" in promotion.unmet[0].text


def test_metric_of_which_less_is_better_promotes_the_arm_that_has_less():
    analysis = AnalysisConfig(metrics=("error",))
    assert unmet(check(results(errors=(100, 400)), analysis=analysis)) == []
    assert unmet(check(results(errors=(400, 100)), analysis=analysis)) == ["primary"]


@pytest.mark.parametrize(("arm", "message"), [("c", "has no arm 'c'. It has: a, b"), ("b", "'b' is the control of 'size'")])
def test_arm_that_can_never_be_promoted_is_refused(arm: str, message: str):
    with pytest.raises(BadConfiguration) as refused:
        check(results(), arm=arm)
    assert message in str(refused.value)
