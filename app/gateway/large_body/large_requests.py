"""Large requests: a body is parsed in a thread, and only after it is known to keep to the caps; a small one is parsed at once.

Why a thread, and what it brings: docs/decisions/012-large-requests.md.
"""

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from app.gateway.large_body.request_size import RequestCaps
from app.settings import Settings
from providers.dialect import Dialect, InboundRequest

P = ParamSpec("P")
T = TypeVar("T")

# A body up to the first size is parsed at once, whatever is in it; above the last one it is large; between them, if it has many
# objects. Caps are for those above the second size.
SMALL_BYTES = 16 * 1024
_UNCOUNTED_BYTES = 64 * 1024
LARGE_BYTES = 256 * 1024
_LARGE_OBJECTS = 1_000
# While large work runs, the event loop asks for the interpreter at each of its turns, and waits so long for it. Only then: other threads
# (a sync of the spool) would otherwise interrupt the event loop as often, which made each request dearer by 2 to 3 %.
_SWITCH_INTERVAL_S = 0.0005
_USUAL_SWITCH_INTERVAL_S = sys.getswitchinterval()


class LargeRequests:
    """Work on large bodies, in one thread of its own: with several, the event loop would wait for each of them in turn."""

    def __init__(self, settings: Settings) -> None:
        self._caps = RequestCaps.of(settings)
        self._executor = ThreadPoolExecutor(1, "large-requests")

    async def parse(self, dialect: Dialect, raw: bytes) -> InboundRequest:
        """Raises InvalidRequest."""
        return await self.run(self._check_and_parse, dialect, raw) if is_large(raw) else dialect.parse_request(raw)

    async def run_if_large(self, size_bytes: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """In the thread if the work is on more than 16 KiB, which may be a thousand objects; else at once."""
        return await self.run(work, *args, **kwargs) if size_bytes > SMALL_BYTES else work(*args, **kwargs)

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, lambda: _run_beside_loop(work, *args, **kwargs))

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _check_and_parse(self, dialect: Dialect, raw: bytes) -> InboundRequest:
        if len(raw) > _UNCOUNTED_BYTES:
            self._caps.check(raw)
        return dialect.parse_request(raw)


def _run_beside_loop(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Set by the thread, which may still run when the request that waits for it has been cancelled."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    try:
        return work(*args, **kwargs)
    finally:
        sys.setswitchinterval(_USUAL_SWITCH_INTERVAL_S)


def is_large(raw: bytes) -> bool:
    """Whether work on this body would hold up the event loop."""
    size_bytes = len(raw)
    return size_bytes > SMALL_BYTES and (size_bytes > LARGE_BYTES or raw.count(b"{") > _LARGE_OBJECTS)
