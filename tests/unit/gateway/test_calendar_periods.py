"""Calendar days and months of a time zone: they follow one another without a gap, also when clocks are put forward or back."""

from datetime import UTC, datetime
from typing import Literal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.gateway.limits.calendar_periods import calendar_period

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "America/Sao_Paulo", "Asia/Beirut", "America/Havana", "Pacific/Apia")
Per = Literal["day", "month"]
HOUR_MS = 3_600_000


def utc_ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@given(st.sampled_from(["day", "month"]), st.sampled_from(ZONES), st.integers(utc_ms("1995-01-01"), utc_ms("2040-01-01")))
def test_every_moment_lies_in_exactly_one_period(per: Per, zone: str, now_ms: int):
    start, end, end_of_next = calendar_period(per, ZoneInfo(zone), now_ms)
    assert start <= now_ms < end < end_of_next
    assert calendar_period(per, ZoneInfo(zone), end - 1) == (start, end, end_of_next)
    assert calendar_period(per, ZoneInfo(zone), end)[:2] == (end, end_of_next)
    # By the calendar of that zone, it is the same day or month throughout.
    first, last = (datetime.fromtimestamp(moment / 1000, ZoneInfo(zone)) for moment in (start, end - 1))
    assert (first.year, first.month) == (last.year, last.month) and (per == "month" or first.day == last.day)


@pytest.mark.parametrize(
    ("per", "zone", "now", "start", "hours"),
    [
        ("day", "Europe/Berlin", "2026-03-29T12:00", "2026-03-28T23:00", 23),  # clocks are put forward
        ("day", "Europe/Berlin", "2026-10-25T12:00", "2026-10-24T22:00", 25),  # and back
        ("day", "America/Sao_Paulo", "2018-11-04T12:00", "2018-11-04T03:00", 23),  # forward at midnight: the day begins at one
        ("day", "America/Havana", "2026-11-01T12:00", "2026-11-01T04:00", 25),  # midnight comes twice
        ("day", "Asia/Kolkata", "2026-11-01T18:29", "2026-10-31T18:30", 24),
        ("month", "UTC", "2028-02-29T23:59", "2028-02-01T00:00", 29 * 24),
        ("month", "Europe/Berlin", "2026-03-31T21:59", "2026-02-28T23:00", 31 * 24 - 1),
        ("month", "UTC", "2026-12-31T23:59", "2026-12-01T00:00", 31 * 24),
    ],
)
def test_period_length_follows_the_calendar_and_clock_changes(per: Per, zone: str, now: str, start: str, hours: int):
    began, ended, _ = calendar_period(per, ZoneInfo(zone), utc_ms(now))
    assert (began, (ended - began) / HOUR_MS) == (utc_ms(start), hours)
