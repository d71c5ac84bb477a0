"""WriteBatcher: joins the writes of one event-loop iteration, so that each transport is written to once, one after the other.

A write that wakes a sleeping reader costs several times one to a reader that is awake, and more than all other work on a chunk (py-spy,
2026-11: a quarter of the gateway's time went into writes). Nothing waits longer than the rest of one iteration.
"""

import asyncio
import logging
from collections.abc import Callable

log = logging.getLogger(__name__)


class WriteBatcher:
    """Holds writes until the end of the event-loop iteration. One per event loop, shared by all transports."""

    def __init__(self) -> None:
        # Cached: before CPython 3.12 each asyncio.get_running_loop() makes a getpid system call.
        self._loop: asyncio.AbstractEventLoop | None = None
        self.pending: dict[asyncio.WriteTransport, list[bytes]] = {}
        self._callbacks: list[Callable[[], None]] = []

    def call_before_flush(self, callback: Callable[[], None]) -> None:
        """Calls `callback` at the end of the iteration, before anything is written; it may write more."""
        if not self.pending and not self._callbacks:
            self._schedule_flush()
        self._callbacks.append(callback)

    def write(self, transport: asyncio.WriteTransport, data: bytes) -> None:
        """Writes at the end of the iteration, together with what else is written to this transport."""
        pending = self.pending
        if not pending and not self._callbacks:
            self._schedule_flush()
        pieces = pending.get(transport)
        if pieces is None:
            pending[transport] = [data]
        else:
            pieces.append(data)

    def flush(self, transport: asyncio.WriteTransport) -> None:
        """Writes now what is held for one transport: it is about to be closed, or its buffer to be measured."""
        pieces = self.pending.pop(transport, None)
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
            except Exception:  # the pending writes are of other requests: without the flush they and all later ones would wait for ever
                log.exception("a callback before the flush failed")

    def _flush_all(self) -> None:
        self._run_callbacks()
        pending, self.pending = self.pending, {}
        for transport, pieces in pending.items():
            if transport.is_closing():
                continue
            transport.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))
