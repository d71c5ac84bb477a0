"""The asymptotic confidence sequence: an interval that may be looked at after every unit.

Normal mixture: Howard et al. 2021, https://arxiv.org/abs/1810.08240; for means with estimated variances: Waudby-Smith, Arbour, Sinha,
Kennedy, Ramdas 2024, https://arxiv.org/abs/2103.06476; as a sequential test: Johari, Koomen, Pekelis, Walsh 2022,
https://arxiv.org/abs/1512.04922. It holds as the burn-in grows (burn_in.py), not from the first unit.

z is an estimate less its hypothetical value, over its standard error; kappa is information over r (tuning.py).
"""

from dataclasses import dataclass
from math import erfc, exp, inf, log, log1p, pi, sqrt


@dataclass(frozen=True, slots=True)
class Interval:
    low: float
    high: float

    def contains(self, value: float) -> bool:
        return self.low <= value <= self.high


def critical_z(kappa: float, alpha: float) -> float:
    """|z| beyond which a value is excluded: sqrt((1 + 1/kappa) ln((1 + kappa) / alpha²)). 3.035 at the plan for alpha 0.05."""
    if kappa <= 0:
        return inf
    return sqrt((1 + 1 / kappa) * (log1p(kappa) - 2 * log(alpha)))


def interval(estimate: float, standard_error: float, kappa: float, alpha: float) -> Interval:
    half_width = critical_z(kappa, alpha) * standard_error
    return Interval(estimate - half_width, estimate + half_width)


def log_e_value(z: float, kappa: float) -> float:
    """Evidence against the value: 1/alpha or more excludes it, at the same moments as the interval does."""
    return -log1p(kappa) / 2 + z * z / 2 * kappa / (1 + kappa)


def one_sided_log_e_value(z: float, kappa: float) -> float:
    """Evidence that the estimated quantity is above the value, whatever lies below: for guardrails."""
    return log(2) + log_e_value(z, kappa) + log_normal_cdf(z * sqrt(kappa / (1 + kappa)))


def one_sided_critical_z(kappa: float, alpha: float) -> float:
    """The z at which the one-sided e-value reaches 1/alpha."""
    low, high = 0.0, critical_z(kappa, alpha)  # at high it is at least that of the two-sided one
    if high == inf:
        return inf
    for _ in range(60):
        middle = (low + high) / 2
        if one_sided_log_e_value(middle, kappa) < -log(alpha):
            low = middle
        else:
            high = middle
    return high


def always_valid_p(log_e: float) -> float:
    """Returns the p-value of this look.

    The least over all looks is as valid: whoever keeps looks may keep that.
    """
    return exp(-max(log_e, 0.0))


def boundary(variance: float, r: float, alpha: float) -> float:
    """Returns how far a sum of centred values of this total variance may stray: the same sequence, for sums."""
    return critical_z(variance / r, alpha) * sqrt(variance)


def log_normal_cdf(x: float) -> float:
    if x > -35:
        return log(erfc(-x / sqrt(2)) / 2)
    return -x * x / 2 - log(-x * sqrt(2 * pi))  # the tail's leading term: erfc is 0 from 38 standard deviations on
