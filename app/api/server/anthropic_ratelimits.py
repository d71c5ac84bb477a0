"""Rate-limit headers as Anthropic sends them: `anthropic-ratelimit-*`, with points in time for resets.

Source: https://docs.anthropic.com/en/api/rate-limits, read 2026-11.
"""

import re
import time
from collections.abc import Iterable

from app.api.server.http_call import Header

_OPENAI_PREFIX = b"x-ratelimit-"
_DURATION = re.compile(rb"(?:(\d+)h)?(?:(\d+)m)?(?:([\d.]+)s)?|(\d+)ms")


def to_anthropic_headers(headers: Iterable[Header]) -> list[Header]:
    """Translate OpenAI's header names and durations to Anthropic's; other headers stay as they are."""
    return [_to_anthropic_header(name, value) if name.startswith(_OPENAI_PREFIX) else (name, value) for name, value in headers]


def _to_anthropic_header(name: bytes, value: bytes) -> Header:
    aspect, _, resource = name.removeprefix(_OPENAI_PREFIX).partition(b"-")
    return b"anthropic-ratelimit-%b-%b" % (resource, aspect), _reset_time(value) if aspect == b"reset" else value


def _reset_time(duration: bytes) -> bytes:
    match = _DURATION.fullmatch(duration)
    assert match is not None, duration  # the gateway wrote it itself
    hours, minutes, seconds, milliseconds = (float(each or 0) for each in match.groups())
    at = time.time() + hours * 3600 + minutes * 60 + seconds + milliseconds / 1000
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at + 1)).encode()  # rounded up to a second: never too early
