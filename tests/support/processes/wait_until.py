"""Waits for what another task, thread or process brings about. The limit is generous: a wait that succeeds takes no longer for it."""

import asyncio
import time
from collections.abc import Awaitable, Callable

# A machine with six processes to each core is slow, not broken.
GENEROUS_S = 60.0
# Each question to a service costs it and the test about ten milliseconds of processor time: the longer the wait, the rarer they are.
_PAUSE_SHARE = 0.1
_LONGEST_PAUSE_S = 0.5


async def wait_until(
    condition: Callable[[], Awaitable[bool]] | Callable[[], bool], timeout_s: float = GENEROUS_S, *, interval_s: float = 0.02
) -> None:
    """Returns once the condition is true; AssertionError if it never is within the limit.

    A condition that is awaited must stay true once it is: the pauses between its calls grow with the wait, to half a second.
    """
    began = time.monotonic()
    while True:
        result = condition()
        if result if isinstance(result, bool) else await result:
            return
        waited_s = time.monotonic() - began
        assert waited_s < timeout_s, f"the condition did not become true within {timeout_s:g} s"
        longer_s = 0 if isinstance(result, bool) else min(waited_s * _PAUSE_SHARE, _LONGEST_PAUSE_S)
        await asyncio.sleep(max(interval_s, longer_s))


def block_until(condition: Callable[[], bool], timeout_s: float = GENEROUS_S) -> None:
    """The same for code without an event loop."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"the condition did not become true within {timeout_s:g} s"
        time.sleep(0.02)
