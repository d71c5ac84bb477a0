"""Allowance: what a host says, in the headers of its answers, of how much more it lets through.

Source: /reference/providers.md part 5 and the recordings that it names; https://docs.claude.com/en/api/rate-limits and
https://platform.openai.com/docs/guides/rate-limits, read 2026-11.
"""

import datetime
import re
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

Header = tuple[bytes, bytes]
Said = Literal["limit", "remaining", "reset"]

_PREFIXES = (b"x-ratelimit-", b"anthropic-ratelimit-")
_WORDS: Mapping[bytes, Said] = {b"limit": "limit", b"remaining": "remaining", b"reset": "reset"}
# What some call by other words.
_RESOURCES: Mapping[str, str] = {"": "requests", "req": "requests"}
_DURATION = re.compile(r"(?:(?P<d>\d+)d)?(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m(?!s))?(?:(?P<s>[\d.]+)s)?(?:(?P<ms>[\d.]+)ms)?")
_IN_S = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
# A number of seconds larger than this is a moment in Unix time (OpenRouter: in milliseconds).
_MOMENT = 1e8
_LONGEST_S = 86_400.0
_MOST_ROOMS = 16


class Room(Struct, frozen=True):
    """Of one resource, such as "requests" or "tokens-minute". `resets_at`: by the monotonic clock; None: not told."""

    resource: str
    limit: float | None = None
    remaining: float | None = None
    resets_at: float | None = None


class Allowance(Struct, frozen=True):
    """`told_at`: by the monotonic clock."""

    rooms: tuple[Room, ...]
    told_at: float

    @property
    def spent_until(self) -> float:
        """When there is room again in all that has none; before now: there is. What never says when it resets is not waited for."""
        return max((room.resets_at or 0.0 for room in self.rooms if room.remaining is not None and room.remaining <= 0), default=0.0)


def read_allowance(headers: Sequence[Header], now: float, now_s: float) -> Allowance | None:
    """None: nothing is told. `now` by the monotonic clock, `now_s` in Unix time, by which some hosts say when they reset."""
    found: dict[str, dict[Said, str]] = {}
    for name, value in headers:
        if name[:2].lower() in (b"x-", b"an") and (told := _read_name(name.lower())) is not None and len(found) < _MOST_ROOMS:
            what, resource = told
            found.setdefault(resource, {})[what] = value.decode("latin-1")
    rooms = tuple(
        Room(resource, _number(said.get("limit")), _number(said.get("remaining")), _moment(said.get("reset"), now, now_s))
        for resource, said in found.items()
    )
    rooms = tuple(room for room in rooms if (room.limit, room.remaining, room.resets_at) != (None, None, None))
    return Allowance(rooms, now) if rooms else None


def _read_name(name: bytes) -> tuple[Said, str] | None:
    """OpenAI, Groq, xAI, Fireworks, Mistral: x-ratelimit-limit-requests; Anthropic: anthropic-ratelimit-requests-limit; Together: no more

    than x-ratelimit-limit.
    """
    rest = next((name[len(prefix) :] for prefix in _PREFIXES if name.startswith(prefix)), None)
    if rest is None:
        return None
    first, _, more = rest.partition(b"-")
    before, _, last = rest.rpartition(b"-")
    what, resource = (_WORDS.get(first), more) if first in _WORDS else (_WORDS.get(last), before)
    if what is None:
        return None
    told = resource.decode("latin-1")
    return what, _RESOURCES.get(told, told)


def _number(said: str | None) -> float | None:
    try:
        number = None if said is None else float(said.partition(",")[0])
    except ValueError:
        return None
    return number if number is not None and number == number and abs(number) < 1e15 else None


def _moment(said: str | None, now: float, now_s: float) -> float | None:
    """Seconds, `6m0s`, RFC 3339, or a moment in Unix time."""
    if not said:
        return None
    left = _left(said.strip(), now_s)
    return None if left is None or left != left else now + min(max(0.0, left), _LONGEST_S)


def _left(said: str, now_s: float) -> float | None:
    number = _number(said)
    if number is not None:
        return number if number < _MOMENT else (number / 1000 if number > 1e11 else number) - now_s
    duration = _DURATION.fullmatch(said)
    if duration is not None:
        return sum(float(count) * _IN_S[unit] for unit, count in duration.groupdict().items() if count and count.count(".") <= 1)
    try:
        return datetime.datetime.fromisoformat(said).timestamp() - now_s
    except ValueError:
        return None
