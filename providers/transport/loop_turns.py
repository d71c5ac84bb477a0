"""Turns of the event loop: what large transfers have to do there is done in pieces, a few at each turn, whoever asked for them.

Between the pieces everybody else is served. libuv itself reads from one connection up to 32 times, 256 KB each, before it looks at the
next (uv__read() in src/unix/stream.c, read 2026-11): forty callers with large bodies held up everybody else for 300 ms.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable

# A piece of this size usually takes less than a millisecond, whatever is done with it.
PIECE_BYTES = 64 * 1024
_PIECES_A_TURN = 4
_TURN_S = 0.002  # where pieces take longer than usual, fewer are done


class LoopTurns:
    """The pieces that wait, for all callers of a process. At one turn, `pieces_a_turn` are done at most."""

    def __init__(self, pieces_a_turn: int = _PIECES_A_TURN) -> None:
        self._pieces_a_turn = pieces_a_turn
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def append(self, do_piece: Callable[[], None]) -> None:
        """Calls it at a later turn of the event loop."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._next)
        self._waiting.append(do_piece)

    async def wait(self) -> None:
        """Returns at a later turn of the event loop, for one more piece."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.append(lambda: None if turn.done() else turn.set_result(None))
        await turn

    def _next(self) -> None:
        ends_s = time.monotonic() + _TURN_S
        try:
            for _ in range(min(self._pieces_a_turn, len(self._waiting))):
                self._waiting.popleft()()
                if time.monotonic() > ends_s:
                    break
        finally:  # an error of one must not stop the others
            if self._waiting:
                asyncio.get_running_loop().call_soon(self._next)
