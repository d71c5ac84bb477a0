"""The exact test of booleans, from counts alone: a unit that succeeded is of the arm with the probability of its assignment, or not.

Whatever the rate of success does over time, and however rare it is, the arm of a success under equal rates is a coin with the
probability of the assignment. Lindon, Malek 2022, https://arxiv.org/abs/2011.03567, as a product over versions with a mixture over the
logarithm of the risk ratio, delta. It needs no burn-in. One success per unit, else successes are not independent. It looks at successes
only: below a rate of one half little is lost by that, above it count failures instead.
"""

from collections.abc import Sequence
from math import exp, inf, log, log1p, sqrt

from msgspec import Struct

from app.results.statistics.confidence_sequence import Interval
from app.results.statistics.mixture import log_average, normalised
from app.results.statistics.pairs import Pair
from app.results.statistics.roots import root

PRIOR_DEVIATION = 0.2
POINTS = 81
# Risk ratios beyond e±20 are none.
WIDEST = 20.0


class Successes(Struct, frozen=True):
    """Units with a success of one version.

    `probability` is that of the arm, among units of the arm and the control.
    """

    probability: float
    control: int
    arm: int


def successes(found: Sequence[Pair], value: int = 1) -> list[Successes]:
    """Units whose value is 1, or those whose value is 0."""
    if value:
        return [Successes(pair.probability, pair.control.ones, pair.arm.ones) for pair in found]
    return [Successes(pair.probability, pair.control.zeros, pair.arm.zeros) for pair in found]


def log_e_value(counts: Sequence[Successes], points: int = POINTS) -> float:
    """Evidence against equal rates."""
    deltas = [2 * index / (points - 1) - 1 for index in range(points)]
    log_weights = normalised([-(delta**2) / (2 * PRIOR_DEVIATION**2) for delta in deltas])
    return log_average(log_weights, [log_likelihood(counts, delta) for delta in deltas])


def log_likelihood(counts: Sequence[Successes], delta: float) -> float:
    """Returns the log-likelihood of a log risk ratio, less that of equal rates."""
    total = 0.0
    for each in counts:
        # theta / pi, and (1 - theta) / (1 - pi): a log-sum-exp, so that no delta overflows
        log_norm = log_sum(each.probability, delta)
        total += each.arm * (delta - log_norm) - each.control * log_norm
    return total


def log_sum(probability: float, delta: float) -> float:
    """ln(pi e^delta + 1 - pi)."""
    if delta > 0:
        return delta + log(probability + (1 - probability) * exp(-delta))
    return log1p(probability * (exp(delta) - 1))


def risk_ratio(counts: Sequence[Successes], alpha: float) -> Interval:
    """The ratio of rates, arm over control: those that the evidence does not exclude, at any time."""
    evidence = log_e_value(counts)

    def distance(delta: float) -> float:
        """Returns the distance from what excludes a ratio, in roots, which are nearly linear in it."""
        return sqrt(max(evidence - log_likelihood(counts, delta), 0.0)) - sqrt(-log(alpha))

    likeliest = most_likely(counts)
    low = root(distance, -WIDEST, likeliest)
    high = -root(lambda delta: distance(-delta), -WIDEST, -likeliest)
    return Interval(exp(low) if low > -WIDEST else 0.0, exp(high) if high < WIDEST else inf)


def most_likely(counts: Sequence[Successes]) -> float:
    """Returns the most likely log risk ratio.

    The log-likelihood is concave, so the range is halved by the sign of its slope.
    """
    low, high = -WIDEST, WIDEST
    for _ in range(60):
        middle = (low + high) / 2
        slope = 0.0
        for each in counts:
            theta = each.probability * exp(middle - log_sum(each.probability, middle))
            slope += each.arm - (each.arm + each.control) * theta
        if slope > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2
