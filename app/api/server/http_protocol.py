"""The HTTP protocol of the service: with limits, inference routes, batched writes and a read timeout.

Responses leave in one write at the end of an iteration of the event loop (see providers.transport.write_batcher), and a caller
who begins a request and does not continue it, or does so too slowly, gets a 408 and is disconnected.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.api.server.http_call import CallHandler, HttpCall
from app.api.server.http_limits import WholeRequestProtocol
from app.api.server.tls_closing import close_once_received
from app.settings import Settings
from providers.canonical.errors import RequestTimedOut
from providers.transport.loop_turns import PIECE_BYTES, LoopTurns
from providers.transport.write_batcher import WriteBatcher

_PARSING_S = 0.002
_PARSED_BYTES = 8 * 1024
# What has more lines may be hundreds of requests, or thousands of header lines: it is parsed in smaller pieces, which hold a few of them.
_MANY_LINES = 64
_PARSED_BYTES_OF_MANY_LINES = 512
# After a response: how long the rest of its request's body is thrown away, so that a caller who sends it first can read the response.
_DISCARD_S = 5.0
_TLS_BUFFER_BYTES = 64 * 1024  # of what a caller does not read, as without TLS; uvloop would keep 512 KiB


class CallerTransport:
    """A transport whose writes wait for the end of the loop's iteration, and whose reads may wait for their turn among large uploads.

    Everything else is the transport's own.
    """

    def __init__(self, transport: asyncio.Transport, write_batcher: WriteBatcher, loop_turns: LoopTurns) -> None:
        self._transport = transport
        self._write_batcher = write_batcher
        self._loop_turns = loop_turns
        self._is_paused = False  # by flow control
        self._continue_reading: Callable[[], None] | None = None
        self.waits_for_turn = False
        self.is_closing = transport.is_closing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        self._write_batcher.write(self._transport, data)

    def write_at_once(self, data: bytes) -> None:
        if self._transport in self._write_batcher.pending:
            self._write_batcher.write(self._transport, data)
        else:
            self._transport.write(data)

    def close(self) -> None:
        self._write_batcher.flush(self._transport)
        self._transport.close()

    def pause_reading(self) -> None:
        self._is_paused = True
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._is_paused = False
        continue_reading, self._continue_reading = self._continue_reading, None
        if continue_reading is not None:
            self.read_in_turn(continue_reading)
        elif not self.waits_for_turn:
            self._transport.resume_reading()

    def read_once_resumed(self, continue_reading: Callable[[], None]) -> None:
        """Reads nothing while flow control has paused reading; then `continue_reading` is called in turn."""
        self._continue_reading = continue_reading

    def read_in_turn(self, continue_reading: Callable[[], None]) -> None:
        """Reads nothing until then; `continue_reading` is called first, for what has been read and not been handled."""
        if not self.waits_for_turn and not self.is_closing():
            self.waits_for_turn = True
            self._transport.pause_reading()
            self._loop_turns.append(lambda: self._take_turn(continue_reading))

    def _take_turn(self, continue_reading: Callable[[], None]) -> None:
        self.waits_for_turn = False
        continue_reading()  # it may wait for another turn
        if not self.waits_for_turn and not self._is_paused and not self.is_closing():
            self._transport.resume_reading()


class _TlsCallerTransport(CallerTransport):
    def __init__(
        self, transport: asyncio.Transport, write_batcher: WriteBatcher, loop_turns: LoopTurns, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(transport, write_batcher, loop_turns)
        self._loop = loop
        transport.set_write_buffer_limits(high=_TLS_BUFFER_BYTES)

    def close(self) -> None:
        self._write_batcher.flush(self._transport)
        if not self._transport.is_closing():
            close_once_received(self._transport, self._loop)


@dataclass(frozen=True, slots=True)
class RequestTimes:
    """How long a request may take to come. Its body has as long as its head, and a second more for each `body_min_bytes_s` of it that came,
    but `body_s` at most.
    """

    pause_s: float  # the longest wait for more of it
    head_s: float  # the longest time for all of its head, from the first byte: a byte now and then does not extend it
    body_s: float
    body_min_bytes_s: float

    @classmethod
    def of(cls, settings: Settings) -> "RequestTimes":
        least_bytes_s = max(settings.body_min_bytes_s, 1)
        return cls(settings.silence_timeout_s, settings.head_timeout_s, settings.body_timeout_s, least_bytes_s)

    def for_body_s(self, received_bytes: int) -> float:
        return min(self.body_s, self.head_s + received_bytes / self.body_min_bytes_s)


def http_protocol_class(
    write_batcher: WriteBatcher, turns: LoopTurns, times: RequestTimes, handlers: Mapping[str, CallHandler]
) -> type[HttpToolsProtocol]:
    """The protocol class for uvicorn.Config(http=...). `handlers` are the inference routes, by path. `turns` are for large bodies."""
    batcher = write_batcher

    class HttpProtocol(WholeRequestProtocol):
        write_batcher = batcher
        write_timeout_s = times.pause_s
        call_handlers = handlers
        loop_turns = turns

        _read_timer: asyncio.TimerHandle | None = None
        _unread = memoryview(b"")  # received, and waiting for its turn to be parsed
        _discards_until = 0.0  # what is left of the body of a request that was answered

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            self.loop_transport = transport
            if transport.get_extra_info("ssl_object") is None:
                self._caller_transport = CallerTransport(transport, write_batcher, turns)
            else:
                self._caller_transport = _TlsCallerTransport(transport, write_batcher, turns, self.loop)
            super().connection_made(cast(asyncio.Transport, self._caller_transport))
            self._read_timer = self.loop.call_later(times.pause_s, transport.close)

        def data_received(self, data: bytes) -> None:
            if self._read_timer is not None:
                self._read_timer.cancel()
                self._read_timer = None
            if not self._unread and self.takes_whole(data):
                return
            if self._unread:  # a transport may have had it when its reading was paused
                self._unread = memoryview(bytes(self._unread) + data)
            elif len(data) >= PIECE_BYTES:
                self._unread = memoryview(data)
                self._read_large()
                self._caller_transport.read_in_turn(self._continue_reading)  # more may wait in the system, too
            elif data.count(b"\n") > _MANY_LINES:
                self._unread = memoryview(data)
                self._caller_transport.read_in_turn(self._continue_reading)
            else:
                super().data_received(data)
            # A request that came in one read, as nearly all do, costs no timer.
            if self._in_request and not self.input_ended and not self.transport.is_closing():
                self._set_read_timer()

        def _read_large(self) -> None:
            """Parses some of what was received: all of it at once would take 60 ms for 256 KB in chunks of one byte. Nothing is parsed
            while as many requests wait as may: 64 KB may be 3,600 of them, each of which takes more memory than its bytes.
            """
            ends_s = time.monotonic() + _PARSING_S
            while self._unread and not self.has_full_pipeline and not self.transport.is_closing() and time.monotonic() < ends_s:
                body_bytes = self._rest_of_body()
                if body_bytes > _PARSED_BYTES:
                    piece = bytes(self._unread[: min(body_bytes, PIECE_BYTES)])
                else:
                    piece = bytes(self._unread[:_PARSED_BYTES])
                    if piece.count(b"\n") > _MANY_LINES:
                        piece = piece[:_PARSED_BYTES_OF_MANY_LINES]
                self._unread = self._unread[len(piece) :]
                super().data_received(piece)

        def _rest_of_body(self) -> int:
            """Returns how many bytes are still to come of a body whose length its head declares, which the parser hands on in one piece.

            0 means that no body is being received, or that its length is not known.
            """
            cycle: Any = self.cycle
            if self._in_head or cycle.response_complete:
                return 0
            declared_bytes = b""
            for name, value in self.headers:
                if name == b"content-length":
                    declared_bytes = value
                elif name == b"transfer-encoding":
                    return 0
            received_bytes = cycle.body_bytes if type(cycle) is HttpCall else self.asgi_body_bytes
            return int(declared_bytes) - received_bytes if declared_bytes.isdigit() else 0

        def _continue_reading(self) -> None:
            self._cancel_read_timer()
            self._read_large()
            if self._unread:
                if self.has_full_pipeline:
                    self._caller_transport.read_once_resumed(self._continue_reading)
                    self.flow.pause_reading()
                else:
                    self._caller_transport.read_in_turn(self._continue_reading)
            if self._in_request and not self.input_ended and not self.transport.is_closing():
                self._set_read_timer()

        def eof_received(self) -> bool:  # type: ignore[override]
            self._cancel_read_timer()
            stays_open = super().eof_received()
            if not stays_open:  # the event loop would close its transport, without what waits for the end of the iteration
                self._caller_transport.close()
            return stays_open

        def connection_lost(self, exc: Exception | None) -> None:
            self._unread = memoryview(b"")
            self._cancel_read_timer()
            super().connection_lost(exc)

        def _cancel_read_timer(self) -> None:
            if self._read_timer is not None:
                self._read_timer.cancel()
                self._read_timer = None

        def _set_read_timer(self) -> None:
            remaining_s = min(times.pause_s, self._remaining_s(self.loop.time()))
            self._read_timer = self.loop.call_later(max(remaining_s, 0.0), self._end_waiting)

        def _remaining_s(self, now_s: float) -> float:
            """How long the head, or the body, of the newest request may still take."""
            cycle: Any = self.cycle
            if self.waits_since is None:
                self.waits_since = now_s
                if not self._in_head and type(cycle) is HttpCall:
                    cycle.start_early()
            if self._in_head:
                return self.waits_since + times.head_s - now_s
            if cycle.response_complete:
                return self._discards_until - now_s
            received_bytes = cycle.body_bytes if type(cycle) is HttpCall else self.asgi_body_bytes
            return self.waits_since + times.for_body_s(received_bytes) - now_s

        def _end_waiting(self) -> None:
            """Handles the end of the time within which more had to arrive."""
            self._read_timer = None
            if self.flow.read_paused or self._caller_transport.waits_for_turn:
                # The rest may have come, and wait behind the requests in progress. Its time begins when it is read.
                self.waits_since = None
                self._read_timer = self.loop.call_later(times.pause_s, self._end_waiting)
                return
            cycle: Any = self.cycle
            if self._in_head:
                self.end_input(RequestTimedOut("The head of the request took too long: send it at once."))
            elif cycle.response_complete:
                self.transport.close()
            elif type(cycle) is HttpCall and cycle is self.active_cycle:
                cycle.end_body(_body_timed_out(times, cycle.body_bytes))
            else:
                self.end_input(_body_timed_out(times, cycle.body_bytes if type(cycle) is HttpCall else self.asgi_body_bytes))

        def write_at_once(self, data: bytes) -> None:
            self._caller_transport.write_at_once(data)

        def discard_body(self) -> None:
            self.flow.resume_reading()
            self._discards_until = self.loop.time() + _DISCARD_S
            self._cancel_read_timer()
            self._read_timer = self.loop.call_later(_DISCARD_S, self._end_waiting)

        def on_message_begin(self) -> None:
            self._in_request = True
            self.waits_since = None
            super().on_message_begin()

        def on_message_complete(self) -> None:
            self._in_request = False
            super().on_message_complete()

    return HttpProtocol


def _body_timed_out(times: RequestTimes, received_bytes: int) -> RequestTimedOut:
    return RequestTimedOut(
        f"The body of the request came too slowly: {received_bytes} bytes of it have come. It may take {times.head_s:g} s, a second more"
        f" for each {times.body_min_bytes_s:g} bytes that have come, and {times.body_s:g} s at most, with no pause of more than"
        f" {times.pause_s:g} s."
    )
