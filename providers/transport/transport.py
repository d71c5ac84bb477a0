"""Transport: httpx2's transport interface over a lean pool of HTTP/1.1 connections; the only code that opens sockets to engines.

    request = httpx2.Request("POST", url, headers=fields, stream=httpx2.ByteStream(body), extensions={"timeout": {"connect": 5, "read": 9}})
    response = await transport.handle_async_request(request)     # httpx2.AsyncClient(transport=transport) works too, and costs more

Timeouts, in request.extensions["timeout"], are seconds or None (no limit); they fire up to 0.1 s late, never early:

    pool     waiting for a free connection, when the origin has its maximum
    connect  name lookup, TCP and TLS
    write    the engine reads no byte of the request
    first    from the request's last byte to the body's first; if absent, `read` applies
    read     nothing received between two blocks; not counted while reading is paused because the reader is slow
    total    everything together

request.extensions["sent"] is True from the moment at which the request is written to a connection: the engine may have begun to work.
request.extensions["unguarded"]: the address is no choice of the configuration, so the guard is not asked (a cloud's metadata service, for
the machine's own credential). Such a request shares no connection with others.

Every failure to get a response is an httpx2.TransportError whose class says which step failed. The caller sets all headers: no
Accept-Encoding is added, and no content encoding is decoded here.
"""

import asyncio
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import httpx2

from providers.transport.address_guard import AddressGuard
from providers.transport.checked_addresses import checked_addresses
from providers.transport.connection import Connection
from providers.transport.deadlines import Deadlines, read_deadlines
from providers.transport.http1_request import SharedHead, write_request
from providers.transport.httpx_response import make_response
from providers.transport.loop_turns import LoopTurns
from providers.transport.origin import CLOSED, Address, Origin
from providers.transport.proxy import Proxy
from providers.transport.proxy_tunnel import open_tunnel
from providers.transport.response_stream import ResponseStream
from providers.transport.tls import tls_context
from providers.transport.write_batcher import WriteBatcher

SWEEP_S = 0.05  # how often deadlines are checked; a timer per read would cost more than the read


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts of connections: now (idle, busy), and since the start (opened; reused: requests on one that had served before)."""

    idle: int
    busy: int
    opened: int
    reused: int


@dataclass(frozen=True, slots=True)
class AddressConnections:
    """The connections to one address (scheme, host and port)."""

    busy: int
    idle: int
    waiting: int  # requests that wait until one of `max_busy` is free
    max_busy: int


class Transport(httpx2.AsyncBaseTransport):
    """Sends requests to engines over kept connections; one Transport per event loop.

    Without `tls`, tls_context(ca_bundle) is made here, which reads files and so blocks the loop. Idle connections close after `idle_s`; the
    one used last is used next, so that an unused pool shrinks. `write_batcher` joins our writes with others of the loop, and `loop_turns`
    is for large responses. `proxy` is for https hosts. `guard` says which addresses may be called; None means all. `on_wait` is called with
    the address and the seconds of each wait for one of the `connections_per_origin`.
    """

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        ca_bundle: str | None = None,
        idle_s: float = 30.0,
        connections_per_origin: int = 1_000,
        write_batcher: WriteBatcher | None = None,
        loop_turns: LoopTurns | None = None,
        proxy: Proxy | None = None,
        guard: AddressGuard | None = None,
        on_wait: Callable[[str, float], object] = lambda address, waited_s: None,
    ) -> None:
        self._on_wait = on_wait
        self._proxy = proxy
        self._guard = guard
        self._tls = tls_context(ca_bundle) if tls is None else tls
        self._idle_s = idle_s
        self._write_batcher = WriteBatcher() if write_batcher is None else write_batcher
        self._loop_turns = LoopTurns() if loop_turns is None else loop_turns
        self.connections_per_origin = connections_per_origin
        self._origins: dict[Address, Origin] = {}
        self._busy: set[Connection] = set()
        self._connecting: set[asyncio.Timeout] = set()
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._sweep_due = 0.0
        self._skipped_sweep = False
        self._opened = 0
        self._reused = 0
        self._closed = False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Returns at the response's head; `response.stream` is a ResponseStream. Cancelling closes the connection at once.

        A reused connection that ends within a second, before the first byte of a response, was stale: the request is sent once more, on
        a new connection. RFC 9112 9.3.1 allows that only where a repetition is known to be harmless. Here it is: our requests compute
        something and change nothing, the caller sees one response, and an engine that had closed an idle connection did not read the
        request. A body that comes in pieces cannot be sent twice, so it always gets a new connection.
        """
        shared_head: SharedHead | None = request.extensions.get("shared_head")
        outgoing = write_request(request) if shared_head is None else shared_head.write(request)
        deadlines = read_deadlines(request)
        fresh = outgoing.body is None
        while True:
            connection = await self._acquire_connection(request, deadlines, fresh)
            may_retry = connection.served and not fresh
            stream = ResponseStream(outgoing, deadlines, connection, may_retry, self._loop_turns)
            self._start_response(connection, stream)
            request.extensions["sent"] = True
            if await stream.send(request, outgoing, self._write_batcher):
                break
            request.extensions["sent"] = False
            fresh = True
        return make_response(stream)

    async def aclose(self) -> None:
        """Closes every connection at once: open responses raise ReadError; requests that connect now or later raise ConnectError."""
        self._closed = True
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None
        for connect_timeout in self._connecting:
            if not connect_timeout.expired():
                connect_timeout.reschedule(0.0)
        for origin in [*self._origins.values()]:
            origin.close()
        for connection in [*self._busy]:
            connection.fail(httpx2.ReadError, CLOSED)

    def stats(self) -> Stats:
        return Stats(sum(len(origin.idle) for origin in self._origins.values()), len(self._busy), self._opened, self._reused)

    def connections(self) -> dict[str, AddressConnections]:
        """Returns the connections of each address that has any."""
        by_address: dict[str, AddressConnections] = {}
        none = AddressConnections(0, 0, 0, 0)
        for origin in self._origins.values():  # several at an address whose requests name different TLS servers
            others = by_address.get(origin.address, none)
            by_address[origin.address] = AddressConnections(
                others.busy + origin.busy_count,
                others.idle + len(origin.idle),
                others.waiting + origin.waiting_count,
                others.max_busy + self.connections_per_origin,
            )
        return by_address

    # Getting a connection

    async def _acquire_connection(self, request: httpx2.Request, deadlines: Deadlines, fresh: bool) -> Connection:
        while not self._closed:
            origin = self._origin(request)
            connection = await origin.acquire(request, deadlines, fresh)
            if connection is None:
                return await self._connect(origin, request, deadlines)
            if not connection.closed:
                return connection
        raise httpx2.ConnectError(CLOSED, request=request)

    def _origin(self, request: httpx2.Request) -> Origin:
        url = request.url
        shared_head: SharedHead | None = request.extensions.get("shared_head")
        if shared_head is None:
            extensions = request.extensions
            key: Address = (url.scheme, url.netloc, extensions.get("sni_hostname"), "unguarded" not in extensions)
        else:
            key = shared_head.address
        origin = self._origins.get(key)
        if origin is None:
            if url.scheme not in ("http", "https") or not url.host:
                raise httpx2.UnsupportedProtocol(
                    f"Unsupported URL {url.scheme}://{url.host}: use http or https, and a host", request=request
                )
            port = url.port or (443 if url.scheme == "https" else 80)
            origin = self._origins[key] = Origin(
                key,
                url.host,
                port,
                max_connections=self.connections_per_origin,
                idle_s=self._idle_s,
                on_empty=partial(self._origins.pop, key, None),
                on_wait=self._on_wait,
            )
        return origin

    async def _open(self, connection: Connection, addresses: Sequence[str], origin: Origin, sni: str | None) -> None:
        """Connects to the first of these addresses that takes the connection, in their order. Raises OSError."""
        loop = asyncio.get_running_loop()
        tls = self._tls if origin.tls else None
        for at, address in enumerate(addresses):
            try:
                await loop.create_connection(lambda: connection, address, origin.port, ssl=tls, server_hostname=sni)
            except ssl.SSLError:  # a server answered there
                raise
            except OSError:
                if at + 1 == len(addresses) or connection.closed:
                    raise
            else:
                return

    async def _connect(self, origin: Origin, request: httpx2.Request, deadlines: Deadlines) -> Connection:
        """Opens a connection, through the proxy if there is one. Its slot at the origin is already taken."""
        connection = Connection(origin.address, partial(self._return_to_origin, origin), partial(self._remove_connection, origin))
        sni = origin.sni or origin.host if origin.tls else None
        connect_timeout = asyncio.timeout(deadlines.remaining_s(deadlines.connect, time.monotonic()))
        self._connecting.add(connect_timeout)
        try:
            async with connect_timeout:
                guard = self._guard if origin.is_guarded else None
                if origin.tls and self._proxy is not None and self._proxy.is_for(origin.host, origin.port):
                    if guard is not None:
                        guard.check_host(origin.host, origin.port)  # what its name stands for, the proxy knows
                    await open_tunnel(self._proxy, connection, origin.host, origin.port, self._tls, sni)
                else:
                    addresses = (origin.host,) if guard is None else await checked_addresses(guard, origin.host, origin.port)
                    await self._open(connection, addresses, origin, sni)
            if self._closed or connection.closed:
                raise ConnectionError("closed before a request could be sent")
        except BaseException as exc:
            connection.abort()
            if self._closed and isinstance(exc, OSError):
                raise httpx2.ConnectError(CLOSED, request=request) from exc
            if connect_timeout.expired() and isinstance(exc, TimeoutError):
                raise httpx2.ConnectTimeout(f"No connection to {origin.address} in time", request=request) from exc
            if isinstance(exc, OSError | UnicodeError):  # UnicodeError: the host is no valid name
                raise httpx2.ConnectError(f"No connection to {origin.address}: {exc}", request=request) from exc
            raise
        finally:
            self._connecting.discard(connect_timeout)
        self._opened += 1
        return connection

    # Called by connections

    def _start_response(self, connection: Connection, stream: ResponseStream) -> None:
        connection.stream = stream
        if connection.served:
            self._reused += 1
        connection.served = True
        connection.busy_since = time.monotonic()
        self._busy.add(connection)
        if self._sweep_timer is None:
            self._arm_sweep()

    def _return_to_origin(self, origin: Origin, connection: Connection) -> None:
        self._busy.discard(connection)
        origin.release(connection)

    def _remove_connection(self, origin: Origin, connection: Connection) -> None:
        self._busy.discard(connection)
        origin.remove(connection)

    # Deadlines

    def _arm_sweep(self) -> None:
        self._sweep_due = time.monotonic() + SWEEP_S
        self._sweep_timer = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        now = time.monotonic()
        # After a stall of the loop, timers run before the bytes that arrived in the meantime are read, and an engine would seem silent. So
        # a late sweep is skipped; only one in a row, or deadlines would never fire in a loop that is always late.
        self._skipped_sweep = now - self._sweep_due > SWEEP_S and not self._skipped_sweep
        if not self._skipped_sweep:
            for connection in [*self._busy]:
                stream = connection.stream
                timed_out = stream and stream.find_timeout(now, connection)
                if timed_out:
                    connection.fail(*timed_out)
        self._sweep_timer = None
        if self._busy:
            self._arm_sweep()
