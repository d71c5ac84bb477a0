"""The HTTP protocol of the service: bounded, with Doors, and two ways of its own. Answers leave in one write at the end of a turn of the
loop (see providers.turn), and a caller who begins a request and does not go on is let go.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.api.bounded import BoundedProtocol
from app.api.call import Answering
from providers.turn import Turn


class _Corked:
    """A transport whose writes wait for the end of the turn; everything else is the transport's own."""

    def __init__(self, transport: asyncio.Transport, turn: Turn) -> None:
        self._transport = transport
        self._turn = turn
        self.is_closing = transport.is_closing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        self._turn.write(self._transport, data)

    def close(self) -> None:
        self._turn.flush(self._transport)
        self._transport.close()


def corked(turn: Turn, silence_s: float, answering: Mapping[str, Answering]) -> type[HttpToolsProtocol]:
    """The protocol class for uvicorn.Config(http=...). `silence_s`: the longest wait for more of a request that has begun.

    `answering`: the Doors, by path.
    """

    class CorkedProtocol(BoundedProtocol):
        unread_s = silence_s
        doors = answering

        _within_request = True  # a connection that never says anything counts as one that has begun
        _giving_up: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(cast(asyncio.Transport, _Corked(transport, turn)))
            self._giving_up = self.loop.call_later(silence_s, transport.close)

        def data_received(self, data: bytes) -> None:
            if self._giving_up is not None:
                self._giving_up.cancel()
                self._giving_up = None
            super().data_received(data)
            # A request that came whole, as nearly all do, costs no timer.
            if self._within_request and not self.transport.is_closing():
                self._giving_up = self.loop.call_later(silence_s, self.transport.close)

        def connection_lost(self, exc: Exception | None) -> None:
            if self._giving_up is not None:
                self._giving_up.cancel()
            super().connection_lost(exc)

        def on_message_begin(self) -> None:
            self._within_request = True
            super().on_message_begin()

        def on_message_complete(self) -> None:
            self._within_request = False
            super().on_message_complete()

    return CorkedProtocol
