"""uvicorn's HTTP protocol, with inference routes called directly. Everything else goes through ASGI.

ASGI would cost each inference a second task (to notice a disconnect), two events, and regular expressions over our own headers.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.api.server.http_call import CallHandler, HttpCall
from app.api.server.path_segments import decode_slashes, routed_path
from app.domain.model_address import ADDRESSED_PATHS, ModelAddress, split_address
from providers.transport.loop_turns import LoopTurns
from providers.transport.write_batcher import WriteBatcher

# An extension of ASGI: what closes the connection of a response that has begun. Raising would log a traceback, and returning an error.
BREAK_OFF = "narthex.break_off"

_MAX_PIPELINED = 8  # requests that wait behind the one in progress


class AddressedRoute(Protocol):
    """A route whose address names a model. It stands among the handlers of paths under its template."""

    async def __call__(self, call: HttpCall) -> None: ...

    def at(self, address: ModelAddress) -> CallHandler:
        """The handler of one call at this address."""
        ...


class InferenceProtocol(HttpToolsProtocol):
    """Dispatches by path."""

    call_handlers: Mapping[str, CallHandler] = {}  # the inference routes, by path
    loop_turns: LoopTurns  # for large responses
    write_timeout_s = 120.0
    write_batcher: WriteBatcher
    loop_transport: asyncio.WriteTransport  # of the event loop, to which write_batcher writes

    url = b""  # of the newest request, as much as has come
    active_cycle: Any = None  # the call, or the ASGI cycle, that is in progress, or the last one
    input_ended = False  # the connection is closed once the requests before the end are answered
    asgi_body_bytes = 0  # how many of the body of the newest request have come, if it is not an inference
    cut_off: Any = None  # the one of them whose body is incomplete, and which is not answered
    _in_head = True
    _idle_since = 0.0
    _idle_timer: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        super().connection_lost(exc)
        # uvicorn notifies the newest request only; the one in progress may be an earlier one.
        for queued, _ in cast(Any, self.pipeline):
            if type(queued) is HttpCall:
                queued.on_disconnect()
            else:
                queued.disconnected = True
        active = self.active_cycle
        if type(active) is HttpCall:
            active.on_disconnect()
        elif active is not None and not active.response_complete:
            active.disconnected = True
            active.message_event.set()

    @property
    def has_full_pipeline(self) -> bool:
        """Whether nothing more is to be read: thousands of requests may arrive with each read, and would fill the memory."""
        return len(self.pipeline) >= _MAX_PIPELINED

    # Called by the parser

    def on_message_begin(self) -> None:
        self._in_head = True
        self.url = b""
        self.expect_100_continue = False
        self.headers = []

    def on_headers_complete(self) -> None:
        self._in_head = False
        path, handler = self._find_handler()
        if handler is None:
            self._delegate_to_asgi()
            return
        previous = self.cycle
        is_queued = previous is not None and not previous.response_complete  # pyright: ignore[reportUnnecessaryComparison]
        parser = self.parser
        assert parser is not None  # it is the caller
        version = parser.get_http_version()
        call = HttpCall(
            self,
            handler,
            parser.get_method().decode("ascii"),
            path,
            self.headers,
            self.client[0] if self.client else None,
            http_1_0=version == "1.0",
            keep_alive=version != "1.0" and parser.should_keep_alive(),
        )
        self.cycle = cast(Any, call)
        if is_queued:
            self.pipeline.appendleft((cast(Any, call), cast(Any, None)))
            if self.has_full_pipeline:  # not at the first: a disconnect is noticed only while reading
                self.flow.pause_reading()
        else:
            self.active_cycle = call
        call.on_head(expects_100=self.expect_100_continue, queued=is_queued)

    def on_body(self, body: bytes) -> None:
        call: Any = self.cycle
        if type(call) is HttpCall:
            call.receive_body(body)
        else:
            self.asgi_body_bytes += len(body)
            super().on_body(body)

    def on_message_complete(self) -> None:
        call: Any = self.cycle
        if type(call) is HttpCall:
            call.on_body_complete()
        else:
            super().on_message_complete()

    def _find_handler(self) -> tuple[str, CallHandler | None]:
        path = self.url.decode("latin-1")
        handler = self.call_handlers.get(path)
        if handler is None and (not path.startswith("/") or "?" in path or "%" in path):
            path = routed_path((httptools.parse_url(self.url).path or b"").decode("ascii"))
            handler = self.call_handlers.get(path)
        if handler is None and path.startswith(ADDRESSED_PATHS):
            handler = self._find_addressed(path)
        return path, handler

    def _find_addressed(self, path: str) -> CallHandler | None:
        """The handler of a call whose address names a model; None: it is no such address."""
        found = split_address(path)
        route = None if found is None else self.call_handlers.get(found[0])
        if found is None or route is None:
            return None
        query = self.url.partition(b"?")[2].partition(b"#")[0]
        return cast("AddressedRoute", route).at(ModelAddress(decode_slashes(found[1]), query))

    def _delegate_to_asgi(self) -> None:
        url, headers, expects_100 = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.scope["extensions"] = {BREAK_OFF: cast(Any, self.transport.close)}
        self.url, self.expect_100_continue = url, expects_100
        self.asgi_body_bytes = 0
        self.headers.extend(headers)
        super().on_headers_complete()

    # Called when a response is complete

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self.active_cycle = cycle
        if type(cycle) is HttpCall:
            cycle.dequeue()
        else:
            super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """Does what uvicorn's method does, but does not reset the keep-alive timer with each request.

        The timer checks the clock when it expires.
        """
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        newest: Any = self.cycle
        if newest.more_body and newest.response_complete:
            self.discard_body()
        if len(self.pipeline) < _MAX_PIPELINED:
            self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            if cycle is not self.cut_off:
                self._start_asgi_task(cycle, app)
                return
        if self.input_ended:
            self.end_connection()
            return
        self._idle_since = self.loop.time()
        if self._idle_timer is None:
            self._idle_timer = self.loop.call_later(self.timeout_keep_alive, self._close_if_idle)

    def write_at_once(self, data: bytes) -> None:
        self.transport.write(data)

    def discard_body(self) -> None:
        """Called when a request was answered before its body was complete."""

    def end_connection(self) -> None:
        """Called when all requests before the end of the input are answered."""
        self.transport.close()

    def _close_if_idle(self) -> None:
        self._idle_timer = None
        if self._in_head or not self.cycle.response_complete or self.transport.is_closing():
            return  # a request has begun: the end of its response sets a new timer
        remaining_s = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if remaining_s <= 0:
            self.transport.close()
        else:
            self._idle_timer = self.loop.call_later(remaining_s, self._close_if_idle)
