"""Calendar days, weeks and months of a time zone, as moments."""

from datetime import UTC, date, datetime, timedelta
from typing import Literal, get_args
from zoneinfo import ZoneInfo

CalendarUnit = Literal["day", "week", "month"]
CALENDAR_UNITS: tuple[CalendarUnit, ...] = get_args(CalendarUnit)

# The start of this period, of the next, and of the one after that; Unix time in ms.
Period = tuple[int, int, int]


def calendar_period(per: CalendarUnit, zone: ZoneInfo, now_ms: float) -> Period:
    """The period in which a moment lies. Weeks begin on Monday, as in ISO 8601."""
    first = _first_day(per, datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(zone).date())
    second = _next_start(per, first)
    return _start_ms(first, zone), _start_ms(second, zone), _start_ms(_next_start(per, second), zone)


def _first_day(per: CalendarUnit, day: date) -> date:
    match per:
        case "day":
            return day
        case "week":
            return day - timedelta(days=day.weekday())
        case "month":
            return day.replace(day=1)


def _next_start(per: CalendarUnit, first: date) -> date:
    match per:
        case "day":
            return first + timedelta(days=1)
        case "week":
            return first + timedelta(days=7)
        case "month":
            return (first + timedelta(days=31)).replace(day=1)


def _start_ms(day: date, zone: ZoneInfo) -> int:
    """The first moment of a day. Where clocks go forward at midnight, that is the time to which they go."""
    return round(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp() * 1000)
