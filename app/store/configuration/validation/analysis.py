"""Validation of how an experiment is read, and of weights that follow its primary metric."""

from collections.abc import Mapping
from math import isfinite

from app.domain.errors import BadConfiguration
from app.domain.experiments import BOOLEAN_OUTCOMES, BUILT_IN_OUTCOMES, AdaptiveConfig, AnalysisConfig, ExperimentConfig, MetricConfig
from app.store.configuration.validation.prices import MAX_NAME_CHARACTERS

_MAX_METRICS = 20
_MAX_SLICES = 5
# Below these the methods promise nothing (burn-in).
_MIN_UNITS = 100
_MAX_UNITS = 1_000_000_000
_MAX_WINDOW_MINUTES = 28 * 24 * 60
_MAX_FEEDBACK_HOURS = 90 * 24
_MAX_DAYS = 366
_MIN_ADAPTIVE_MINUTES = 10  # an experiment has 10,000 versions at most: at this pace they last for two months
_MAX_ADAPTIVE_MINUTES = 7 * 24 * 60


def check_analysis(path: str, experiment: ExperimentConfig, declared: Mapping[str, MetricConfig]) -> None:
    """Raises BadConfiguration for the first error. `declared` has the configuration's metrics."""
    analysis = experiment.analysis
    path = f"{path}.analysis"
    if len(analysis.metrics) > _MAX_METRICS or len(set(analysis.metrics)) < len(analysis.metrics):
        raise BadConfiguration(f"{path}.metrics: at most {_MAX_METRICS}, each once.")
    for name in analysis.metrics:
        _check_metric(f"{path}.metrics", name, declared)
    metrics = analysis.metrics or BUILT_IN_OUTCOMES
    _check_direction(f"{path}.metrics", metrics[0], declared, "the first metric is the primary one, which decides")
    if not 0.0001 <= analysis.alpha <= 0.2:
        raise BadConfiguration(f"{path}.alpha: the chance of a false statement is 0.0001 to 0.2, not {analysis.alpha:g}. Usual is 0.05.")
    for field, value in (("planned_units", analysis.planned_units), ("minimum_units", analysis.minimum_units)):
        if not _MIN_UNITS <= value <= _MAX_UNITS:
            raise BadConfiguration(f"{path}.{field}: at least {_MIN_UNITS}, below which nothing can be concluded, not {value}.")
    if not 0 <= analysis.minimum_days <= _MAX_DAYS:
        raise BadConfiguration(f"{path}.minimum_days: 0 to {_MAX_DAYS}, not {analysis.minimum_days:g}. Usual is a full week, 7.")
    for name, cap in analysis.caps.items():
        _check_listed(f"{path}.caps", name, metrics)
        if _is_share(name, declared):
            raise BadConfiguration(f"{path}.caps.{name}: a unit's value of this metric is at most 1, so it needs no cap.")
        if not 0 < cap < float("inf"):
            raise BadConfiguration(f"{path}.caps.{name}: a number above 0, such as last month's 99th percentile, not {cap:g}.")
    _check_slices(f"{path}.slices", analysis)
    if not 1 <= analysis.window_minutes <= _MAX_WINDOW_MINUTES:
        raise BadConfiguration(f"{path}.window_minutes: 1 to {_MAX_WINDOW_MINUTES}, not {analysis.window_minutes}.")
    if not analysis.window_minutes / 60 <= analysis.feedback_hours <= _MAX_FEEDBACK_HOURS:
        raise BadConfiguration(
            f"{path}.feedback_hours: from the window ({analysis.window_minutes} minutes) to {_MAX_FEEDBACK_HOURS},"
            f" not {analysis.feedback_hours}."
        )
    for name, margin in analysis.guardrails.items():
        _check_listed(f"{path}.guardrails", name, metrics)
        _check_direction(f"{path}.guardrails.{name}", name, declared, "a guardrail must know what is worse")
        if not (margin >= 0 and isfinite(margin)):
            raise BadConfiguration(f"{path}.guardrails.{name}: how much worse an arm may be, 0 or more, not {margin:g}.")
        if margin >= 1 and _is_share(name, declared):
            raise BadConfiguration(
                f"{path}.guardrails.{name}: a share of units cannot be worse by {margin:g}, so no arm would ever be stopped."
                " Give a share below 1, such as 0.01 for one point."
            )


def check_adaptive(path: str, experiment: ExperimentConfig, declared: Mapping[str, MetricConfig]) -> None:
    """Raises BadConfiguration for the first error."""
    adaptive: AdaptiveConfig | None = experiment.adaptive
    if adaptive is None:
        return
    path = f"{path}.adaptive"
    if experiment.unit != "episode":
        raise BadConfiguration(
            f"{path}: the unit is {experiment.unit!r}, which has no time of birth: other weights would move units that were seen before."
            " Only weights of episodes can follow the results."
        )
    if not _MIN_ADAPTIVE_MINUTES <= adaptive.every_minutes <= _MAX_ADAPTIVE_MINUTES:
        raise BadConfiguration(f"{path}.every_minutes: {_MIN_ADAPTIVE_MINUTES} to {_MAX_ADAPTIVE_MINUTES}, not {adaptive.every_minutes}.")
    primary = (experiment.analysis.metrics or BUILT_IN_OUTCOMES)[0]
    if experiment.status != "ended" and not _is_share(primary, declared) and primary not in experiment.analysis.caps:
        raise BadConfiguration(
            f"{path}: weights that follow {primary!r} become unequal, and a number without an upper bound cannot be compared then."
            " Give it one in `analysis.caps`, such as last month's 99th percentile."
        )
    fair = 1 / len(experiment.arms)
    if not 0.001 <= adaptive.minimum_share <= fair:
        raise BadConfiguration(
            f"{path}.minimum_share: no arm goes below it, so it is 0.001 to {fair:.3g} with {len(experiment.arms)} arms,"
            f" not {adaptive.minimum_share:g}."
        )


def _check_metric(path: str, name: str, declared: Mapping[str, MetricConfig]) -> None:
    metric = declared.get(name)
    if metric is None:
        if name not in BUILT_IN_OUTCOMES:
            usable = sorted(each for each, config in declared.items() if config.kind in ("boolean", "float"))
            choices = ", ".join([*BUILT_IN_OUTCOMES, *usable[:50]])
            raise BadConfiguration(f"{path}: there is no metric {name!r:.100}. It may be one of: {choices}.")
    elif name in BUILT_IN_OUTCOMES:
        raise BadConfiguration(f"{path}: {name!r} is built in, and [metrics.{name}] has the same name. Rename that one.")
    elif metric.kind not in ("boolean", "float"):
        raise BadConfiguration(f"{path}: {name!r} is of kind {metric.kind}; only metrics of kind boolean or float can be compared.")


def _is_share(name: str, declared: Mapping[str, MetricConfig]) -> bool:
    return name in BOOLEAN_OUTCOMES or (name in declared and declared[name].kind == "boolean")


def _check_listed(path: str, name: str, metrics: tuple[str, ...]) -> None:
    if name not in metrics:
        raise BadConfiguration(f"{path}: {name!r:.100} is not one of its metrics: {', '.join(metrics)}.")


def _check_direction(path: str, name: str, declared: Mapping[str, MetricConfig], reason: str) -> None:
    if name in declared and declared[name].optimize is None:
        raise BadConfiguration(f'{path}: [metrics.{name}] has no `optimize`, and {reason}. Set it to "max" or "min".')


def _check_slices(path: str, analysis: AnalysisConfig) -> None:
    if len(analysis.slices) > _MAX_SLICES or len(set(analysis.slices)) < len(analysis.slices):
        raise BadConfiguration(f"{path}: at most {_MAX_SLICES} names of tags, each once.")
    for name in analysis.slices:
        if not name or not name.isprintable() or len(name) > MAX_NAME_CHARACTERS:
            raise BadConfiguration(f"{path}: the name of a tag has 1 to {MAX_NAME_CHARACTERS} printable characters.")
