"""What is left of limits, told as Anthropic tells it to clients of its API: `anthropic-ratelimit-*`, with times of day for resets.

Source: https://docs.anthropic.com/en/api/rate-limits, read 2026-11.
"""

import re
import time
from collections.abc import Iterable

from app.api.call import Header

_OURS = b"x-ratelimit-"
_DURATION = re.compile(rb"(?:(\d+)h)?(?:(\d+)m)?(?:([\d.]+)s)?|(\d+)ms")


def as_anthropic(headers: Iterable[Header]) -> list[Header]:
    """OpenAI's names and durations in Anthropic's; other headers as they are."""
    return [_told(name, value) if name.startswith(_OURS) else (name, value) for name, value in headers]


def _told(name: bytes, value: bytes) -> Header:
    what, _, resource = name.removeprefix(_OURS).partition(b"-")
    return b"anthropic-ratelimit-%b-%b" % (resource, what), _moment(value) if what == b"reset" else value


def _moment(duration: bytes) -> bytes:
    found = _DURATION.fullmatch(duration)
    assert found is not None, duration  # we have written it ourselves
    hours, minutes, seconds, milliseconds = (float(each or 0) for each in found.groups())
    at = time.time() + hours * 3600 + minutes * 60 + seconds + milliseconds / 1000
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at + 1)).encode()  # a whole second, and never too early
