"""Prices by the hour of the day and the day of the week, in UTC."""

import functools
from collections.abc import Sequence

from app.domain.prices import WEEKDAYS, PriceHours

_MINUTE_S = 60
MINUTES_OF_DAY = 24 * 60
# 1 January 1970 was a Thursday.
_FIRST_WEEKDAY = 3


def hours_factor(hours: Sequence[PriceHours], at_s: float) -> float:
    """The factor of the first entry that holds at a Unix time; 1 if none does."""
    day, minute = divmod(int(at_s // _MINUTE_S), MINUTES_OF_DAY)
    weekday = WEEKDAYS[(day + _FIRST_WEEKDAY) % 7]
    for each in hours:
        if weekday in each.days and minutes_of(each.start) <= minute < minutes_of(each.end):
            return each.factor
    return 1.0


@functools.cache
def minutes_of(clock: str) -> int:
    """Minutes since midnight of a time such as 16:30. Raises ValueError for anything else; 24:00 is the end of the day."""
    if len(clock) != 5 or clock[2] != ":" or not (clock[:2] + clock[3:]).isdecimal():
        raise ValueError(f"not a time: {clock!r}")
    hour, minute = int(clock[:2]), int(clock[3:])
    if minute >= 60 or hour * 60 + minute > MINUTES_OF_DAY:
        raise ValueError(f"not a time: {clock!r}")
    return hour * 60 + minute
