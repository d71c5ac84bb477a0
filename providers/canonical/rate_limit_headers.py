"""Rate-limit headers: what a host's response reports of the limits of our account there.

Sources: docs/sources.md#rate-limit-headers and the recordings that it names; https://docs.claude.com/en/api/rate-limits and
https://platform.openai.com/docs/guides/rate-limits, read 2026-11.
"""

import datetime
import re
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

Header = tuple[bytes, bytes]
Measure = Literal["limit", "remaining", "reset"]

_PREFIXES = (b"x-ratelimit-", b"anthropic-ratelimit-")
_MEASURES: Mapping[bytes, Measure] = {b"limit": "limit", b"remaining": "remaining", b"reset": "reset"}
# Other names of a resource; Together names none.
_RESOURCES: Mapping[str, str] = {"": "requests", "req": "requests"}
_DURATION = re.compile(r"(?:(?P<d>\d+)d)?(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m(?!s))?(?:(?P<s>[\d.]+)s)?(?:(?P<ms>[\d.]+)ms)?")
_SECONDS_PER_UNIT = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
# A larger number of seconds is a Unix timestamp (OpenRouter: in milliseconds).
_MIN_TIMESTAMP = 1e8
_MAX_WAIT_S = 86_400.0
_MAX_RESOURCES = 16


class RateLimit(Struct, frozen=True):
    """The limit of one resource, such as "requests" or "tokens-minute". `resets_at`: monotonic seconds. None: not reported."""

    resource: str
    limit: float | None = None
    remaining: float | None = None
    resets_at: float | None = None


class RateLimits(Struct, frozen=True):
    """All limits that one response reported."""

    limits: tuple[RateLimit, ...]
    reported_at: float  # monotonic seconds

    @property
    def exhausted_until(self) -> float:
        """The time at which every exhausted resource has been reset, in monotonic seconds; past if none is exhausted.

        A resource that reports no reset is ignored.
        """
        return max((limit.resets_at or 0.0 for limit in self.limits if limit.remaining is not None and limit.remaining <= 0), default=0.0)


def read_rate_limits(headers: Sequence[Header], now: float, now_s: float) -> RateLimits | None:
    """The limits in a response's headers; None if there are none. `now` is in monotonic seconds; `now_s` is Unix time, which some resets
    use.
    """
    found: dict[str, dict[Measure, str]] = {}
    for name, value in headers:
        if name[:2].lower() in (b"x-", b"an") and (parsed := _read_name(name.lower())) is not None and len(found) < _MAX_RESOURCES:
            measure, resource = parsed
            found.setdefault(resource, {})[measure] = value.decode("latin-1")
    limits = tuple(
        RateLimit(resource, _number(values.get("limit")), _number(values.get("remaining")), _reset_time(values.get("reset"), now, now_s))
        for resource, values in found.items()
    )
    limits = tuple(limit for limit in limits if (limit.limit, limit.remaining, limit.resets_at) != (None, None, None))
    return RateLimits(limits, now) if limits else None


def _read_name(name: bytes) -> tuple[Measure, str] | None:
    """The measure and resource of a header's name; None: it is not a rate-limit header.

    OpenAI, Groq, xAI, Fireworks, Mistral: x-ratelimit-limit-requests; Anthropic: anthropic-ratelimit-requests-limit; Together:
    x-ratelimit-limit.
    """
    suffix = next((name[len(prefix) :] for prefix in _PREFIXES if name.startswith(prefix)), None)
    if suffix is None:
        return None
    first, _, after_first = suffix.partition(b"-")
    before_last, _, last = suffix.rpartition(b"-")
    measure, resource = (_MEASURES.get(first), after_first) if first in _MEASURES else (_MEASURES.get(last), before_last)
    if measure is None:
        return None
    resource_name = resource.decode("latin-1")
    return measure, _RESOURCES.get(resource_name, resource_name)


def _number(text: str | None) -> float | None:
    try:
        number = None if text is None else float(text.partition(",")[0])
    except ValueError:
        return None
    return number if number is not None and number == number and abs(number) < 1e15 else None


def _reset_time(text: str | None, now: float, now_s: float) -> float | None:
    """A reset in monotonic seconds, from a number of seconds, `6m0s`, RFC 3339, or a Unix timestamp."""
    if not text:
        return None
    remaining_s = _seconds_until(text.strip(), now_s)
    return None if remaining_s is None or remaining_s != remaining_s else now + min(max(0.0, remaining_s), _MAX_WAIT_S)


def _seconds_until(text: str, now_s: float) -> float | None:
    number = _number(text)
    if number is not None:
        return number if number < _MIN_TIMESTAMP else (number / 1000 if number > 1e11 else number) - now_s
    duration = _DURATION.fullmatch(text)
    if duration is not None:
        return sum(
            float(count) * _SECONDS_PER_UNIT[unit] for unit, count in duration.groupdict().items() if count and count.count(".") <= 1
        )
    try:
        return datetime.datetime.fromisoformat(text).timestamp() - now_s
    except ValueError:
        return None
