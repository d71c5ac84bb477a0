"""Runs what is asynchronous beside the browser's library, which has an event loop of its own in the thread of the tests."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def run_apart(work: Coroutine[Any, Any, T]) -> T:
    """Returns what a coroutine does in an event loop of another thread, where there is none yet."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, work).result()
