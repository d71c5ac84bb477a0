"""A unit's value of each metric, as an exact integer: in millionths of the metric's own unit, of tokens in tokens.

Own units: latency and time to first token in seconds, cost in US dollars, errors and the like 0 or 1, feedback as it was sent.
"""

from collections.abc import Mapping

from app.domain.experiments import BUILT_IN_OUTCOMES, AnalysisConfig
from app.store.experiment_units.counted_experiments import CountedExperiment
from app.store.experiment_units.unit_measurements import UnitSummary, rounded_mean
from app.store.experiment_units.usage_before import UsageBefore

_MICRO = 1_000_000
_LARGEST = 2**63 - 1
_LARGEST_CAP = 1e12


def scale_of(metric: str) -> int:
    """Returns how many of a metric's integers make 1 in its own unit."""
    return 1 if metric in ("input_tokens", "output_tokens") else _MICRO


def measure(experiment: CountedExperiment, summary: UnitSummary, feedback: Mapping[str, int]) -> list[int | None]:
    """Returns values in the order of the experiment's metrics.

    A value is None if the unit has none, such as of feedback that nobody gave.
    """
    return [_bounded(_outcome(metric, summary) if metric in BUILT_IN_OUTCOMES else feedback.get(metric)) for metric in experiment.metrics]


def covariates(experiment: CountedExperiment, before: UsageBefore, feedback: Mapping[str, int]) -> list[int | None]:
    """Returns a unit's mean of each metric before the experiment: of an inference, or of what is summed up of
    a day.

    It is None if that is not known, or if the metric is 0 or 1, which is compared without. It is 0 for a unit
    that was never seen, and of feedback the mean of others: as good as any other constant, as it was fixed
    before the unit was assigned. For `feedback` see read_expected_feedback().
    """
    return [
        _bounded(_mean_before(metric, before) if metric in BUILT_IN_OUTCOMES else feedback.get(metric)) for metric in experiment.metrics
    ]


def capped(experiment: CountedExperiment, metric: str, value: int) -> int:
    cap = cap_of(experiment.analysis, metric)
    return value if cap is None else min(value, cap)


def cap_of(analysis: AnalysisConfig, metric: str) -> int | None:
    """Returns the most that a unit counts with, or None if there is no cap."""
    cap = analysis.caps.get(metric)
    return None if cap is None else round(min(cap, _LARGEST_CAP) * scale_of(metric))


def _outcome(metric: str, summary: UnitSummary) -> int | None:
    match metric:
        case "error":
            return _MICRO * summary.error
        case "schema_failure":
            return _MICRO * summary.schema_failure
        case "refusal":
            return _MICRO * summary.refusal
        case "latency":
            return rounded_mean(summary.duration_us, summary.inferences)
        case "time_to_first_token":
            return rounded_mean(summary.first_token_us, summary.first_tokens) if summary.first_tokens else None
        case "cost":
            return None if summary.unpriced else summary.cost_microusd
        case "input_tokens":
            return summary.input_tokens
        case "output_tokens":
            return summary.output_tokens
        case _:
            raise AssertionError(f"{metric} is no built-in outcome")


def _mean_before(metric: str, before: UsageBefore) -> int | None:
    match metric:
        case "latency":
            return _mean(before.duration_us, before.requests)
        case "time_to_first_token":
            return _mean(before.first_token_us, before.first_tokens)
        case "cost":
            return _mean(before.cost_microusd, before.days)
        case "input_tokens":
            return _mean(before.input_tokens, before.days)
        case "output_tokens":
            return _mean(before.output_tokens, before.days)
        case _:
            return None


def _mean(total: int, count: int) -> int:
    return rounded_mean(total, count) if count else 0


def _bounded(value: int | None) -> int | None:
    return None if value is None else max(-_LARGEST, min(_LARGEST, value))
