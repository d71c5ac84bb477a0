"""Promotion: what must be true before an arm becomes the winner. Each condition says its numbers, met or not."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from app.analytics.guard import pair_difference
from app.analytics.guard.facts import ExperimentFacts, Results
from app.analytics.guard.guardrails import GuardrailTest, test_arm
from app.analytics.guard.pair_difference import PairDifference, total_units
from app.store.errors import BadConfiguration

ConditionName: TypeAlias = Literal["enrols", "units", "days", "burn_in", "primary", "guardrail", "sample_ratio"]
SAMPLE_RATIO_ALPHA = 0.01


class Condition(Struct, frozen=True):
    """`text`: a sentence that holds as it stands, with the numbers."""

    name: ConditionName
    met: bool
    text: str


class Promotion(Struct, frozen=True, kw_only=True):
    """Whether an arm may be promoted. `primary`: of the first metric, how much better it is than the control; None: too early."""

    arm: str
    conditions: Sequence[Condition]
    primary_metric: str
    improvement: float | None
    interval: tuple[float, float] | None
    guardrails: Sequence[GuardrailTest]

    @property
    def unmet(self) -> list[Condition]:
        return [condition for condition in self.conditions if not condition.met]


def check_promotion(facts: ExperimentFacts, results: Results, arm: str, *, days: float, sample_ratio_p: float | None) -> Promotion:
    """`days`: since the first version took effect. `sample_ratio_p`: always valid; None: no unit was counted yet.

    Raises BadConfiguration for an arm that can never be promoted.
    """
    if arm not in facts.arms:
        raise BadConfiguration(f"The experiment {facts.name!r} has no arm {arm!r:.100}. It has: {', '.join(sorted(facts.arms))}.")
    if arm == facts.control:
        raise BadConfiguration(
            f"{arm!r} is the control of {facts.name!r}, which serves once that has ended: `narthex experiments stop {facts.name}`."
        )
    analysis = facts.analysis
    metric = facts.primary
    better, worse = (arm, facts.control) if facts.directions[metric] == "max" else (facts.control, arm)
    strata = results.get(metric, ())
    compared = pair_difference.compare(strata, better, worse, capped=facts.is_capped(metric))
    alpha = analysis.alpha / len(facts.others)
    interval = None if compared is None else pair_difference.interval(compared, analysis.planned_units, alpha)
    # Nothing is promised by all of them together but what each of them promises by itself, so they do not share alpha.
    guardrails = test_arm(facts, results, arm, analysis.alpha)
    conditions = [
        _enrols(facts, arm),
        _units(facts, total_units(strata, arm), total_units(strata, facts.control)),
        _days(analysis.minimum_days, days),
        _burn_in(metric, compared),
        _primary(metric, interval, alpha),
        *(_guardrail(test) for test in guardrails),
        _sample_ratio(sample_ratio_p),
    ]
    return Promotion(
        arm=arm,
        conditions=conditions,
        primary_metric=metric,
        improvement=None if compared is None else compared.estimate,
        interval=interval,
        guardrails=guardrails,
    )


def _enrols(facts: ExperimentFacts, arm: str) -> Condition:
    if facts.enrols(arm):
        return Condition("enrols", True, f"{arm} takes new units, with the weight {facts.arms[arm]:g}.")
    return Condition("enrols", False, f"{arm} was stopped: it takes no new units.")


def _units(facts: ExperimentFacts, of_arm: int, of_control: int) -> Condition:
    least = facts.analysis.minimum_units
    text = f"{of_arm} complete units of the arm and {of_control} of the control, of at least {least} each (minimum_units)."
    return Condition("units", min(of_arm, of_control) >= least, text)


def _days(least: float, days: float) -> Condition:
    return Condition("days", days >= least, f"It has run for {days:.1f} days, of at least {least:g} (minimum_days).")


def _burn_in(metric: str, compared: PairDifference | None) -> Condition:
    if compared is None:
        return Condition("burn_in", False, f"{metric}: too early, no version of the weights is past its burn-in.")
    return Condition("burn_in", True, f"{metric}: {compared.strata} versions are past their burn-in.")


def _primary(metric: str, interval: tuple[float, float] | None, alpha: float) -> Condition:
    if interval is None:
        return Condition("primary", False, f"{metric}, the primary metric, has no interval yet.")
    text = f"{metric}, the primary metric, is better by {interval[0]:.4g} to {interval[1]:.4g} ({1 - alpha:.4g} at any time)"
    return Condition("primary", interval[0] > 0, text + (", clear of 0." if interval[0] > 0 else ", which is not clear of 0."))


def _guardrail(test: GuardrailTest) -> Condition:
    if test.below is None or test.above is None:
        return Condition("guardrail", False, f"{test.metric}, a guardrail, has no interval yet.")
    text = f"{test.metric}, a guardrail, is worse by {test.above:.4g} to {test.below:.4g}"
    if test.clears:
        return Condition("guardrail", True, f"{text}, less than its margin of {test.margin:g}.")
    return Condition("guardrail", False, f"{text}, which is not clear of its margin of {test.margin:g}.")


def _sample_ratio(p: float | None) -> Condition:
    if p is None:
        return Condition("sample_ratio", False, "No unit was counted yet, so the split cannot be checked.")
    alarm = p < SAMPLE_RATIO_ALPHA
    text = f"The split of units is {'not ' if alarm else ''}as the weights say (p {p:.3g}, an alarm below {SAMPLE_RATIO_ALPHA:g})."
    return Condition("sample_ratio", not alarm, text)
