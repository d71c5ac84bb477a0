"""A connection to one server, opened when it is needed: for commands that wait for nothing but their own reply."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from app.store.redis.address import Address
from app.store.redis.connection import COMMANDS, Connection
from app.store.redis.discovery import wait_for_other_primary
from app.store.redis.opening import open_connection, send_command
from app.store.redis.replies import RedisReplyError, RedisUnavailable
from app.store.redis.resp import command
from providers.transport.write_batcher import WriteBatcher

log = logging.getLogger(__name__)

T = TypeVar("T")

_PING = command((b"PING",))


class ServerConnection:
    """Sends commands of many tasks over one connection, in their order; a reply is bounded by `timeout_s`, and so is opening it.

    A command whose connection breaks is sent once more over a new one, as after a restart of the server: it may run twice.
    `find_address` is called for each new connection; if `may_move`, it is called now and then to see whether the server is another one.
    """

    def __init__(self, find_address: Callable[[], Awaitable[Address]], timeout_s: float, *, may_move: bool = False) -> None:
        self._find_address = find_address
        self._timeout_s = timeout_s
        self._may_move = may_move
        self._watching: asyncio.Task[None] | None = None
        self._write_batcher = WriteBatcher()
        self._connection: Connection[bytes] | None = None
        self._opening: asyncio.Task[Connection[bytes]] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    async def close(self) -> None:
        """Waits for what was sent, for at most `timeout_s`."""
        with contextlib.suppress(RedisUnavailable, RedisReplyError, TimeoutError):
            async with asyncio.timeout(self._timeout_s):
                if self._tasks:
                    await asyncio.wait(self._tasks)
                if self._connection is not None and self._connection.is_open:
                    await send_command(self._connection, _PING)
        for task in (*self._tasks, *((self._watching,) if self._watching is not None else ())):
            task.cancel()
        if self._connection is not None:
            self._connection.abort()

    async def call(self, request: bytes) -> Any:
        """Returns the reply. Raises RedisUnavailable or RedisReplyError. A cancellation ends the wait, not the command."""
        connection = self._connection
        if connection is not None and connection.is_open:
            try:
                return await send_command(connection, request)
            except RedisUnavailable:
                pass
        return await self._run_to_completion(self._call_anew(request))

    async def call_all(self, requests: Sequence[bytes]) -> list[Any]:
        """Sends the commands together, and returns for each its reply, or its RedisReplyError. Raises RedisUnavailable."""
        connection = self._connection
        if connection is not None and connection.is_open:
            try:
                return await _send_all(connection, requests)
            except RedisUnavailable:
                pass
        return await self._run_to_completion(self._call_all_anew(requests))

    async def _call_anew(self, request: bytes) -> Any:
        return await send_command(await self._open(), request)

    async def _call_all_anew(self, requests: Sequence[bytes]) -> list[Any]:
        return await _send_all(await self._open(), requests)

    async def _open(self) -> Connection[bytes]:
        """The connection, which is opened once for all that wait for it. Raises RedisUnavailable."""
        if self._connection is not None and self._connection.is_open:
            return self._connection
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._connect())
            self._opening.add_done_callback(_retrieve)
        return await asyncio.shield(self._opening)

    async def _connect(self) -> Connection[bytes]:
        connection = Connection(self._write_batcher, COMMANDS, self._timeout_s, _do_nothing)
        try:
            address = await self._find_address()
            await open_connection(address, connection, self._timeout_s, must_be_primary=self._may_move)
        except (OSError, TimeoutError, RedisReplyError) as fault:
            connection.abort()
            raise RedisUnavailable(repr(fault), unsent=True) from fault
        except RedisUnavailable:
            connection.abort()
            raise
        self._connection = connection
        if self._may_move:
            if self._watching is not None:
                self._watching.cancel()
            self._watching = asyncio.create_task(self._watch(connection, address))
        return connection

    async def _watch(self, connection: Connection[bytes], address: Address) -> None:
        """Ends the connection once another server is the primary."""
        found = await wait_for_other_primary(self._find_address, address)
        log.warning("another Redis is the primary now", extra={"host": found.host, "port": found.port})
        connection.abort()

    async def _run_to_completion(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        return await asyncio.shield(task)

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        _retrieve(task)


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Marks an exception as retrieved: nobody may be waiting any more."""
    if not task.cancelled():
        task.exception()


async def _send_all(connection: Connection[bytes], requests: Sequence[bytes]) -> list[Any]:
    loop = asyncio.get_running_loop()
    waiters: list[asyncio.Future[Any]] = []
    for request in requests:
        waiters.append(loop.create_future())
        connection.send(request, waiters[-1])
    if waiters:
        await asyncio.wait(waiters)
    faults = [waiter.exception() for waiter in waiters]
    for fault in faults:
        if fault is not None and not isinstance(fault, RedisReplyError):
            raise fault
    return [waiter.result() if fault is None else fault for waiter, fault in zip(waiters, faults, strict=True)]


def _do_nothing() -> None:
    pass
