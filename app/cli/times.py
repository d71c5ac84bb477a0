"""Times as people type them: 30d, 1h, 2026-12-31."""

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import click

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_MAX_DURATION_S = 100 * 366 * 86400.0


def parse_duration_s(text: str) -> float:
    """Seconds in `90s`, `15m`, `1h`, `30d`, `2w` or several of these (`1h30m`). Raises ValueError."""
    normalized = text.strip().lower()
    parts = _DURATION.findall(normalized)
    if not parts or _DURATION.sub("", normalized).strip():
        raise ValueError(f"{text!r} is no length of time: write it as 90s, 15m, 1h, 30d or 2w.")
    length_s = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if length_s > _MAX_DURATION_S:
        raise ValueError(f"{text!r} is more than a hundred years.")
    return length_s


def parse_moment(text: str, now: datetime) -> datetime:
    """When something ends: after a length of time, with the end of a day in UTC (2026-12-31: it is still good on that day), or at a
    time of a day (2026-12-31T18:00+01:00; without a zone: UTC). Raises ValueError, also for what is past."""
    stripped = text.strip()
    if _DURATION.match(stripped.lower()):
        moment = now + timedelta(seconds=parse_duration_s(stripped))
    else:
        moment = _parse_iso_moment(stripped)
    if moment <= now:
        raise ValueError(f"{text!r} is past.")
    return moment


def _parse_iso_moment(text: str) -> datetime:
    try:
        if len(text) == len("2026-12-31"):
            return datetime.combine(date.fromisoformat(text) + timedelta(days=1), time(), UTC)
        parsed = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is no time: write 30d, 2026-12-31 or 2026-12-31T18:00Z.") from None
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)


def format_time(iso: str | None) -> str:
    """A time of the store's for a table: to the minute, in UTC."""
    return "" if iso is None else datetime.fromisoformat(iso).astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def format_duration(length_s: float) -> str:
    """A length of time for people, in one unit."""
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if length_s >= 2 * unit:
            return f"{length_s / unit:.0f} {name}"
    return f"{length_s:.1f} s" if length_s < 10 else f"{length_s:.0f} s"


class DurationParam(click.ParamType[float]):
    """A length of time; the command gets seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return value if isinstance(value, float) else parse_duration_s(str(value))
        except ValueError as fault:
            self.fail(str(fault), param, ctx)


class MomentParam(click.ParamType[datetime]):
    """A time to come; the command gets a datetime with its zone."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        try:
            return value if isinstance(value, datetime) else parse_moment(str(value), datetime.now(UTC))
        except ValueError as fault:
            self.fail(str(fault), param, ctx)
