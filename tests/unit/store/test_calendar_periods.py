"""Calendar days, weeks and months of a time zone: they follow one another without a gap, also when clocks are put forward or back."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.store.postgres.calendar_periods import CALENDAR_UNITS, CalendarUnit, calendar_period

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "America/Sao_Paulo", "Asia/Beirut", "America/Havana", "Pacific/Apia")
HOUR_MS = 3_600_000


def utc_ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@given(st.sampled_from(CALENDAR_UNITS), st.sampled_from(ZONES), st.integers(utc_ms("1995-01-01"), utc_ms("2040-01-01")))
def test_every_moment_lies_in_exactly_one_period(per: CalendarUnit, zone: str, now_ms: int):
    start, end, end_of_next = calendar_period(per, ZoneInfo(zone), now_ms)
    assert start <= now_ms < end < end_of_next
    assert calendar_period(per, ZoneInfo(zone), end - 1) == (start, end, end_of_next)
    assert calendar_period(per, ZoneInfo(zone), end)[:2] == (end, end_of_next)
    # By the calendar of that zone, it is the same day, week or month throughout.
    first, last = (datetime.fromtimestamp(moment / 1000, ZoneInfo(zone)).date() for moment in (start, end - 1))
    match per:
        case "day":
            assert first == last
        case "week":
            assert first.isocalendar()[:2] == last.isocalendar()[:2]
        case "month":
            assert (first.year, first.month) == (last.year, last.month)


@pytest.mark.parametrize(
    ("per", "zone", "now", "start", "hours"),
    [
        ("day", "Europe/Berlin", "2026-03-29T12:00", "2026-03-28T23:00", 23),  # clocks are put forward
        ("day", "Europe/Berlin", "2026-10-25T12:00", "2026-10-24T22:00", 25),  # and back
        ("day", "America/Sao_Paulo", "2018-11-04T12:00", "2018-11-04T03:00", 23),  # forward at midnight: the day begins at one
        ("day", "America/Havana", "2026-11-01T12:00", "2026-11-01T04:00", 25),  # midnight comes twice
        ("day", "Asia/Kolkata", "2026-11-01T18:29", "2026-10-31T18:30", 24),
        ("week", "UTC", "2026-11-29T23:59", "2026-11-23T00:00", 7 * 24),  # a Sunday belongs to the Monday before it
        ("week", "UTC", "2027-01-01T12:00", "2026-12-28T00:00", 7 * 24),
        ("week", "Europe/Berlin", "2026-03-29T12:00", "2026-03-22T23:00", 7 * 24 - 1),
        ("month", "UTC", "2028-02-29T23:59", "2028-02-01T00:00", 29 * 24),
        ("month", "Europe/Berlin", "2026-03-31T21:59", "2026-02-28T23:00", 31 * 24 - 1),
        ("month", "UTC", "2026-12-31T23:59", "2026-12-01T00:00", 31 * 24),
    ],
)
def test_period_length_follows_the_calendar_and_clock_changes(per: CalendarUnit, zone: str, now: str, start: str, hours: int):
    began, ended, _ = calendar_period(per, ZoneInfo(zone), utc_ms(now))
    assert (began, (ended - began) / HOUR_MS) == (utc_ms(start), hours)
