"""Places of those who have records read as messages: few at once, so that a process keeps its threads and processor time for others."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from providers.canonical.errors import Unavailable

_PLACES = 2
_WAIT_S = 10.0


class ReadingPlaces:
    """Who waits for a place holds neither a connection nor anything that was read."""

    def __init__(self, places: int = _PLACES, wait_s: float = _WAIT_S) -> None:
        self._free = asyncio.Semaphore(places)
        self._wait_s = wait_s

    @asynccontextmanager
    async def place(self) -> AsyncGenerator[None]:
        """Raises Unavailable if none becomes free in time."""
        try:
            async with asyncio.timeout(self._wait_s):
                await self._free.acquire()
        except TimeoutError:
            raise Unavailable("Too many requests are being read as messages at the moment: try again.", retry_after_s=2) from None
        try:
            yield
        finally:
            self._free.release()
