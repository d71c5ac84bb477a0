"""Patience: how long each step of a request may take, as the request says in its extensions."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

import httpx

_TIMEOUT_KEYS = ("pool", "connect", "write", "read", "total")


@dataclass(slots=True)
class Deadlines:
    """How long each step may take, in seconds; inf is for ever. `ends_at` is of time.monotonic(), which event loops go by too."""

    pool: float
    connect: float
    write: float
    first: float
    has_first_timeout: bool  # not just `read` by another name
    read: float
    total: float
    ends_at: float

    def remaining_s(self, step_s: float, now: float) -> float | None:
        """For asyncio.timeout(): what is left for this step."""
        remaining = min(step_s, self.ends_at - now)
        return None if remaining == inf else remaining


def read_deadlines(request: httpx.Request) -> Deadlines:
    """Its clock starts now: `total` runs from this call. What each step means is told in providers/transport/transport.py."""
    now = time.monotonic()
    timeout: Mapping[str, float | None] = request.extensions.get("timeout") or {}
    pool, connect, write, read, total = [inf if (s := timeout.get(step)) is None else s for step in _TIMEOUT_KEYS]
    has_first = "first" in timeout
    first = timeout["first"] if has_first else read
    return Deadlines(pool, connect, write, inf if first is None else first, has_first, read, total, now + total)
