"""The rate of one arm alone, exact while it stays the same: a beta-binomial sequence from counts.

The multinomial e-process of the sample-ratio check, with two outcomes: Lindon, Malek 2022, https://arxiv.org/abs/2011.03567.
"""

from math import lgamma, log, log1p, sqrt

from app.results.statistics.confidence_sequence import Interval
from app.results.statistics.roots import root

# A beta prior of one half each: as good for rare outcomes as for others.
PRIOR = 0.5


def rate_interval(ones: int, zeros: int, alpha: float, prior: float = PRIOR) -> Interval:
    evidence = log_beta(prior + ones, prior + zeros) - log_beta(prior, prior)
    observed = ones / (ones + zeros) if ones + zeros else 0.5

    def distance(rate: float) -> float:
        """Returns the distance from what excludes a rate, in roots, which are nearly linear in it."""
        log_likelihood = (ones * log(rate) if ones else 0.0) + (zeros * log1p(-rate) if zeros else 0.0)
        return sqrt(max(evidence - log_likelihood, 0.0)) - sqrt(-log(alpha))

    low = root(distance, SMALLEST, observed) if ones else 0.0
    high = -root(lambda rate: distance(-rate), SMALLEST - 1, -observed) if zeros else 1.0
    return Interval(low, high)


def log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)


SMALLEST = 1e-12
