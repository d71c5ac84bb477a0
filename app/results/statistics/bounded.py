"""Sequences for values between 0 and 1 that come one by one, such as scores of a judge: exact, for few values, whatever their shape.

Empirical Bernstein and betting: Waudby-Smith, Ramdas 2024, https://arxiv.org/abs/2010.09686. Both read the values in the order in which
they came; no sums rebuild them. Betting is the tighter one, and costs a search.
"""

from collections.abc import Sequence
from math import log, log1p, sqrt

from app.results.statistics.confidence_sequence import Interval
from app.results.statistics.roots import root

LARGEST_BET = 0.5


def empirical_bernstein(values: Sequence[float], alpha: float) -> Interval:
    """Returns the interval of the mean after all of these values, each of which is between 0 and 1."""
    stakes = predictable_stakes(values, alpha)
    if not stakes:
        return Interval(0.0, 1.0)
    total = weighted = spread = 0.0
    for value, (stake, mean) in zip(values, stakes, strict=True):
        bet = min(stake, LARGEST_BET)
        total += bet
        weighted += bet * value
        spread += (value - mean) ** 2 * (-log1p(-bet) - bet)
    half_width = (log(2 / alpha) + spread) / total
    return Interval(max(0.0, weighted / total - half_width), min(1.0, weighted / total + half_width))


def betting(values: Sequence[float], alpha: float) -> Interval:
    """Returns the interval of the mean, by betting.

    It has the means against which no bettor has multiplied a stake by 2 / alpha, betting that the mean is
    higher, or lower.
    """
    stakes = [stake for stake, _ in predictable_stakes(values, alpha)]
    if not stakes:
        return Interval(0.0, 1.0)
    average = sum(values) / len(values)
    low = root(lambda mean: log_capital(values, stakes, mean) - log(2 / alpha), 0.0, average)
    mirrored = [1 - value for value in values]
    high = 1 - root(lambda mean: log_capital(mirrored, stakes, mean) - log(2 / alpha), 0.0, 1 - average)
    return Interval(low, high)


def log_capital(values: Sequence[float], stakes: Sequence[float], mean: float) -> float:
    """Returns the logarithm of the capital of a bettor who bets that the mean is above this one."""
    most = LARGEST_BET / mean if mean > 0 else float("inf")
    return sum(log1p(min(stake, most) * (value - mean)) for value, stake in zip(values, stakes, strict=True))


def predictable_stakes(values: Sequence[float], alpha: float) -> list[tuple[float, float]]:
    """Returns what to bet on each value, and the mean expected of it, from the values before it alone."""
    stakes: list[tuple[float, float]] = []
    total, squares, mean, variance = 0.0, 0.0, 0.5, 0.25
    for count, value in enumerate(values, start=1):
        stakes.append((sqrt(2 * log(2 / alpha) / (variance * count * log1p(count))), mean))
        total += value
        mean = (0.5 + total) / (count + 1)
        squares += (value - mean) ** 2
        variance = (0.25 + squares) / (count + 1)
    return stakes
