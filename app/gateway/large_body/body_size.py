"""The only place that decides by a body's size where work on it runs.

A body up to SMALL_BYTES is handled at once, whatever is in it; one above LARGE_BYTES is large; between them, it is if it has many
objects, arrays or values. Large ones are handled beside the event loop: see TeamLargeRequests and RequestBody, which ask here.
"""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from providers.wire import count_structure

P = ParamSpec("P")
T = TypeVar("T")

SMALL_BYTES = 16 * 1024
LARGE_BYTES = 256 * 1024
_LARGE_CONTAINERS = 1_000
_LARGE_VALUES = 20_000


def is_large(raw: bytes) -> bool:
    """Whether work on this body would hold up the event loop."""
    size_bytes = len(raw)
    if size_bytes <= SMALL_BYTES or size_bytes > LARGE_BYTES:
        return size_bytes > LARGE_BYTES
    containers, commas = count_structure(raw)
    return containers > _LARGE_CONTAINERS or commas > _LARGE_VALUES


def is_slow_to_record(raw: bytes, *, is_masked: bool) -> bool:
    """Whether recording this body would hold up the event loop. Nobody knows what the rules of a team take to mask it."""
    return len(raw) > SMALL_BYTES and (is_masked or is_large(raw))


async def run_in_any_thread(raw: bytes, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs work on this body that leaves the interpreter to others, such as hashing: it needs no turn of its team's."""
    return work(*args, **kwargs) if len(raw) < LARGE_BYTES else await asyncio.to_thread(work, *args, **kwargs)
