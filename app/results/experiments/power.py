"""The power calculator: how many units an experiment needs to find a difference, and how long that takes."""

import math
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from app.results.statistics.burn_in import burn_in_units
from app.results.statistics.multiplicity import split_alpha
from app.results.statistics.plan import Plan
from app.results.statistics.power import chance_to_conclude, duration


class PowerQuestion(Struct, frozen=True, kw_only=True):
    """A question to the power calculator, about a metric that is 0 or 1 (`rate`) or any other (`deviation`)."""

    effect: float  # the smallest difference worth finding
    rate: float | None = None  # of a metric that is 0 or 1, its share now
    deviation: float | None = None  # of units, of any other metric
    share: float = 0.5  # of the arm, among units of it and the control
    alpha: float = 0.05
    power: float = 0.8
    arms: int = 1  # beside the control
    metrics: int = 1
    units_per_day: float | None = None  # new ones of both that take part


class ChanceByUnits(Struct, frozen=True):
    """The probability that the difference has been found by so many units, and on which day that is."""

    units: int
    days: float | None
    chance: float


class PowerAnswer(Struct, frozen=True, kw_only=True):
    """The number of units of the control and one arm together, which is never below the burn-in of a number
    (docs/statistics.md).

    `fixed_units` is what a test needs that may be looked at once, at the end. `days` are full weeks, or null
    without `units_per_day`. `alpha` is that of the primary metric's comparison of one arm.
    """

    units: int
    fixed_units: int
    days: int | None
    alpha: float
    planned_units: int
    chances: Sequence[ChanceByUnits]


_LEAST_DEVIATION = 1e-9
_LEAST_UNITS_PER_DAY, _MOST_UNITS_PER_DAY = 0.001, 1e12
_LARGEST_EFFECT = 1e12
_LEAST_EFFECT = 1e-6  # in standard deviations: 10 ** 13 units would be needed


def answer_power(question: PowerQuestion) -> PowerAnswer:
    """Raises ValueError, with what would be right, for a question without an answer."""
    if question.effect == 0:
        raise ValueError("`effect` is the smallest difference worth finding, so it is not 0.")
    if not abs(question.effect) <= _LARGEST_EFFECT:
        raise ValueError(f"`effect` is a number of at most {_LARGEST_EFFECT:g}, in either direction, not {question.effect:g}.")
    if (question.rate is None) == (question.deviation is None):
        raise ValueError("Give `rate` for a metric that is 0 or 1, or `deviation` for any other.")
    if question.deviation is not None and question.deviation < _LEAST_DEVIATION:
        raise ValueError(f"`deviation` is how much units differ, at least {_LEAST_DEVIATION:g}; if they do not, a few are enough.")
    if question.units_per_day is not None and not _LEAST_UNITS_PER_DAY <= question.units_per_day <= _MOST_UNITS_PER_DAY:
        raise ValueError(f"`units_per_day` is {_LEAST_UNITS_PER_DAY:g} to {_MOST_UNITS_PER_DAY:g}.")
    rate = question.rate
    if rate is not None and not 0 <= rate + question.effect <= 1:
        raise ValueError(f"A rate of {rate:g} that changes by {question.effect:g} is no rate: it would be {rate + question.effect:g}.")
    alpha = split_alpha(question.alpha, question.arms, [str(number) for number in range(question.metrics)])["0"]
    if rate is not None:
        other = rate + question.effect
        variance = question.share * rate * (1 - rate) + (1 - question.share) * other * (1 - other)
    else:
        variance = (question.deviation or 0.0) ** 2
    if abs(question.effect) < max(1e-12, math.sqrt(variance) * _LEAST_EFFECT):
        raise ValueError(f"An effect of {question.effect:g} is too small beside how much units differ: no experiment could find it.")
    kind = "float" if rate is None else "boolean"
    # As results compare it: nobody has told them which rate to expect. Of feedback, whose units are fewer, a little less is needed.
    plan = Plan(kind, "max", alpha, complete=rate is not None)
    needed = duration(question.effect, variance, plan, question.units_per_day or 0.0, question.share, question.power)
    # Intervals are narrowest where the experiment is expected to end.
    tuned = replace(plan, planned_units=needed.units)
    too_early = 0 if plan.complete else burn_in_units(kind, question.share)
    chances = [
        ChanceByUnits(
            units,
            None if not question.units_per_day else units / question.units_per_day,
            0.0 if units < too_early else chance_to_conclude(question.effect, variance, tuned, units, question.share),
        )
        for units in (max(1, round(needed.units * part)) for part in (0.25, 0.5, 0.75, 1, 1.5, 2))
    ]
    return PowerAnswer(
        units=needed.units,
        fixed_units=needed.fixed_units,
        days=needed.days,
        alpha=alpha,
        planned_units=tuned.planned_units,
        chances=chances,
    )
