"""Periods of budgets and limits, as other gateways write them, as ours: a second, a minute, an hour, or a calendar day, week or month."""

import re
from collections.abc import Mapping

from app.domain.limits import Period

_DURATION = re.compile(r"(\d{1,6})\s*(mo|[smhdw])")
_SECONDS: Mapping[str, int] = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_PERIODS: Mapping[int, Period] = {1: "second", 60: "minute", 3600: "hour", 86_400: "day", 7 * 86_400: "week", 30 * 86_400: "month"}


def find_period(duration: str) -> Period | None:
    """The period of a duration such as 24h, 30d or 1mo; None: there is none of that length."""
    match = _DURATION.fullmatch(duration.strip().lower())
    if match is None:
        return None
    number, unit = int(match[1]), match[2]
    if unit == "mo":
        return "month" if number == 1 else None
    return _PERIODS.get(number * _SECONDS[unit])
