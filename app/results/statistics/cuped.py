"""CUPED: take out of a difference what a covariate from before the assignment explains; its variance falls by 1 - correlation².

Deng, Xu, Kohavi, Walker 2013 (WSDM), https://doi.org/10.1145/2433396.2433413. As a regression-adjusted confidence sequence:
Lindon, Ham, Tingley, Bojinov 2022, https://arxiv.org/abs/2210.08589; Waudby-Smith et al. 2024, https://arxiv.org/abs/2103.06476.
The covariate must be fixed before the unit is assigned: one that an arm can change biases the difference.
"""

from app.results.statistics.moments import covariance, covariate_variance, variance
from app.results.statistics.sums import UnitSums


def slope(control: UnitSums, arm: UnitSums) -> float:
    """Returns theta, over both arms together, or 0 where the covariate does not vary."""
    both = control + arm
    spread = covariate_variance(both)
    return covariance(both) / spread if spread else 0.0


def adjusted_difference(control: UnitSums, arm: UnitSums, theta: float) -> float:
    return arm.y / arm.n - control.y / control.n - theta * (arm.x / arm.n - control.x / control.n)


def adjusted_variance(sums: UnitSums, theta: float) -> float:
    """Returns the variance of units, adjusted by the covariate. With theta 0 it is the plain one."""
    if theta == 0:
        return variance(sums)
    return max(0.0, variance(sums) - 2 * theta * covariance(sums) + theta**2 * covariate_variance(sums))
