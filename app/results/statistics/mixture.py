"""Averages of likelihoods, in logarithms."""

from collections.abc import Sequence
from math import exp, inf, log


def log_average(log_weights: Sequence[float], log_values: Sequence[float]) -> float:
    """ln of the weighted average; the weights add up to 1."""
    terms = [weight + value for weight, value in zip(log_weights, log_values, strict=True)]
    largest = max(terms)
    return largest + log(sum(exp(each - largest) for each in terms)) if largest > -inf else -inf


def normalised(log_weights: Sequence[float]) -> list[float]:
    total = log_average([0.0] * len(log_weights), log_weights)
    return [each - total for each in log_weights]
