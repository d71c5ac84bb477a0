"""Tuning of confidence sequences: at which amount of information they are narrowest.

A sequence is valid at every moment, but narrowest around one that is chosen before the first look: r (Howard, Ramdas, McAuliffe,
Sekhon 2021, https://arxiv.org/abs/1810.08240). Here r is always given as information at the plan, divided by x*, so formulas take
`kappa`, the information so far divided by r. Information is counted in units (overlap weights, strata.py), so kappa depends on counts
and frozen settings alone: a kappa that follows the data would break the guarantee.
"""

from functools import lru_cache
from math import log, log1p


@lru_cache(maxsize=256)
def optimal_kappa(alpha: float) -> float:
    """x*, the kappa at which the two-sided sequence is narrowest: x - ln(1 + x) = -2 ln(alpha)."""
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be between 0 and 1, not {alpha}")
    target = -2 * log(alpha)
    x = target + log1p(target) + 1
    for _ in range(50):  # Newton's method; the function is convex, so it comes from above and does not overshoot
        x -= (x - log1p(x) - target) * (1 + x) / x
    return x


def kappa(information: float, planned: float, alpha: float) -> float:
    """Information so far over r. Both in the same unit, whichever it is; wrong by a factor of 4 the plan costs 3 to 7 % of width."""
    return optimal_kappa(alpha) * information / planned
