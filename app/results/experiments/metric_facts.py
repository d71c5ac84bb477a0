"""The facts about a metric: its kind and unit, and how it is compared."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from app.domain.experiments import BOOLEAN_OUTCOMES, BUILT_IN_OUTCOMES, MetricConfig
from app.results.experiments.results import MetricUnit
from app.results.statistics.burn_in import MetricKind
from app.results.statistics.multiplicity import split_alpha
from app.results.statistics.plan import Plan
from app.store.experiments.queries import ExperimentRow


class MetricFacts(Struct, frozen=True):
    """The facts about one metric."""

    name: str
    is_primary: bool
    kind: MetricKind
    unit: MetricUnit
    # None if the configuration does not say, or no longer has the metric
    optimize: Literal["max", "min"] | None
    cap: float | None
    plan: Plan


def metric_names(experiment: ExperimentRow) -> tuple[str, ...]:
    return experiment.analysis.metrics or BUILT_IN_OUTCOMES


def metric_facts(experiment: ExperimentRow, declared: Mapping[str, MetricConfig]) -> list[MetricFacts]:
    """Returns the facts about all metrics that the start declared, the primary one first.

    `declared` is the configuration's.
    """
    analysis, names = experiment.analysis, metric_names(experiment)
    alphas = split_alpha(analysis.alpha, max(1, len(experiment.arms) - 1), names)
    facts: list[MetricFacts] = []
    for name in names:
        kind = _kind(name, declared)
        optimize = "min" if name in BUILT_IN_OUTCOMES else declared[name].optimize if name in declared else None
        cap = analysis.caps.get(name)
        complete = name in BUILT_IN_OUTCOMES
        plan = Plan(kind, optimize or "max", alphas[name], analysis.planned_units, cap=cap, complete=complete)
        facts.append(MetricFacts(name, name == names[0], kind, _unit(name, kind), optimize, cap, plan))
    return facts


def _kind(name: str, declared: Mapping[str, MetricConfig]) -> MetricKind:
    if name in BUILT_IN_OUTCOMES:
        return "boolean" if name in BOOLEAN_OUTCOMES else "heavy_tailed"
    return "boolean" if name in declared and declared[name].kind == "boolean" else "float"


def _unit(name: str, kind: MetricKind) -> MetricUnit:
    match name:
        case "latency" | "time_to_first_token":
            return "seconds"
        case "cost":
            return "US dollars"
        case "input_tokens" | "output_tokens":
            return "tokens"
        case _:
            return "share of units" if kind == "boolean" else "value"
