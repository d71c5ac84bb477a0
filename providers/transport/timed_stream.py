"""The time within which more of a response must arrive, or more of its request be read."""

import asyncio

import httpx2

from providers.transport.deadlines import Deadlines
from providers.transport.http1_response import ResponseReader
from providers.transport.stream_parties import StreamConnection


class TimedStream:
    """The part of a ResponseStream that finds out that it takes too long; that sets all fields.

    A block needs no call of the clock: the transport looks at all busy connections now and then.
    """

    response: ResponseReader
    body_sender: asyncio.Task[None] | None
    received: bool  # whether something has come since the connection was last looked at
    _deadlines: Deadlines
    _paused: bool
    _sending: bool
    _unsent_bytes: int
    _deadline: float

    def find_timeout(self, now: float, connection: StreamConnection) -> tuple[type[httpx2.TransportError], str] | None:
        """The error class and message if a deadline has passed. Between two calls only `received` records that something arrived."""
        deadlines = self._deadlines
        if now >= deadlines.ends_at:
            return (httpx2.WriteTimeout if self._sending else httpx2.ReadTimeout), f"No complete response within {deadlines.total:g} s"
        if self._sending:
            unsent_bytes = connection.transport.get_write_buffer_size()
            if not unsent_bytes and self.body_sender is None:
                self._sending = self.received = False
                self._deadline = now + (deadlines.read if self.response.body_started else deadlines.first)
            elif not unsent_bytes or unsent_bytes != self._unsent_bytes:
                self._unsent_bytes = unsent_bytes
                self._deadline = now + deadlines.write
            elif now >= self._deadline:
                return httpx2.WriteTimeout, f"The engine read nothing of the request for {deadlines.write:g} s"
            return None
        if self._paused or (self.received and (self.response.body_started or not deadlines.has_first_timeout)):
            self.received = False
            self._deadline = now + deadlines.read
        elif now >= self._deadline:
            if deadlines.has_first_timeout and not self.response.body_started:
                return httpx2.ReadTimeout, f"No byte of the response's body within {deadlines.first:g} s"
            return httpx2.ReadTimeout, f"Nothing received for {deadlines.read:g} s"
        return None
