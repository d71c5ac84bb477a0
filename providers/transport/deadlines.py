"""Deadlines: how long each step of a request may take, from the timeouts in its extensions."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

import httpx2


@dataclass(slots=True)
class Deadlines:
    """How long each step may take, in seconds; inf: no limit."""

    pool: float
    connect: float
    write: float
    first: float
    has_first_timeout: bool  # False: `first` is a copy of `read`
    read: float
    total: float
    ends_at: float  # time.monotonic() seconds, which event loops use too

    def remaining_s(self, step_s: float, now: float) -> float | None:
        """The seconds left for this step, for asyncio.timeout(); None: no limit."""
        remaining = min(step_s, self.ends_at - now)
        return None if remaining == inf else remaining


def read_deadlines(request: httpx2.Request) -> Deadlines:
    """The deadlines of a request; `total` runs from this call. The timeouts are explained in providers/transport/transport.py."""
    now = time.monotonic()
    timeout: Mapping[str, float | None] = request.extensions.get("timeout") or {}
    seconds = timeout.get
    pool, connect, write, read, total = seconds("pool"), seconds("connect"), seconds("write"), seconds("read"), seconds("total")
    has_first = "first" in timeout
    first = timeout["first"] if has_first else read
    return Deadlines(
        inf if pool is None else pool,
        inf if connect is None else connect,
        inf if write is None else write,
        inf if first is None else first,
        has_first,
        inf if read is None else read,
        inf if total is None else total,
        inf if total is None else now + total,
    )
