"""Steps: long work of a thread, with pauses in which the event loop has the interpreter.

A thread that only computes gives the interpreter up every 5 ms, and the event loop waits so long at each of its turns. One that sleeps
after half a millisecond delays nothing that callers notice, and takes about twice as long.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")

_STEP_S = 0.0005
_PAUSE_S = 0.0005

_runs_in_steps: ContextVar[bool] = ContextVar("runs_in_steps", default=False)


async def run_in_steps(work: Callable[[], T]) -> T:
    """Returns what `work` returns, computed in a thread that pauses wherever `work` goes through in_steps()."""
    return await asyncio.to_thread(_run, work)


def in_steps(items: Iterable[T]) -> Iterable[T]:
    """The items. Within run_in_steps(), the thread pauses before an item when it has computed for long enough; elsewhere it never does.

    What happens between two items should take much less than a step.
    """
    return _with_pauses(items) if _runs_in_steps.get() else items


def _run(work: Callable[[], T]) -> T:
    _runs_in_steps.set(True)  # of this call alone: to_thread() runs it in a copy of the context
    return work()


def _with_pauses(items: Iterable[T]) -> Iterator[T]:
    ends_s = time.monotonic() + _STEP_S
    for item in items:
        if time.monotonic() > ends_s:
            time.sleep(_PAUSE_S)
            ends_s = time.monotonic() + _STEP_S
        yield item
