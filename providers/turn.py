"""Writes of one turn of the event loop leave together: one for each transport, one after the other.

A write that wakes a sleeping reader costs several times one that finds it awake, and more than all else that is done to a chunk
(py-spy, 2026-11: a quarter of the gateway's time were writes). Nothing waits longer than the rest of one turn.
"""

import asyncio
import logging
from collections.abc import Callable

log = logging.getLogger(__name__)


class Turn:
    """What is held until the turn ends. One per event loop; those who share it share its row of writes."""

    def __init__(self) -> None:
        # Kept: in CPython before 3.12 asyncio.get_running_loop() asks the system for the process's id each time.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._held: dict[asyncio.WriteTransport, list[bytes]] = {}
        self._first: list[Callable[[], None]] = []

    def first(self, do: Callable[[], None]) -> None:
        """Has `do` called when the turn ends, before anything leaves."""
        if not self._held and not self._first:
            self._call_at_its_end()
        self._first.append(do)

    def write(self, transport: asyncio.WriteTransport, data: bytes) -> None:
        held = self._held
        if not held and not self._first:
            self._call_at_its_end()
        pieces = held.get(transport)
        if pieces is None:
            held[transport] = [data]
        else:
            pieces.append(data)

    def flush(self, transport: asyncio.WriteTransport) -> None:
        """Writes what is held for one transport now: it is about to be closed, or looked at."""
        pieces = self._held.pop(transport, None)
        if pieces:
            self._do_first()
            transport.write(b"".join(pieces))

    def _call_at_its_end(self) -> None:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        self._loop.call_soon(self._end)

    def _do_first(self) -> None:
        first, self._first = self._first, []
        for do in first:
            try:
                do()
            except Exception:  # the writes that wait for it are others': held for good, they would stop all that come after them too
                log.exception("what was to be done before the turn's writes could not be")

    def _end(self) -> None:
        self._do_first()
        held, self._held = self._held, {}
        for transport, pieces in held.items():
            if transport.is_closing():
                continue
            transport.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))
