"""Times and durations as people type and read them: 30d, 1h, 2026-12-31."""

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import click

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_FIRST_YEAR, _LAST_YEAR = 1970, 9000  # as the admin API has them
_MAX_DURATION_S = 100 * 366 * 86400.0


def parse_duration_s(text: str) -> float:
    """Seconds in `90s`, `15m`, `1h`, `30d`, `2w` or several of these (`1h30m`). Raises ValueError."""
    normalized = text.strip().lower()
    parts = _DURATION.findall(normalized)
    if not parts or _DURATION.sub("", normalized).strip():
        raise ValueError(f"{text!r} is not a duration: write it as 90s, 15m, 1h, 30d or 2w.")
    length_s = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if length_s > _MAX_DURATION_S:
        raise ValueError(f"{text!r} is more than a hundred years.")
    return length_s


def parse_moment(text: str, now: datetime) -> datetime:
    """The moment at which something ends. Raises ValueError, also for a moment in the past.

    It is a duration from now (30d), the end of a day in UTC (2026-12-31, that day included) or a time (2026-12-31T18:00+01:00; without
    a zone: UTC).
    """
    stripped = text.strip()
    if _DURATION.match(stripped.lower()):
        moment = now + timedelta(seconds=parse_duration_s(stripped))
    else:
        moment = _parse_iso_moment(stripped)
    if moment <= now:
        raise ValueError(f"{text!r} is in the past.")
    return moment


def parse_past_moment(text: str, now: datetime) -> datetime:
    """A duration ago (7d), the beginning of a day in UTC (2026-11-01), or a time; without a zone it is UTC. Raises ValueError."""
    stripped = text.strip()
    if _DURATION.match(stripped.lower()):
        return now - timedelta(seconds=parse_duration_s(stripped))
    moment = _parse_iso_moment(stripped)
    return moment - timedelta(days=1) if len(stripped) == len("2026-12-31") else moment


def _parse_iso_moment(text: str) -> datetime:
    try:
        if len(text) == len("2026-12-31"):
            parsed = datetime.combine(date.fromisoformat(text) + timedelta(days=1), time(), UTC)
        else:
            parsed = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a time: write 30d, 2026-12-31 or 2026-12-31T18:00Z.") from None
    if not _FIRST_YEAR < parsed.year < _LAST_YEAR:  # beyond, zones and periods would leave the calendar
        raise ValueError(f"{text!r} must be after {_FIRST_YEAR} and before {_LAST_YEAR}.")
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)


def format_time(iso: str | None) -> str:
    """The store's ISO time to the minute, in UTC; empty for None."""
    return "" if iso is None else datetime.fromisoformat(iso).astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def format_duration(length_s: float) -> str:
    """The duration in one unit: days, hours, minutes or seconds."""
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if length_s >= 2 * unit:
            return f"{length_s / unit:.0f} {name}"
    return f"{length_s:.1f} s" if length_s < 10 else f"{length_s:.0f} s"


class DurationParam(click.ParamType[float]):
    """A duration; the command gets seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return value if isinstance(value, float) else parse_duration_s(str(value))
        except ValueError as fault:
            self.fail(str(fault), param, ctx)


class MomentParam(click.ParamType[datetime]):
    """A time in the future; the command gets a datetime with a zone."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        try:
            return value if isinstance(value, datetime) else parse_moment(str(value), datetime.now(UTC))
        except ValueError as fault:
            self.fail(str(fault), param, ctx)


class PastMomentParam(click.ParamType[datetime]):
    """A time in the past; the command gets a datetime with a zone."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        try:
            return value if isinstance(value, datetime) else parse_past_moment(str(value), datetime.now(UTC))
        except ValueError as fault:
            self.fail(str(fault), param, ctx)
