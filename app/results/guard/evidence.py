"""Evidence as the log of an experiment keeps it: JSON with the numbers that decided, and the sums of units that they come from."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import asdict

from app.results.guard.adaptive import Proposal
from app.results.guard.facts import ExperimentFacts, Results
from app.results.guard.guardrails import ArmBaseline, Stop, stop_alpha
from app.results.guard.promotion import Promotion
from app.results.statistics.sums import Stratum, UnitSums

# Strata of the newest versions that an act keeps, of each metric; of older ones how many units there were.
MAX_STRATA = 200
_SUMS = UnitSums.__struct_fields__


def of_stop(facts: ExperimentFacts, stop: Stop, results: Results, baseline: ArmBaseline | None) -> dict[str, Any]:
    """Returns the evidence of a stop. `results` are those that decided, without those of a baseline."""
    return {
        "rule": {
            "alpha": facts.analysis.alpha,
            "alpha_of_each_guardrail_and_arm": stop_alpha(facts),
            "stops_if": "e_value >= needed and harm > margin",
            "since_version": None if baseline is None else baseline.since,
        },
        "tests": [{**asdict(test), "exceeds_margin": test.exceeds_margin, "fails_outright": test.fails_outright} for test in stop.tests],
        "sums": sums_of(results, facts.analysis.guardrails, (stop.arm, facts.control)),
    }


def of_put_back(facts: ExperimentFacts, arm: str, results: Results) -> dict[str, Any]:
    """Returns the evidence of a put_back, from which read_baseline() reads the baseline."""
    since = facts.version
    kept = {metric: [stratum for stratum in results.get(metric, ()) if stratum.version >= since] for metric in facts.analysis.guardrails}
    return {"since_version": since, "sums": sums_of(kept, kept, (arm, facts.control), most=None)}


def read_baseline(evidence: Mapping[str, Any]) -> ArmBaseline:
    """Returns the baseline that the evidence of a put_back holds."""
    strata = {metric: [_to_stratum(each) for each in kept["strata"]] for metric, kept in evidence["sums"].items()}
    return ArmBaseline(evidence["since_version"], strata)


def of_weights(facts: ExperimentFacts, proposal: Proposal, results: Results) -> dict[str, Any]:
    return {
        "rule": msgspec.to_builtins(facts.adaptive),
        "metric": facts.primary,
        "optimize": facts.direction(facts.primary),
        "shares": dict(proposal.shares),
        "believed": {arm: asdict(each) for arm, each in proposal.believed.items()},
        "probability_of_best": None if proposal.best is None else dict(proposal.best),
        "winner": proposal.winner,
        "units": proposal.units,
        "sums": sums_of(results, (facts.primary,), list(proposal.shares)),
    }


def of_promotion(facts: ExperimentFacts, promotion: Promotion, results: Results, forced: str | None) -> dict[str, Any]:
    """Returns the evidence of a promotion.

    `forced` is the reason of whoever promotes the arm nevertheless.
    """
    metrics = dict.fromkeys((promotion.primary_metric, *facts.analysis.guardrails))
    return {
        "conditions": [asdict(condition) for condition in promotion.conditions],
        "forced": forced,
        "primary": {"metric": promotion.primary_metric, **msgspec.to_builtins(promotion.primary)},
        "guardrails": [asdict(test) for test in promotion.guardrails],
        "sums": sums_of(results, metrics, (promotion.arm, facts.control)),
    }


def sums_of(results: Results, metrics: Collection[str], arms: Sequence[str], most: int | None = MAX_STRATA) -> dict[str, Any]:
    """Returns, by metric, the newest strata with the sums of these arms, and how many units of the rest are
    left out.
    """
    found: dict[str, Any] = {}
    for metric in metrics:
        strata = results.get(metric, ())
        cut = 0 if most is None else max(0, len(strata) - most)
        left_out = sum(stratum.arms[arm].n for stratum in strata[:cut] for arm in arms if arm in stratum.arms)
        found[metric] = {"strata": [_from_stratum(stratum, arms) for stratum in strata[cut:]], "units_left_out": left_out}
    return found


def _from_stratum(stratum: Stratum, arms: Sequence[str]) -> dict[str, Any]:
    return {
        "version": stratum.version,
        "episode_kind": stratum.episode_kind,
        "probabilities": {arm: stratum.probabilities.get(arm, 0.0) for arm in arms},
        "arms": {arm: {name: getattr(stratum.arms[arm], name) for name in _SUMS} for arm in arms if arm in stratum.arms},
    }


def _to_stratum(kept: Mapping[str, Any]) -> Stratum:
    return Stratum(
        kept["version"], kept["episode_kind"], kept["probabilities"], {arm: UnitSums(**sums) for arm, sums in kept["arms"].items()}
    )
