"""Writes of one turn of the event loop leave together: one for each transport, one after the other.

A write that wakes a sleeping reader costs several times one that finds it awake, and more than all else that is done to a chunk
(py-spy, 2026-11: a quarter of the gateway's time were writes). Nothing waits longer than the rest of one turn.
"""

import asyncio
import logging
from collections.abc import Callable

log = logging.getLogger(__name__)


class WriteBatcher:
    """What is held until the turn ends. One per event loop; those who share it share its row of writes."""

    def __init__(self) -> None:
        # Kept: in CPython before 3.12 asyncio.get_running_loop() asks the system for the process's id each time.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pending: dict[asyncio.WriteTransport, list[bytes]] = {}
        self._callbacks: list[Callable[[], None]] = []

    def call_before_flush(self, callback: Callable[[], None]) -> None:
        """Has `do` called when the turn ends, before anything leaves."""
        if not self._pending and not self._callbacks:
            self._schedule_flush()
        self._callbacks.append(callback)

    def write(self, transport: asyncio.WriteTransport, data: bytes) -> None:
        pending = self._pending
        if not pending and not self._callbacks:
            self._schedule_flush()
        pieces = pending.get(transport)
        if pieces is None:
            pending[transport] = [data]
        else:
            pieces.append(data)

    def flush(self, transport: asyncio.WriteTransport) -> None:
        """Writes what is held for one transport now: it is about to be closed, or looked at."""
        pieces = self._pending.pop(transport, None)
        if pieces:
            self._run_callbacks()
            transport.write(b"".join(pieces))

    def _schedule_flush(self) -> None:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        self._loop.call_soon(self._flush_all)

    def _run_callbacks(self) -> None:
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback()
            except Exception:  # the writes that wait for it are others': held for good, they would stop all that come after them too
                log.exception("what was to be done before the turn's writes could not be")

    def _flush_all(self) -> None:
        self._run_callbacks()
        pending, self._pending = self._pending, {}
        for transport, pieces in pending.items():
            if transport.is_closing():
                continue
            transport.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))
