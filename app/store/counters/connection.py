"""One connection to Redis or Valkey: commands go out with the turn of the event loop, replies come back in order."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, cast

import hiredis

from providers.turn import Turn

log = logging.getLogger(__name__)

# Errors after which nothing better is to be expected of this connection: a replica, a server that is loading, cannot write, or is full.
# They come before anything is done, also from within a script.
_HOPELESS = ("LOADING", "READONLY", "MASTERDOWN", "NOAUTH", "MISCONF", "TRYAGAIN", "CLUSTERDOWN", "OOM", "BUSY ")
# A loop that was held up finds the timer first and the replies, which have long been there, second.
_SECOND_LOOK_S = 0.01


class Away(Exception):
    """The server cannot be asked, or has not answered. Whether it did what it was told is not known, unless `unsent`."""

    def __init__(self, why: str, *, unsent: bool = False) -> None:
        super().__init__(why)
        self.unsent = unsent


class Says(Exception):
    """The server answered with an error."""


class Waiter(Protocol):
    """Who waits for a reply; a Future is one."""

    def done(self) -> bool: ...

    def set_result(self, result: Any, /) -> None: ...

    def set_exception(self, exception: Exception, /) -> None: ...


class Connection(asyncio.Protocol):
    """send() and wait. A reply that does not come within `timeout_s` ends the connection, and all who wait are told Away."""

    def __init__(self, turn: Turn, timeout_s: float, on_lost: Callable[[], None]) -> None:
        self._turn = turn
        self._timeout_s = timeout_s
        self._on_lost = on_lost
        self._reader = hiredis.Reader()
        self._waiting: deque[tuple[Waiter, float]] = deque()
        self._unsent: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._suspected = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def send(self, command: bytes, waiter: Waiter) -> None:
        """Raises Away, unsent, if the connection has ended."""
        if self._transport is None:
            raise Away("The connection has ended.", unsent=True)
        self._waiting.append((waiter, self._loop.time()))
        if self._timer is None:
            self._timer = self._loop.call_later(self._timeout_s, self._look)
        # Before the turn's answers: who has read one may ask again at once, of another worker, and must find his place free.
        if not self._unsent:
            self._turn.first(self._write)
        self._unsent.append(command)

    def data_received(self, data: bytes) -> None:
        self._suspected = False
        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not False:
                waiter, _ = self._waiting.popleft()
                if isinstance(reply, hiredis.ReplyError):
                    said = str(reply)
                    hopeless = said.startswith(_HOPELESS)
                    if not waiter.done():
                        waiter.set_exception(Away(said, unsent=True) if hopeless else Says(said))
                    if hopeless:
                        log.warning("Redis cannot do what it is asked for: it counts as away", extra={"said": said})
                        self.abort()
                        return
                elif not waiter.done():
                    waiter.set_result(reply)
        except (hiredis.ProtocolError, IndexError):  # it speaks something else, or speaks unasked
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._end()

    def _write(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._transport is not None:
            self._transport.write(b"".join(unsent))

    def _end(self) -> None:
        if self._transport is None:
            return
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        lost = Away("The connection broke, or the server was silent.")
        while self._waiting:
            waiter, _ = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(lost)
        self._on_lost()

    def _look(self) -> None:
        self._timer = None
        if not self._waiting:
            return
        left_s = self._waiting[0][1] + self._timeout_s - self._loop.time()
        if left_s <= 0:
            if self._suspected:
                self.abort()
                return
            self._suspected, left_s = True, _SECOND_LOOK_S
        self._timer = self._loop.call_later(left_s, self._look)
