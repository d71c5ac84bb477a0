"""Sketches of durations: counts by logarithmic buckets, from which quantiles are read within a known error, and which can be added up.

A value of x microseconds counts in the bucket ceil(ln x / ln GAMMA), and a bucket stands for one value, which is at most RELATIVE_ERROR
away from everything in it. In Postgres a sketch is a bigint[] of `bucket << COUNT_BITS | count`, in any order, with a bucket in several
entries or in one. Source: DDSketch, https://arxiv.org/abs/1908.10693, read 2026-11.
"""

from collections.abc import Mapping, Sequence
from math import ceil, log

RELATIVE_ERROR = 0.02
COUNT_BITS = 40
# Entries of a stored sketch beyond which those of the same bucket are added up.
MAX_ENTRIES = 192

_GAMMA = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
_BUCKETS_PER_E = 1 / log(_GAMMA)


def bucket_of(microseconds: int) -> int:
    return ceil(log(microseconds) * _BUCKETS_PER_E) if microseconds > 1 else 0


def pack(counts: Mapping[int, int]) -> list[int]:
    """The sketch with these counts by bucket."""
    return [bucket << COUNT_BITS | count for bucket, count in counts.items()]


def quantiles(counts: Mapping[int, int], fractions: Sequence[float]) -> list[int | None]:
    """The values, in microseconds, that these fractions of all values do not exceed; None where there are no values.

    `fractions` must ascend.
    """
    total = sum(counts.values())
    if not total:
        return [None] * len(fractions)
    found: list[int | None] = []
    seen = 0
    buckets = iter(sorted(counts))
    bucket = 0
    for fraction in fractions:
        rank = max(1, ceil(fraction * total))
        while seen < rank:
            bucket = next(buckets)
            seen += counts[bucket]
        found.append(_value_of(bucket))
    return found


def total_of(counts: Mapping[int, int]) -> int:
    """The sum of all values, in microseconds, within RELATIVE_ERROR."""
    return sum(count * _value_of(bucket) for bucket, count in counts.items())


def _value_of(bucket: int) -> int:
    return round(2 * _GAMMA**bucket / (_GAMMA + 1)) if bucket > 0 else 1
