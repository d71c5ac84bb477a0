"""Quantiles such as the median or the 95th percentile of a latency, from a histogram, at any time.

Howard, Ramdas 2022, https://arxiv.org/abs/1906.09712. A unit counts once: of several inferences of one unit take one value. A histogram
holds one version of an experiment, or several with the same split: over a ramp, quantiles of arms are no more comparable than means.
"""

from collections.abc import Mapping
from math import ceil, exp, inf, log, sqrt

from msgspec import Struct

from app.results.statistics.confidence_sequence import Interval
from app.results.statistics.tuning import optimal_kappa

# Values of a bucket differ by at most this factor.
BUCKET_FACTOR = 1.02
# Of values of 0 and below, and of all below 1e-12.
LOWEST_BUCKET = ceil(log(1e-12) / log(BUCKET_FACTOR))


class Quantile(Struct, frozen=True):
    value: float
    interval: Interval


def bucket_of(value: float) -> int:
    """Returns the bucket of a value. Buckets are (factor^(i - 1), factor^i]."""
    return LOWEST_BUCKET if value <= 0 else max(LOWEST_BUCKET, ceil(log(value) / log(BUCKET_FACTOR) - 1e-9))


def upper_edge(bucket: int) -> float:
    return exp(bucket * log(BUCKET_FACTOR)) if bucket > LOWEST_BUCKET else 0.0


def quantile(histogram: Mapping[int, int], q: float, alpha: float, planned_units: int) -> Quantile | None:
    """Returns a quantile of one arm from its units by bucket, or None without a unit.

    The interval reaches to the edges of its buckets, so it is exact.
    """
    total = sum(histogram.values())
    if not total:
        return None
    margin = rank_margin(total, alpha, planned_units)
    low, middle, high = (bucket_at(histogram, total, rank) for rank in (q - margin, q, q + margin))
    edge_below = 0.0 if low is None or q - margin < 0 else upper_edge(low - 1) if low > LOWEST_BUCKET else 0.0
    value = upper_edge(middle) if middle is not None else upper_edge(max(histogram))
    return Quantile(value, Interval(edge_below, inf if high is None else upper_edge(high)))


def quantile_difference(control: Mapping[int, int], arm: Mapping[int, int], q: float, alpha: float, planned_units: int) -> Interval | None:
    """Returns the interval of arm less control: each at alpha / 2, and their ends subtracted.

    `planned_units` is of both together.
    """
    of_control = quantile(control, q, alpha / 2, planned_units // 2)
    of_arm = quantile(arm, q, alpha / 2, planned_units // 2)
    if of_control is None or of_arm is None:
        return None
    return Interval(of_arm.interval.low - of_control.interval.high, of_arm.interval.high - of_control.interval.low)


def rank_margin(units: int, alpha: float, planned_units: int) -> float:
    """Returns how far, in shares of units, the true quantile may lie from the empirical one.

    It holds at any time, for all distributions.
    """
    variance, tuned = units / 4, planned_units / 4 / optimal_kappa(alpha)
    return sqrt((variance + tuned) * log((variance + tuned) / (tuned * alpha * alpha))) / units


def bucket_at(histogram: Mapping[int, int], total: int, rank: float) -> int | None:
    """Returns the first bucket up to which more than this share of units lies, or None if there is no such
    bucket.
    """
    seen = 0
    for bucket in sorted(histogram):
        seen += histogram[bucket]
        if seen > rank * total:
            return bucket
    return None
