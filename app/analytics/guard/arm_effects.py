"""Effects of several arms at once, over strata with different weights: least squares with one effect for each stratum and each arm.

For two arms this is the difference with overlap weights (statistics/strata.py). Only arms of one stratum are compared, so a rate that
drifts while the weights change, as they do under an adaptive rule, is no effect of an arm.
"""

import math
from collections.abc import Sequence

from msgspec import Struct

from app.analytics.statistics.sums import Stratum, UnitSums


class ArmEffects(Struct, frozen=True):
    """`effects`: of the arms in order, less that of the first. `covariance`: of these; its first row and column are 0.

    `variances`: of one unit's value, by arm. `units`: that were used, by arm.
    """

    arms: Sequence[str]
    effects: Sequence[float]
    covariance: Sequence[Sequence[float]]
    variances: Sequence[float]
    units: Sequence[int]


def fit_effects(strata: Sequence[Stratum], arms: Sequence[str], least_units: int) -> ArmEffects | None:
    """None: too early. Of each stratum those arms count that have `least_units` units in it."""
    size = len(arms)
    laplacian = [[0.0] * size for _ in arms]
    scores = [0.0] * size
    noise = [[0.0] * size for _ in arms]
    squares, freedom, units = [0.0] * size, [0] * size, [0] * size
    for stratum in strata:
        sums = [stratum.arms.get(arm, UnitSums()) for arm in arms]
        used = [at for at, each in enumerate(sums) if each.n >= least_units and stratum.probabilities.get(arms[at], 0) > 0]
        if len(used) < 2:
            continue
        total = sum(sums[at].n for at in used)
        mean = sum(sums[at].y for at in used) / total
        variances = {at: max(0.0, sums[at].yy - sums[at].y ** 2 / sums[at].n) / (sums[at].n - 1) for at in used}
        for at in used:
            each = sums[at]
            units[at] += each.n
            squares[at] += variances[at] * (each.n - 1)
            freedom[at] += each.n - 1
            scores[at] += each.n * (each.y / each.n - mean)
            for other in used:
                laplacian[at][other] += (each.n if at == other else 0.0) - each.n * sums[other].n / total
                # Of the scores: each is a sum over arms b of (n_a [a = b] - n_a n_b / N) times the mean of b.
                noise[at][other] += sum(
                    _factor(sums, total, at, b) * _factor(sums, total, other, b) * variances[b] / sums[b].n for b in used
                )
    if not all(units):
        return None
    inverse = _inverse([row[1:] for row in laplacian[1:]])
    if inverse is None:
        return None
    effects = [0.0, *(sum(a * b for a, b in zip(row, scores[1:], strict=True)) for row in inverse)]
    inner = _product(_product(inverse, [row[1:] for row in noise[1:]]), inverse)
    covariance = [[0.0] * size, *([0.0, *row] for row in inner)]
    return ArmEffects(arms, effects, covariance, [s / max(1, f) for s, f in zip(squares, freedom, strict=True)], units)


def variance_between(fitted: ArmEffects, one: int, other: int) -> float:
    c = fitted.covariance
    return max(0.0, c[one][one] + c[other][other] - 2 * c[one][other])


def _factor(sums: Sequence[UnitSums], total: int, arm: int, other: int) -> float:
    return (sums[arm].n if arm == other else 0.0) - sums[arm].n * sums[other].n / total


def _product(one: Sequence[Sequence[float]], two: Sequence[Sequence[float]]) -> list[list[float]]:
    columns = list(zip(*two, strict=True))
    return [[math.fsum(a * b for a, b in zip(row, column, strict=True)) for column in columns] for row in one]


def _inverse(matrix: Sequence[Sequence[float]]) -> list[list[float]] | None:
    """By elimination; None: singular, as when arms were never in one stratum."""
    size = len(matrix)
    rows = [[*row, *(1.0 if at == column else 0.0 for column in range(size))] for at, row in enumerate(matrix)]
    for column in range(size):
        pivot = max(range(column, size), key=lambda at: abs(rows[at][column]))
        if abs(rows[pivot][column]) < 1e-9:
            return None
        rows[column], rows[pivot] = rows[pivot], rows[column]
        divisor = rows[column][column]
        rows[column] = [value / divisor for value in rows[column]]
        for at in range(size):
            if at != column and rows[at][column]:
                factor = rows[at][column]
                rows[at] = [value - factor * lead for value, lead in zip(rows[at], rows[column], strict=True)]
    return [row[size:] for row in rows]
