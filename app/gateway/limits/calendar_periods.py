"""Calendar days and months of a time zone, as moments."""

from datetime import UTC, date, datetime, timedelta
from typing import Literal
from zoneinfo import ZoneInfo

# The start of this period, of the next, and of the one after that; Unix time in ms.
Period = tuple[int, int, int]


def calendar_period(per: Literal["day", "month"], zone: ZoneInfo, now_ms: float) -> Period:
    today = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(zone).date()
    first = today if per == "day" else today.replace(day=1)
    second = _next_start(per, first)
    return _start_ms(first, zone), _start_ms(second, zone), _start_ms(_next_start(per, second), zone)


def _next_start(per: Literal["day", "month"], first: date) -> date:
    if per == "day":
        return first + timedelta(days=1)
    return (first + timedelta(days=31)).replace(day=1)


def _start_ms(day: date, zone: ZoneInfo) -> int:
    """The first moment of a day. Where clocks go forward at midnight, that is the time to which they go."""
    return round(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp() * 1000)
