"""Sentences at the end of a refusal's message that say when the request would pass: written here, and read again of what was recorded."""

import datetime
import re
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_AT = re.compile(r"It passes at (\d{4}-\d\d-\d\d \d\d:\d\d) \(([^)]+)\) if no other request comes\.")
_IN = re.compile(r"It (passes|may pass) in (\d+\.\d{3}) s\b")


class PassTime(NamedTuple):
    """The time at which a refused request would pass."""

    at: datetime.datetime
    is_estimate: bool  # requests in flight may give back what they hold earlier or later


def passes_at(free_at: datetime.datetime, zone: str) -> str:
    return f"It passes at {free_at:%Y-%m-%d %H:%M} ({zone}) if no other request comes."


def passes_in(wait_s: float) -> str:
    return f"It passes in {wait_s:.3f} s if no other request comes."


def may_pass_in(wait_s: float, *, returned: bool) -> str:
    if returned:  # only what requests in flight return makes it pass
        return f"It may pass in {wait_s:.3f} s, if requests in flight then return what they did not use (an estimate)."
    return f"It may pass in {wait_s:.3f} s if no other request comes (an estimate)."


def read_pass_time(message: str, received_at: datetime.datetime) -> PassTime | None:
    """Returns when the request would pass; None: the message does not say, or it never would."""
    if found := _AT.search(message):
        try:
            zone = ZoneInfo(found[2])
        except (ZoneInfoNotFoundError, ValueError):  # a name that this machine does not know
            return None
        return PassTime(datetime.datetime.fromisoformat(found[1]).replace(tzinfo=zone), False)
    if found := _IN.search(message):
        return PassTime(received_at + datetime.timedelta(seconds=float(found[2])), found[1] == "may pass")
    return None
