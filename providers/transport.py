"""The one file that opens a socket to an engine: httpx's transport interface over a lean pool of HTTP/1.1 connections.

    request = httpx.Request("POST", url, headers=fields, stream=httpx.ByteStream(body), extensions={"timeout": {"connect": 5, "read": 60}})
    response = await transport.handle_async_request(request)     # httpx.AsyncClient(transport=transport) works too, and costs more

Timeouts, in request.extensions["timeout"], are seconds or None (as long as it takes); late by up to 0.1 s, never early:

    pool     for a free connection, where an origin has all it may have
    connect  for names, TCP and TLS
    write    the engine takes no byte of the request
    first    from the request's last byte to the body's first; where absent, `read` applies
    read     silence between blocks; not counted while the reader lets too much lie unread
    total    all of it

Every failure to get an answer is an httpx.TransportError whose class says how far it came. The caller decides all headers: without an
Accept-Encoding of its own none is sent, and nothing is decoded here.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from math import inf
from typing import cast

import httpx

from providers.h1 import PIECE_BYTES, AnswerReader, BadAnswer, Outgoing, write_pieces, write_request

SWEEP_S = 0.05  # how often deadlines are looked at; a timer per read would cost more than the read
QUEUED_BYTES = 256 * 1024  # what may lie unread before the engine is made to wait
# An engine that had closed a kept connection says so within a round trip of our writing on it. If the end comes later, the engine
# may have been at work, and whether to ask again is for those who know what the request costs.
STALE_WITHIN_S = 1.0


_CLOSED = "This transport was closed"
_STEPS = ("pool", "connect", "write", "read", "total")
_Address = tuple[str, bytes, str | None]  # scheme, host and port, and the name to ask of TLS where it is another


class AnswerTooLarge(httpx.TransportError):
    """The answer is longer than its reader was ready to take; the connection is closed."""


@dataclass(frozen=True, slots=True)
class Stats:
    """Connections now (idle, busy) and since the start (opened; reused: requests sent on one that had served before)."""

    idle: int
    busy: int
    opened: int
    reused: int


def tls_context(ca_bundle: str | None = None) -> ssl.SSLContext:
    """Trusts the public authorities (SSL_CERT_FILE and SSL_CERT_DIR are obeyed), and those in the PEM file `ca_bundle` as well."""
    context = httpx.create_ssl_context()
    if ca_bundle is not None:
        context.load_verify_locations(cafile=ca_bundle)
    context.set_alpn_protocols(["http/1.1"])
    return context


class Transport(httpx.AsyncBaseTransport):
    """Sends requests to engines over kept connections; one Transport per event loop.

    A given `tls` is used as it is, without one tls_context(ca_bundle) is made: it reads files, so not while the loop is busy.
    Idle connections close after `idle_s`; the one used last is used next, so that a quiet pool shrinks.
    """

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        ca_bundle: str | None = None,
        idle_s: float = 30.0,
        connections_per_origin: int = 1_000,
    ) -> None:
        self._tls = tls_context(ca_bundle) if tls is None else tls
        self._idle_s = idle_s
        self._connections_per_origin = connections_per_origin
        self._origins: dict[_Address, _Origin] = {}
        self._busy: set[_Connection] = set()
        self._dialling: set[asyncio.Timeout] = set()
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._sweep_due = 0.0
        self._passed_over = False
        self._expiry_timer: asyncio.TimerHandle | None = None
        self._opened = 0
        self._reused = 0
        self._closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Returns at the answer's head; `response.stream` is an AnswerStream. Cancelling, at any moment, closes the connection at once.

        A kept connection that ends before the first byte of an answer, within a second, was stale: the request is sent once more, on
        a new one. RFC 9112 9.3.1 wants that only where repetition is known to be harmless; here it is: what we send asks an engine
        to compute and changes nothing there, the caller sees one answer, and an engine that has closed an idle connection has not
        read the request. A body that comes in pieces cannot be sent twice, and so gets a new connection to begin with.
        """
        outgoing = write_request(request)
        patience = _patience(request)
        fresh = outgoing.body is None
        while True:
            connection = await self._connection(request, patience, fresh)
            stream = AnswerStream(outgoing, patience, connection, may_repeat=connection.served and not fresh)
            self._begin(connection, stream)
            if await stream.send(request, outgoing):
                break
            fresh = True
        answer = stream.answer
        # Without `request=`: a stream may be held for minutes, and would hold the ask's bytes with it.
        return httpx.Response(
            answer.status,
            headers=answer.headers,
            stream=stream,
            extensions={"http_version": answer.version, "reason_phrase": answer.reason},
        )

    async def aclose(self) -> None:
        """Closes every connection at once: answers in flight end in a ReadError, requests on their way or later in a ConnectError."""
        self._closed = True
        for timer in (self._sweep_timer, self._expiry_timer):
            if timer is not None:
                timer.cancel()
        self._sweep_timer = self._expiry_timer = None
        for dialling in self._dialling:
            if not dialling.expired():
                dialling.reschedule(0.0)
        for origin in [*self._origins.values()]:
            while waiter := origin.next_waiter():
                waiter.set_exception(httpx.ConnectError(_CLOSED))
            for connection in [*origin.idle]:
                connection.abort()
        for connection in [*self._busy]:
            connection.lose(httpx.ReadError, _CLOSED)

    def stats(self) -> Stats:
        return Stats(sum(len(origin.idle) for origin in self._origins.values()), len(self._busy), self._opened, self._reused)

    # A connection for a request

    async def _connection(self, request: httpx.Request, patience: "_Patience", fresh: bool) -> "_Connection":
        if self._closed:
            raise httpx.ConnectError(_CLOSED, request=request)
        origin = self._origin(request)
        if origin.idle and not fresh:
            return origin.idle.popitem()[0]
        if origin.open < self._connections_per_origin:
            origin.open += 1
        elif origin.idle:  # and a new one is wanted: the oldest makes room
            next(iter(origin.idle)).make_room()
        else:
            given = await self._turn(origin, request, patience)
            if given is not None:
                if given.gone:
                    return await self._connection(request, patience, fresh)
                if not fresh:
                    return given
                given.make_room()
        return await self._dial(origin, request, patience)

    def _origin(self, request: httpx.Request) -> "_Origin":
        url = request.url
        key = (url.scheme, url.netloc, request.extensions.get("sni_hostname"))
        origin = self._origins.get(key)
        if origin is None:
            if url.scheme not in ("http", "https") or not url.host:
                raise httpx.UnsupportedProtocol(f"No way to speak to {url.scheme}://{url.host}: http or https, and a host", request=request)
            origin = self._origins[key] = _Origin(key, url.host, url.port or (443 if url.scheme == "https" else 80))
        return origin

    async def _turn(self, origin: "_Origin", request: httpx.Request, patience: "_Patience") -> "_Connection | None":
        """A connection that has become free, or None: there is room for one more, and `origin.open` counts it already."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[_Connection | None] = loop.create_future()
        origin.waiters[waiter] = None
        try:
            async with asyncio.timeout(patience.left(patience.pool, loop.time())):
                given = await waiter
            if self._closed:
                raise httpx.ConnectError(_CLOSED, request=request)
            return given
        except BaseException as exc:
            origin.waiters.pop(waiter, None)
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:  # given in the moment that we gave up
                given = waiter.result()
                if given is None:
                    self._free_place(origin)
                else:
                    self._offer(given)
            if isinstance(exc, TimeoutError):
                message = f"All {self._connections_per_origin} connections to {origin} stayed busy"
                raise httpx.PoolTimeout(message, request=request) from None
            raise

    async def _dial(self, origin: "_Origin", request: httpx.Request, patience: "_Patience") -> "_Connection":
        """A new connection, counted in `origin.open` already. A proxy, should there be one, is spoken to here."""
        loop = asyncio.get_running_loop()
        connection = _Connection(self, origin)
        sni = origin.sni or origin.host if origin.tls else None
        patiently = asyncio.timeout(patience.left(patience.connect, loop.time()))
        self._dialling.add(patiently)
        try:
            async with patiently:
                await loop.create_connection(
                    lambda: connection, origin.host, origin.port, ssl=self._tls if origin.tls else None, server_hostname=sni
                )
            if self._closed or connection.gone:
                raise ConnectionError("closed before a request could be sent")
        except BaseException as exc:
            connection.abort()
            if self._closed and isinstance(exc, OSError):
                raise httpx.ConnectError(_CLOSED, request=request) from exc
            if patiently.expired() and isinstance(exc, TimeoutError):
                raise httpx.ConnectTimeout(f"No connection to {origin} in time", request=request) from exc
            if isinstance(exc, OSError | UnicodeError):  # UnicodeError: a host that cannot be a name
                raise httpx.ConnectError(f"No connection to {origin}: {exc}", request=request) from exc
            raise
        finally:
            self._dialling.discard(patiently)
        self._opened += 1
        return connection

    # What connections tell

    def _begin(self, connection: "_Connection", stream: "AnswerStream") -> None:
        connection.stream = stream
        if connection.served:
            self._reused += 1
        connection.served = True
        connection.busy_since = asyncio.get_running_loop().time()
        self._busy.add(connection)
        if self._sweep_timer is None:
            self._arm_sweep()

    def put_back(self, connection: "_Connection") -> None:
        """The connection has served its request and may serve another."""
        self._busy.discard(connection)
        self._offer(connection)

    def forget(self, connection: "_Connection") -> None:
        """The connection is closed, or was never opened."""
        self._busy.discard(connection)
        connection.origin.idle.pop(connection, None)
        if not connection.place_is_kept:
            self._free_place(connection.origin)

    def _offer(self, connection: "_Connection") -> None:
        origin = connection.origin
        if self._closed:
            connection.abort()
        if connection.gone:
            return
        if waiter := origin.next_waiter():
            waiter.set_result(connection)
            return
        origin.idle[connection] = None
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        if self._expiry_timer is None:
            self._expiry_timer = loop.call_later(self._idle_s, self._expire)

    def _free_place(self, origin: "_Origin") -> None:
        if waiter := origin.next_waiter():
            waiter.set_result(None)
            return
        origin.open -= 1
        if not origin.open:
            self._origins.pop(origin.key, None)

    # Time

    def _arm_sweep(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweep_due = loop.time() + SWEEP_S
        self._sweep_timer = loop.call_later(SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        # After a stall of the loop, timers run before what arrived meanwhile is read: an engine that spoke would seem silent. So one
        # late sweep is passed over; one, for a loop that is always late must not wait for ever.
        self._passed_over = now - self._sweep_due > SWEEP_S and not self._passed_over
        if not self._passed_over:
            for connection in [*self._busy]:
                stream = connection.stream
                late = stream and stream.overdue(now, connection)
                if late:
                    connection.lose(*late)
        self._sweep_timer = None
        if self._busy:
            self._arm_sweep()

    def _expire(self) -> None:
        loop = asyncio.get_running_loop()
        oldest, horizon = inf, loop.time() - self._idle_s
        for origin in [*self._origins.values()]:
            while origin.idle and (connection := next(iter(origin.idle))).idle_since <= horizon:
                connection.abort()
            if origin.idle:
                oldest = min(oldest, next(iter(origin.idle)).idle_since)
        self._expiry_timer = None if oldest == inf else loop.call_at(oldest + self._idle_s, self._expire)


class AnswerStream(httpx.AsyncByteStream):
    """An answer's body: each block as it came, at once, those that came together joined. For one reader; cancelling it closes all.

    Raises httpx.TransportError when the answer ends before its end: a body cut short is never a success. Once closed, also by
    another task while the reader waits, it raises httpx.StreamClosed.
    """

    def __init__(self, outgoing: Outgoing, patience: "_Patience", connection: "_Connection", may_repeat: bool) -> None:
        self.answer = AnswerReader(outgoing.head_only)
        self.keep_alive = outgoing.keep_alive
        self.pump: asyncio.Task[None] | None = None
        self._connection: _Connection | None = connection
        self._may_repeat = may_repeat
        self._patience = patience
        self._waiter: asyncio.Future[None] | None = None
        self._failure: tuple[type[httpx.TransportError], str] | None = None
        self._pump_error: Exception | None = None
        self._closed = False
        self._paused = False
        # The sweep's view, so that a block costs no look at the clock
        self._sending = True
        self._unsent_bytes = -1  # never equal at the first look, which therefore sets the first deadline
        self._heard = False
        self._deadline = inf

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        answer = self.answer
        blocks = answer.blocks
        while not blocks:
            if self._closed:
                raise httpx.StreamClosed
            if self._failure is not None:
                raise self._error()
            if answer.complete:
                raise StopAsyncIteration
            await self._news()
        block = blocks[0] if len(blocks) == 1 else b"".join(blocks)
        blocks.clear()
        answer.queued_bytes = 0
        if self._paused:
            self._resume()
        return block

    async def read_all(self, limit_bytes: int) -> bytes:
        """The whole body. Raises AnswerTooLarge, and closes, as soon as it exceeds the limit."""
        blocks: list[bytes] = []
        size_bytes = 0
        async for block in self:
            size_bytes += len(block)
            if size_bytes > limit_bytes:
                self.close()
                raise AnswerTooLarge(f"The answer is longer than {limit_bytes} bytes")
            blocks.append(block)
        return blocks[0] if len(blocks) == 1 else b"".join(blocks)

    def close(self) -> None:
        """Lets go at once: unless the answer has come whole, the engine sees us hang up."""
        self._closed = True
        connection = self._detach()
        if connection is not None:
            connection.abort()
        self.answer.discard()
        self._wake()

    async def aclose(self) -> None:
        """As close(); waits for nothing."""
        self.close()

    # The request's way out

    async def send(self, request: httpx.Request, outgoing: Outgoing) -> bool:
        """Writes the request and waits for the answer's head. False: the connection was stale, ask again on a new one."""
        connection = cast(_Connection, self._connection)
        if outgoing.body is None or len(outgoing.body) > PIECE_BYTES:
            connection.transport.write(outgoing.head)
            self.pump = asyncio.create_task(self._send_pieces(connection, request, outgoing))
        else:
            connection.transport.write(outgoing.head + outgoing.body)
        while not self.answer.status:
            if self._failure is None:
                await self._news()
            elif self._may_repeat:
                return False
            else:
                if self._pump_error is not None:
                    raise self._pump_error
                error = self._error()
                error.request = request
                raise error
        return True

    async def _send_pieces(self, connection: "_Connection", request: httpx.Request, outgoing: Outgoing) -> None:
        try:
            async with aclosing(write_pieces(request, outgoing)) as pieces:
                async for piece in pieces:
                    connection.transport.write(piece)
                    await connection.writable()
        except Exception as exc:  # the caller's own, from its iterable; raised to it, unless the answer's head already was
            self.pump = None
            self._pump_error = exc
            connection.lose(httpx.WriteError, f"The request's body ended in {type(exc).__name__}")
        finally:
            self.pump = None

    # What the connection tells

    def news(self) -> None:
        """More of the answer has come."""
        self._heard = True
        answer = self.answer
        if answer.queued_bytes > QUEUED_BYTES and not self._paused and self._connection is not None:
            self._paused = True
            self._connection.transport.pause_reading()
        if answer.status >= 400 and self.pump is not None:  # refused: it may hang up on an unread body, and take the answer's rest along
            self.pump.cancel()
            self.keep_alive = False
        self._wake()

    def end(self) -> None:
        """The answer is whole."""
        if self._paused:
            self._resume()
        self._detach()
        self._wake()

    def fail(self, kind: type[httpx.TransportError], message: str, stale: bool) -> None:
        """Nothing more will come. `stale`: the connection had ended before it saw the request."""
        self._failure = kind, message
        self._may_repeat = self._may_repeat and stale and not self.answer.begun
        self._detach()
        self._wake()

    def overdue(self, now: float, connection: "_Connection") -> "tuple[type[httpx.TransportError], str] | None":
        """What has taken too long, if anything has. Between two calls only `_heard` tells that something came."""
        patience = self._patience
        if now >= patience.ends_at:
            return (httpx.WriteTimeout if self._sending else httpx.ReadTimeout), f"No whole answer within {patience.total:g} s"
        if self._sending:
            unsent_bytes = connection.transport.get_write_buffer_size()
            if not unsent_bytes and self.pump is None:
                self._sending = self._heard = False
                self._deadline = now + (patience.read if self.answer.body_begun else patience.first)
            elif not unsent_bytes or unsent_bytes != self._unsent_bytes:
                self._unsent_bytes = unsent_bytes
                self._deadline = now + patience.write
            elif now >= self._deadline:
                return httpx.WriteTimeout, f"The engine took none of the request for {patience.write:g} s"
            return None
        if self._paused or (self._heard and (self.answer.body_begun or not patience.first_is_its_own)):
            self._heard = False
            self._deadline = now + patience.read
        elif now >= self._deadline:
            if patience.first_is_its_own and not self.answer.body_begun:
                return httpx.ReadTimeout, f"No byte of the answer's body within {patience.first:g} s"
            return httpx.ReadTimeout, f"Silence for {patience.read:g} s"
        return None

    async def _news(self) -> None:
        if self._waiter is not None:
            raise RuntimeError("Two tasks read one answer")
        waiter = self._waiter = asyncio.get_running_loop().create_future()
        try:
            await waiter
        except BaseException:
            self._waiter = None
            self.close()
            raise

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _resume(self) -> None:
        self._paused = False
        self._heard = True
        if self._connection is not None:
            self._connection.transport.resume_reading()

    def _detach(self) -> "_Connection | None":
        connection, self._connection = self._connection, None
        if self.pump is not None:
            self.pump.cancel()
        return connection

    def _error(self) -> httpx.TransportError:
        """A new one each time: an exception that is kept keeps alive the frames it has seen."""
        kind, message = self._failure or (httpx.ReadError, "No failure")
        return kind(message)


class _Connection(asyncio.Protocol):
    """One connection: idle in its origin, busy with one answer, or gone."""

    transport: asyncio.Transport

    def __init__(self, home: Transport, origin: "_Origin") -> None:
        self.origin = origin
        self.stream: AnswerStream | None = None
        self.served = False
        self.gone = False
        self.place_is_kept = False
        self.idle_since = 0.0
        self.busy_since = 0.0
        self._home = home
        self._made = False
        self._drained: asyncio.Future[None] | None = None

    def abort(self) -> None:
        """Closes the socket now, without flushing or a farewell: the engine sees the hang-up at once."""
        if not self.gone:
            self.gone = True
            self.stream = None
            self._home.forget(self)
            if self._made:
                self.transport.abort()

    def make_room(self) -> None:
        """Closes, and leaves its place in `origin.open` to the connection that takes over."""
        self.place_is_kept = True
        self.abort()

    def lose(self, kind: type[httpx.TransportError], message: str, ended: bool = False) -> None:
        """Fails the answer, if there is one. `ended`: the engine's end of the connection is the reason."""
        stream = self.stream
        self.abort()
        if stream is not None:
            age_s = asyncio.get_running_loop().time() - self.busy_since
            stream.fail(kind, f"{message} ({self.origin})", stale=ended and age_s <= STALE_WITHIN_S)

    async def writable(self) -> None:
        if self._drained is not None:
            await self._drained

    # Called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._made = True
        if self.gone:
            self.transport.abort()
            return
        connected: socket.socket | None = transport.get_extra_info("socket")
        if connected is not None and connected.family in (socket.AF_INET, socket.AF_INET6):
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        stream = self.stream
        if stream is None:  # nobody asked: whatever it is, the next answer must not begin with it
            self.abort()
            return
        try:
            stream.answer.feed(data)
        except BadAnswer as exc:
            self.lose(httpx.RemoteProtocolError, f"Bad answer: {exc}")
            return
        if stream.answer.complete:
            self._finish(stream)
        else:
            stream.news()

    def eof_received(self) -> None:
        stream = self.stream
        if stream is None:
            self.abort()
            return
        try:
            stream.answer.feed_eof()
        except BadAnswer as exc:
            self.lose(httpx.RemoteProtocolError, f"Bad answer: {exc}", ended=True)
        else:
            self._finish(stream)

    def connection_lost(self, exc: Exception | None) -> None:
        self.resume_writing()
        if self.gone:
            return
        if exc is None:
            self.eof_received()
        else:
            kind = httpx.WriteError if isinstance(exc, BrokenPipeError) else httpx.ReadError
            self.lose(kind, f"Connection lost: {exc}", ended=True)

    def pause_writing(self) -> None:
        if self._drained is None:
            self._drained = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    def _finish(self, stream: AnswerStream) -> None:
        """The answer is whole. The connection serves again only if both sides said so and nothing of the request or answer is left over."""
        answer = stream.answer
        reusable = answer.keep_alive and stream.keep_alive and not answer.surplus and stream.pump is None
        reusable = reusable and not self.transport.get_write_buffer_size()
        self.stream = None
        stream.end()
        if reusable:
            self._home.put_back(self)
        else:
            self.abort()


class _Origin:
    """One address: its idle connections, the one used last at the end, and who waits for one, the first come first."""

    def __init__(self, key: _Address, host: str, port: int) -> None:
        self.key = key
        self.host = host
        self.port = port
        self.tls = key[0] == "https"
        self.sni = key[2]
        self.open = 0  # idle, busy, being opened, or promised to a waiter
        self.idle: dict[_Connection, None] = {}
        self.waiters: dict[asyncio.Future[_Connection | None], None] = {}

    def next_waiter(self) -> "asyncio.Future[_Connection | None] | None":
        while self.waiters:
            waiter = next(iter(self.waiters))
            del self.waiters[waiter]
            if not waiter.done():
                return waiter
        return None

    def __str__(self) -> str:
        return f"{self.key[0]}://{self.key[1].decode()}"


@dataclass(slots=True)
class _Patience:
    """How long each step may take, in seconds; inf is for ever. `ends_at` is a time of the loop."""

    pool: float
    connect: float
    write: float
    first: float
    first_is_its_own: bool  # not just `read` by another name
    read: float
    total: float
    ends_at: float

    def left(self, step_s: float, now: float) -> float | None:
        """For asyncio.timeout(): what is left for this step."""
        left_s = min(step_s, self.ends_at - now)
        return None if left_s == inf else left_s


def _patience(request: httpx.Request) -> _Patience:
    now = asyncio.get_running_loop().time()
    timeout: Mapping[str, float | None] = request.extensions.get("timeout") or {}
    pool, connect, write, read, total = [inf if (s := timeout.get(step)) is None else s for step in _STEPS]
    own = "first" in timeout
    first = timeout["first"] if own else read
    return _Patience(pool, connect, write, inf if first is None else first, own, read, total, now + total)
