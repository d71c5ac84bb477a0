"""Power: how many units an experiment needs, how long that takes, and how likely it has concluded by then.

For a test at a size fixed beforehand the formula is the usual one; a sequence that may be looked at all the
time needs about 1.6 times that for the same power, and stops earlier where the effect is larger. The chance
to have stopped by a number of units is that of a Brownian motion with drift to have crossed the sequence's
boundary, from the integral equation of its first passage: Buonocore, Nobile, Ricciardi 1987,
https://doi.org/10.2307/1427102.
"""

from functools import lru_cache
from itertools import pairwise
from math import ceil, exp, log, log1p, pi, sqrt
from statistics import NormalDist

from msgspec import Struct

from app.results.statistics.boolean_difference import CENTRES, EXPECTED_SHARE
from app.results.statistics.burn_in import burn_in_units
from app.results.statistics.confidence_sequence import boundary
from app.results.statistics.plan import Plan
from app.results.statistics.tuning import optimal_kappa

STEPS = 120
# Beyond so many times the fixed size nobody waits for an effect.
LONGEST = 6
DAYS_A_WEEK = 7
RARE_VARIANCE, COMMON_VARIANCE = 0.09, 0.17


class Duration(Struct, frozen=True):
    """The size and time of an experiment, in units of both arms together."""

    units: int
    fixed_units: int  # what a test at one look would need
    days: int | None = None  # full weeks; None without traffic


def fixed_units(effect: float, unit_variance: float, share: float, alpha: float, power: float = 0.8) -> float:
    """Returns the units of both arms together that one look at the end needs.

    `share` is that of the arm, among units of both.
    """
    normal = NormalDist()
    z = normal.inv_cdf(1 - alpha / 2) + normal.inv_cdf(power)
    return unit_variance * z * z / (effect * effect * share * (1 - share))


def needed_units(effect: float, unit_variance: float, plan: Plan, share: float = 0.5, power: float = 0.8) -> int:
    """Returns the units of both arms together by which the sequence finds this effect with the probability
    `power`.

    The sequence is tuned as well as can be, and the units are never fewer than the burn-in needs. Set
    `planned_units` to about this. What a gateway observes rarely has the effect that was planned for:
    `chance_to_conclude` has others.
    """
    alone = fixed_units(effect, unit_variance, share, plan.alpha, power)
    latest = LONGEST * optimal_kappa(plan.alpha)
    curve = first_passage(drift_of(effect, unit_variance, share, plan, alone), latest, spent_alpha(plan, unit_variance))
    before, after = next((pair for pair in pairwise(curve) if pair[1][1] >= power), (curve[-1], curve[-1]))
    part = (power - before[1]) / (after[1] - before[1]) if after[1] > before[1] else 1.0
    return max(burn_in_units(plan.kind, share), ceil(alone * (before[0] + part * (after[0] - before[0])) / optimal_kappa(plan.alpha)))


def chance_to_conclude(effect: float, unit_variance: float, plan: Plan, units: float, share: float = 0.5) -> float:
    """The probability that by so many units, of both arms together, the interval has excluded 0, if this is the effect."""
    drift = drift_of(effect, unit_variance, share, plan, plan.planned_units)
    return first_passage(drift, optimal_kappa(plan.alpha) * units / plan.planned_units, spent_alpha(plan, unit_variance))[-1][1]


def duration(effect: float, unit_variance: float, plan: Plan, units_a_day: float, share: float = 0.5, power: float = 0.8) -> Duration:
    """Returns the size and time of an experiment.

    `units_a_day` counts new units of both arms together, enrolled ones only.
    """
    units = needed_units(effect, unit_variance, plan, share, power)
    weeks = ceil(units / units_a_day / DAYS_A_WEEK) if units_a_day > 0 else None
    alone = ceil(fixed_units(effect, unit_variance, share, plan.alpha, power))
    return Duration(units, alone, weeks * DAYS_A_WEEK if weeks is not None else None)


def detectable_effect(unit_variance: float, plan: Plan, units: float, share: float = 0.5, power: float = 0.8) -> float:
    """The smallest effect that so many units find with the probability `power`."""
    scale = sqrt(unit_variance / (units * share * (1 - share)))
    low, high = 0.0, 20 * scale
    while high - low > scale / 200:
        middle = (low + high) / 2
        low, high = (middle, high) if chance_to_conclude(middle, unit_variance, plan, units, share) < power else (low, middle)
    return high


def drift_of(effect: float, unit_variance: float, share: float, plan: Plan, tuned_to: float) -> float:
    """The effect in units in which time is kappa: a unit of it is as many units of the experiment as r stands for."""
    return abs(effect) * sqrt(tuned_to / optimal_kappa(plan.alpha) * share * (1 - share) / unit_variance)


def spent_alpha(plan: Plan, unit_variance: float) -> float:
    """Returns the alpha that a test spends; exact counts spend less, as their average over centres costs some
    of it.

    Of the centres (boolean_difference.py), two of four are near rates of 20 to 80 %. Between these and rare
    outcomes, whose variance is below RARE_VARIANCE, alpha is in proportion; it fits simulated experiments to
    3 points.
    """
    if plan.kind != "boolean" or not plan.complete:
        return plan.alpha
    if plan.expected_rate is not None:
        return plan.alpha * EXPECTED_SHARE
    part = (unit_variance - RARE_VARIANCE) / (COMMON_VARIANCE - RARE_VARIANCE)
    return plan.alpha * (1 + min(max(part, 0.0), 1.0)) / len(CENTRES)


@lru_cache(maxsize=256)
def first_passage(drift: float, end: float, alpha: float) -> tuple[tuple[float, float], ...]:
    """Times until `end`, in units of kappa, and the probability that a Brownian motion has crossed the two-sided boundary by each.

    The side against the drift is left out, where there is any: then it adds next to nothing. Without drift both are equal. Steps are
    close where it matters: times at which it has all but surely crossed are left out.
    """
    if drift:
        sure = 1.0
        while sure < end and drift * sure - boundary(sure, 1.0, alpha) < 6 * sqrt(sure):
            sure *= 1.25
        end = min(end, sure)
    times = [end * ((step + 1) / STEPS) ** 2 for step in range(STEPS)]
    levels = [boundary(time, 1.0, alpha) for time in times]
    slopes = [(log1p(time) - 2 * log(alpha) + 1) / (2 * level) for time, level in zip(times, levels, strict=True)]
    densities: list[float] = []
    curve: list[tuple[float, float]] = []
    probability = 0.0
    for index, (time, level, slope) in enumerate(zip(times, levels, slopes, strict=True)):
        density = -2 * flow(level, time, drift, slope)
        for before in range(index):
            width = (times[before + 1] - (times[before - 1] if before else 0.0)) / 2
            density += 2 * width * densities[before] * flow(level - levels[before], time - times[before], drift, slope)
        densities.append(max(0.0, density))
        start, previous = (times[index - 1], densities[index - 1]) if index else (0.0, 0.0)
        probability += (time - start) * (densities[index] + previous) / 2
        curve.append((time, min(1.0, probability if drift else 2 * probability)))
    return tuple(curve)


def flow(distance: float, elapsed: float, drift: float, slope: float) -> float:
    """The equation's kernel: half the density at this distance after this time, times how much faster than that the boundary rises."""
    density = exp(-((distance - drift * elapsed) ** 2) / (2 * elapsed)) / sqrt(2 * pi * elapsed)
    return density * (slope - distance / elapsed) / 2
