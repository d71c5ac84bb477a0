"""Promotion: what must be true before an arm becomes the winner. Each condition says its numbers, met or not."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from app.domain.errors import BadConfiguration
from app.results.guard.facts import ExperimentFacts, Results
from app.results.guard.guardrails import GuardrailTest, test_arm
from app.results.statistics.compare import Comparison, compare
from app.results.statistics.multiplicity import split_alpha
from app.results.statistics.pairs import pairs
from app.results.statistics.sample_ratio import ALPHA as SAMPLE_RATIO_ALPHA
from app.results.statistics.sample_ratio import SampleRatio, sample_ratio_of

ConditionName: TypeAlias = Literal["enrols", "units", "days", "burn_in", "primary", "guardrail", "sample_ratio", "outcomes"]


class Condition(Struct, frozen=True):
    """A condition of a promotion. `text` is a sentence that holds as it stands, with the numbers."""

    name: ConditionName
    met: bool
    text: str


class Promotion(Struct, frozen=True, kw_only=True):
    """The conditions of the promotion of an arm, met or not.

    `primary` is the comparison in the first metric.
    """

    arm: str
    conditions: Sequence[Condition]
    primary_metric: str
    primary: Comparison
    guardrails: Sequence[GuardrailTest]

    @property
    def unmet(self) -> list[Condition]:
        return [condition for condition in self.conditions if not condition.met]


def check_promotion(facts: ExperimentFacts, results: Results, arm: str, *, days: float, assigned: SampleRatio | None) -> Promotion:
    """Checks whether an arm may be promoted.

    `days` have passed since the first version took effect. `assigned` is the split of units as they were
    assigned, or None if none is yet. Raises BadConfiguration for an arm that can never be promoted.
    """
    if arm not in facts.arms:
        raise BadConfiguration(f"The experiment {facts.name!r} has no arm {arm!r:.100}. It has: {', '.join(sorted(facts.arms))}.")
    if arm == facts.control:
        raise BadConfiguration(
            f"{arm!r} is the control of {facts.name!r}, which serves once that has ended: `narthex experiments stop {facts.name}`."
        )
    analysis, metric = facts.analysis, facts.primary
    strata = results.get(metric, ())
    alpha = split_alpha(analysis.alpha, len(facts.others), facts.metrics)[metric]
    compared = compare(strata, facts.control, arm, facts.plan(metric, alpha))
    # Nothing is promised by all of them together but what each of them promises by itself, so they do not share alpha.
    guardrails = test_arm(facts, results, arm, analysis.alpha)
    found = pairs(strata, facts.control, arm)
    conditions = [
        _enrols(facts, arm),
        _units(facts, sum(pair.arm.n for pair in found), sum(pair.control.n for pair in found)),
        _days(analysis.minimum_days, days),
        *_primary(metric, compared, alpha),
        *(_guardrail(test) for test in guardrails),
        _ratio("sample_ratio", "The split of units", assigned),
        _ratio("outcomes", f"The split of units with a value of {metric}", sample_ratio_of(strata) if strata else None),
    ]
    return Promotion(arm=arm, conditions=conditions, primary_metric=metric, primary=compared, guardrails=guardrails)


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


def _primary(metric: str, compared: Comparison, alpha: float) -> list[Condition]:
    if compared.verdict in ("too early", "needs a cap") or compared.interval is None:
        return [Condition("burn_in", False, f"{metric}, the primary metric, cannot be compared yet: {compared.reason}.")]
    burned_in = Condition("burn_in", True, f"{metric}, the primary metric, is past its burn-in.")
    low, high = compared.interval.low, compared.interval.high
    text = f"{metric} differs from the control by {low:.4g} to {high:.4g}, at any time with a probability of {1 - alpha:.4g}"
    if compared.verdict == "better":
        return [burned_in, Condition("primary", True, f"{text}: it is better.")]
    return [burned_in, Condition("primary", False, f"{text}, which is not clear of 0 in the better direction.")]


def _guardrail(test: GuardrailTest) -> Condition:
    if test.below is None or test.above is None:
        return Condition("guardrail", False, f"{test.metric}, a guardrail, cannot be compared yet: {test.reason}.")
    text = f"{test.metric}, a guardrail, is worse by {test.above:.4g} to {test.below:.4g}"
    if test.clears:
        return Condition("guardrail", True, f"{text}, less than its margin of {test.margin:g}.")
    return Condition("guardrail", False, f"{text}, which is not clear of its margin of {test.margin:g}.")


def _ratio(name: ConditionName, what: str, ratio: SampleRatio | None) -> Condition:
    if ratio is None:
        return Condition(name, False, f"{what} cannot be checked yet: there are none.")
    text = f"{what} is {'not ' if ratio.mismatch else ''}as the weights say (p {ratio.p:.3g}, an alarm below {SAMPLE_RATIO_ALPHA:g})."
    return Condition(name, not ratio.mismatch, text)
