"""Several arms and several metrics: how much error each comparison may spend."""

from collections.abc import Sequence
from math import log

from app.results.statistics.mixture import log_average

# The primary metric's part of alpha.
PRIMARY_SHARE = 0.5


def split_alpha(alpha: float, arms: int, metrics: Sequence[str], primary_share: float = PRIMARY_SHARE) -> dict[str, float]:
    """alpha of each metric's comparison of one arm with the control, the first metric being the primary one.

    `arms` are those beside the control, all that the start declared, whether they have units or not. Bonferroni, weighted: all
    intervals of all arms and metrics hold together with probability 1 - alpha, at all times.
    """
    if len(metrics) == 1:
        return {metrics[0]: alpha / arms}
    others = alpha * (1 - primary_share) / (arms * (len(metrics) - 1))
    return {metric: alpha * primary_share / arms if place == 0 else others for place, metric in enumerate(metrics)}


def discoveries(log_e_values: Sequence[float], alpha: float) -> set[int]:
    """e-BH: which hypotheses may be listed with a false discovery rate of at most alpha; indices into `log_e_values`.

    Wang, Ramdas 2022, https://arxiv.org/abs/2009.02824: under any dependence. Of the current e-values only: running maxima do not
    control the rate (Tavyrikov, Goeman, de Heide 2025, https://arxiv.org/abs/2501.19360).
    """
    order = sorted(range(len(log_e_values)), key=lambda index: -log_e_values[index])
    listed = 0
    for place, index in enumerate(order, start=1):
        if log(place) + log_e_values[index] - log(len(order)) >= -log(alpha):
            listed = place
    return set(order[:listed])


def average_log_e_value(log_e_values: Sequence[float]) -> float:
    """Averages of e-values are e-values, whatever their dependence; products only of independent or successive ones."""
    return log_average([-log(len(log_e_values))] * len(log_e_values), log_e_values)
