"""Origin: the connection pool of one address. It bounds the connections, queues requests for them, and closes idle ones."""

import asyncio
import time
from collections.abc import Callable

import httpx2

from providers.transport.connection import Connection
from providers.transport.deadlines import Deadlines

CLOSED = "This transport was closed"
# Scheme, host and port, the TLS server name where it differs, and whether the guard of addresses is asked.
Address = tuple[str, bytes, str | None, bool]


class Origin:
    """The connections to one address: the idle ones, with the last used at the end, and a first-come queue of waiting requests.

    A slot is the right to one connection; there are `max_connections`. `on_empty` is called when the last slot is freed: the origin
    then holds nothing and may be forgotten. `on_wait` is called with how long a request has waited for a slot, however that ended.
    """

    def __init__(
        self,
        key: Address,
        host: str,
        port: int,
        *,
        max_connections: int,
        idle_s: float,
        on_empty: Callable[[], object],
        on_wait: Callable[[str, float], object],
    ) -> None:
        self.address = f"{key[0]}://{key[1].decode()}"
        self.host = host
        self.port = port
        self.tls = key[0] == "https"
        self.sni = key[2]
        self.is_guarded = key[3]
        self.idle: dict[Connection, None] = {}
        self._max_connections = max_connections
        self._idle_s = idle_s
        self._on_empty = on_empty
        self._on_wait = on_wait
        self._open_count = 0  # idle, busy, being opened, or promised to a waiter
        self._waiters: dict[asyncio.Future[Connection | None], None] = {}
        self._expiry_timer: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def busy_count(self) -> int:
        """Connections that serve a request, or are being opened for one."""
        return self._open_count - len(self.idle)

    @property
    def waiting_count(self) -> int:
        """Requests that wait for a connection."""
        return len(self._waiters)

    async def acquire(self, request: httpx2.Request, deadlines: Deadlines, fresh: bool) -> Connection | None:
        """An idle connection, or None: open a new one, for which a slot is taken. With `fresh` it is always None.

        The connection may have closed in the meantime; then call again. Raises httpx2.PoolTimeout and httpx2.ConnectError.
        """
        if self.idle and not fresh:
            return self.idle.popitem()[0]
        if self._open_count < self._max_connections:
            self._open_count += 1
            return None
        if self.idle:  # all slots are taken and a fresh one is required: the oldest idle one gives up its slot
            next(iter(self.idle)).close_keeping_slot()
            return None
        connection = await self._wait_for_connection(request, deadlines)
        if fresh and connection is not None and not connection.closed:
            connection.close_keeping_slot()
            return None
        return connection

    def release(self, connection: Connection) -> None:
        """Takes back a connection that may serve another request: the request that has waited longest, or a later one."""
        if self._closed:
            connection.abort()
        if connection.closed:
            return
        if waiter := self._next_waiter():
            waiter.set_result(connection)
            return
        self.idle[connection] = None
        connection.idle_since = time.monotonic()
        if self._expiry_timer is None:
            self._expiry_timer = asyncio.get_running_loop().call_later(self._idle_s, self._expire)

    def remove(self, connection: Connection) -> None:
        """Forgets a connection that is closed, or was never opened."""
        self.idle.pop(connection, None)
        if not connection.keeps_slot:
            self._free_slot()

    def close(self) -> None:
        """Fails the waiting requests and closes the idle connections; busy ones are closed by their users."""
        self._closed = True
        while waiter := self._next_waiter():
            waiter.set_exception(httpx2.ConnectError(CLOSED))
        for connection in [*self.idle]:
            connection.abort()
        self._stop_expiry()

    async def _wait_for_connection(self, request: httpx2.Request, deadlines: Deadlines) -> Connection | None:
        """A released connection, or None: a slot was freed, and is taken for this request."""
        loop, began_s = asyncio.get_running_loop(), time.monotonic()
        waiter: asyncio.Future[Connection | None] = loop.create_future()
        self._waiters[waiter] = None
        try:
            async with asyncio.timeout(deadlines.remaining_s(deadlines.pool, time.monotonic())):
                connection = await waiter
            if self._closed:
                raise httpx2.ConnectError(CLOSED, request=request)
            return connection
        except BaseException as exc:
            self._waiters.pop(waiter, None)
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:  # it was set just as we gave up
                connection = waiter.result()
                if connection is None:
                    self._free_slot()
                else:
                    self.release(connection)
            if isinstance(exc, TimeoutError):
                message = f"All {self._max_connections} connections to {self.address} stayed busy"
                raise httpx2.PoolTimeout(message, request=request) from None
            raise
        finally:
            self._on_wait(self.address, time.monotonic() - began_s)

    def _free_slot(self) -> None:
        if waiter := self._next_waiter():
            waiter.set_result(None)
            return
        self._open_count -= 1
        if not self._open_count:
            self._stop_expiry()
            self._on_empty()

    def _next_waiter(self) -> asyncio.Future[Connection | None] | None:
        while self._waiters:
            waiter = next(iter(self._waiters))
            del self._waiters[waiter]
            if not waiter.done():
                return waiter
        return None

    def _expire(self) -> None:
        self._expiry_timer = None
        now = time.monotonic()
        horizon = now - self._idle_s
        while self.idle and (oldest := next(iter(self.idle))).idle_since <= horizon:
            oldest.abort()
        if self.idle:
            due_s = next(iter(self.idle)).idle_since + self._idle_s - now
            self._expiry_timer = asyncio.get_running_loop().call_later(due_s, self._expire)

    def _stop_expiry(self) -> None:
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
            self._expiry_timer = None
