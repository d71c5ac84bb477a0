"""Roots: where a falling function crosses zero."""

from collections.abc import Callable

TOLERANCE = 1e-8


def root(falling: Callable[[float], float], low: float, high: float) -> float:
    """Returns the last value from `low` at which it is not below 0, to TOLERANCE from below.

    Returns `low` if it is below 0 there already. The method is false position that halves the value of an end
    which stays (the Illinois method): a few steps where the function is near a line.
    """
    at_low, at_high = falling(low), falling(high)
    if at_low < 0:
        return low
    if at_high >= 0:
        return high
    moved = ""
    while high - low > TOLERANCE:
        middle = low + (high - low) * at_low / (at_low - at_high)
        middle = min(max(middle, low + TOLERANCE / 2), high - TOLERANCE / 2)
        value = falling(middle)
        if value >= 0:
            low, at_low = middle, value
            at_high = at_high / 2 if moved == "low" else at_high
            moved = "low"
        else:
            high, at_high = middle, value
            at_low = at_low / 2 if moved == "high" else at_low
            moved = "high"
    return low
