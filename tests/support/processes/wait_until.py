"""Waits for what another task, thread or process brings about. The limit is generous: a wait that succeeds takes no longer for it."""

import asyncio
import time
from collections.abc import Awaitable, Callable

# A machine with six processes to each core is slow, not broken.
GENEROUS_S = 60.0


async def wait_until(
    condition: Callable[[], Awaitable[bool]] | Callable[[], bool], timeout_s: float = GENEROUS_S, *, interval_s: float = 0.02
) -> None:
    """Returns once the condition is true; AssertionError if it never is within the limit."""
    deadline = time.monotonic() + timeout_s
    while True:
        result = condition()
        if result if isinstance(result, bool) else await result:
            return
        assert time.monotonic() < deadline, f"the condition did not become true within {timeout_s:g} s"
        await asyncio.sleep(interval_s)


def block_until(condition: Callable[[], bool], timeout_s: float = GENEROUS_S) -> None:
    """The same for code without an event loop."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"the condition did not become true within {timeout_s:g} s"
        time.sleep(0.02)
