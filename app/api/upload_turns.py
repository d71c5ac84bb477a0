"""Large uploads take turns: at each turn of the event loop a few of them are read from, whatever all of them send.

libuv reads from a connection up to 32 times 256 KB before it looks at the next one, so forty callers who sent large bodies at once
held up everybody else for 300 ms.
"""

import asyncio
from collections import deque
from typing import Protocol

# A read of this size leaves more to read, or was one of a body that did.
LARGE_READ_BYTES = 64 * 1024
_READS_A_TURN = 4


class PausedReader(Protocol):
    def take_turn(self) -> None: ...


class UploadTurns:
    """The connections that wait, for all callers of a process."""

    def __init__(self) -> None:
        self._waiting: deque[PausedReader] = deque()

    def append(self, reader: PausedReader) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._next)
        self._waiting.append(reader)

    def _next(self) -> None:
        for _ in range(min(_READS_A_TURN, len(self._waiting))):
            self._waiting.popleft().take_turn()
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next)
