"""A test that hangs fails, and shows where each of its asyncio tasks waits."""

import asyncio
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

import pytest

# Far more than any test takes on a busy machine: this only bounds how long a hang takes to show.
LIMIT_S = 900.0


@contextmanager
def watch(limit_s: float = LIMIT_S) -> Generator[None]:
    """Fails the test within it that takes longer. Does nothing on other threads than the main one, which has no signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    earlier = signal.signal(signal.SIGALRM, _fail)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)


def _fail(number: int, frame: FrameType | None) -> None:
    for task in _running_tasks():
        task.print_stack(file=sys.stderr)
    pytest.fail("The test hangs. Its standard error has the stacks of its tasks.")


def _running_tasks() -> set[asyncio.Task[object]]:
    try:
        return asyncio.all_tasks()
    except RuntimeError:  # no event loop runs
        return set()
