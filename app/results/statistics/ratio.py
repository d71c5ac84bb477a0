"""Ratios of two sums over units, such as tokens per request: the unit is still what varies, not the request.

Delta method: Deng, Knoblich, Lu 2018, https://arxiv.org/abs/1803.06336. The denominator is kept as the covariate x of UnitSums.
"""

from app.results.statistics.moments import covariance, covariate_variance, sum_of_squares
from app.results.statistics.sums import UnitSums


def ratio(sums: UnitSums) -> float:
    return sums.y / sums.x


def ratio_variance(sums: UnitSums) -> float:
    """Returns the variance of one unit's part in the ratio. Divided by n it is the variance of the ratio."""
    denominator, r = sums.x / sums.n, sums.y / sums.x
    y = sum_of_squares(sums.n, sums.y, sums.yy) / (sums.n - 1)
    return max(0.0, (y - 2 * r * covariance(sums) + r * r * covariate_variance(sums)) / denominator**2)
