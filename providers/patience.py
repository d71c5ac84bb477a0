"""Patience: how long each step of a request may take, as the request says in its extensions."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

import httpx

_STEPS = ("pool", "connect", "write", "read", "total")


@dataclass(slots=True)
class Patience:
    """How long each step may take, in seconds; inf is for ever. `ends_at` is of time.monotonic(), which event loops go by too."""

    pool: float
    connect: float
    write: float
    first: float
    first_is_its_own: bool  # not just `read` by another name
    read: float
    total: float
    ends_at: float

    def left(self, step_s: float, now: float) -> float | None:
        """For asyncio.timeout(): what is left for this step."""
        left_s = min(step_s, self.ends_at - now)
        return None if left_s == inf else left_s


def patience_of(request: httpx.Request) -> Patience:
    """Its clock starts now: `total` runs from this call. What each step means is told in providers/transport.py."""
    now = time.monotonic()
    timeout: Mapping[str, float | None] = request.extensions.get("timeout") or {}
    pool, connect, write, read, total = [inf if (s := timeout.get(step)) is None else s for step in _STEPS]
    own = "first" in timeout
    first = timeout["first"] if own else read
    return Patience(pool, connect, write, inf if first is None else first, own, read, total, now + total)
