"""Counters: this worker's connection to Redis, which is reopened whenever it is lost, and calls of scripts over it."""

import asyncio
import contextlib
import functools
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any

from app.gateway.limits.counters.batches import encode_operation, join_operations
from app.gateway.limits.counters.broken_bucket import read_error
from app.gateway.limits.counters.commands import Operation
from app.gateway.limits.counters.scripts import EPOCH, Scripts, key_tag, read_scripts
from app.process.background_tasks import BackgroundTask
from app.store.redis.address import Address
from app.store.redis.connection import Connection, RequestFormat
from app.store.redis.discovery import Discovery, make_discovery, wait_for_other_primary
from app.store.redis.opening import open_connection
from app.store.redis.redis_url import parse_redis_url
from app.store.redis.replies import RedisReplyError, RedisUnavailable, ReplyWaiter
from app.store.redis.resp import command
from app.store.redis.slots import key_slot
from providers.transport.write_batcher import WriteBatcher

log = logging.getLogger(__name__)

_CONNECT_TIMEOUT_S = 5.0
_MIN_RETRY_PAUSE_S = 0.05
MAX_RETRY_PAUSE_S = 1.0  # until the next try
_STABLE_S = 1.0  # after a connection that lasted for less, the pauses keep growing


async def _do_nothing() -> None:
    pass


class RedisCounters:
    """A connection to Redis that is made anew whenever it ends. While `is_ready` is False, commands need not be tried.

    `is_ready` says that the server replied, and on_ready() is done. on_ready() is called on each new connection, before that: it may
    call(); if it raises RedisUnavailable or RedisReplyError, that connection ends. `has_moved` says meanwhile that this is another server
    than before, which may lack the last that the one before did; without `may_move` it never is.
    """

    def __init__(self, url: str, timeout_s: float, write_batcher: WriteBatcher, scripts: Scripts | None = None) -> None:
        """Raises ValueError for an invalid address. Without an address the server is always unavailable."""
        self._discovery: Discovery | None = make_discovery(parse_redis_url(url)) if url else None
        self.may_move = self._discovery is not None and self._discovery.may_move
        self.scripts = scripts or read_scripts(key_tag=key_tag(url), keeps_settled=self.may_move)
        self.is_ready = False
        self.has_moved = False
        self.on_ready: Callable[[], Awaitable[None]] = _do_nothing
        self.on_lost: Callable[[], None] = lambda: None
        self._slot = key_slot(self.key(EPOCH))
        self._last_address: Address | None = None  # of the last connection that was ready
        self._timeout_s = timeout_s
        self._write_batcher = write_batcher
        batch = self.scripts.batch.sha
        self._request_format = RequestFormat(
            functools.partial(encode_operation, batch), functools.partial(join_operations, batch), read_error, is_of_one_slot=True
        )
        self._connection: Connection[Operation] | None = None
        self._lost = asyncio.Event()
        self._attempted = asyncio.Event()
        self.background_task = BackgroundTask("redis", self._keep_connected)
        self._loop = asyncio.get_running_loop()

    async def start(self, timeout_s: float = 1.0) -> None:
        """Connect, waiting at most `timeout_s`; after that the connection is tried in the background."""
        if self._discovery is None:
            return
        self.background_task.start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._attempted.wait()

    async def stop(self) -> None:
        await self.background_task.stop()
        if self._connection is not None:
            self._connection.abort()

    def key(self, name: bytes) -> bytes:
        """The key of this name in Redis, in the slot that the limits have in a cluster."""
        return self.scripts.key_tag + name

    def reconnect(self) -> None:
        """End the connection, as if the server had gone: a new one is opened, and on_ready() is called."""
        if self._connection is not None:
            self._connection.abort()

    def send(self, request: bytes | Operation, waiter: ReplyWaiter) -> None:
        """Send a command or an operation. Raises RedisUnavailable, unsent, if there is no connection."""
        if self._connection is None:
            raise RedisUnavailable("There is no connection.", unsent=True)
        self._connection.send(request, waiter)

    async def call(self, request: bytes | Operation) -> Any:
        """Send a command or an operation and return its reply; scripts that the server has lost are loaded again.

        Raises RedisUnavailable or RedisReplyError.
        """
        try:
            return await self.send_command(request)
        except RedisReplyError as error:
            if not str(error).startswith("NOSCRIPT"):
                raise
        await self.load_scripts()
        return await self.send_command(request)

    async def load_scripts(self) -> None:
        """Load the scripts into the server. Raises RedisUnavailable or RedisReplyError."""
        for script in (self.scripts.batch, self.scripts.renew, self.scripts.seed, self.scripts.rebuild):
            await self.send_command(command((b"SCRIPT", b"LOAD", script.text)))

    def send_command(self, request: bytes | Operation) -> asyncio.Future[Any]:
        """Send a command or an operation, in order; returns its reply as a future, which may raise RedisUnavailable or RedisReplyError.

        Raises RedisUnavailable, unsent.
        """
        if self._connection is None:
            raise RedisUnavailable("There is no connection.", unsent=True)
        waiter: asyncio.Future[Any] = self._loop.create_future()
        self._connection.send(request, waiter)
        return waiter

    async def _keep_connected(self) -> None:
        assert self._discovery is not None
        pause_s = _MIN_RETRY_PAUSE_S
        while True:
            try:
                address = await self._connect(self._discovery)
                self._last_address = address
                self.is_ready = True
                self._attempted.set()
                since_s = self._loop.time()
                await self._wait_until_lost(self._discovery, address)
                if self._loop.time() - since_s > _STABLE_S:
                    pause_s = _MIN_RETRY_PAUSE_S
            except (OSError, TimeoutError, RedisUnavailable, RedisReplyError) as fault:
                log.info("no connection to Redis", extra={"fault": repr(fault)})
            except Exception:
                self.on_lost()
                raise
            finally:
                self.is_ready = False
                self._attempted.set()
                if self._connection is not None:
                    self._connection.abort()
                    self._connection = None
            self.on_lost()
            await asyncio.sleep(pause_s * random.uniform(0.5, 1))
            pause_s = min(2 * pause_s, MAX_RETRY_PAUSE_S)

    async def _connect(self, discovery: Discovery) -> Address:
        """Connects to the primary, and returns its address."""
        address = await discovery.find_primary(self._slot)
        self.has_moved = self._last_address is not None and address != self._last_address
        self._lost.clear()
        connection = Connection(self._write_batcher, self._request_format, self._timeout_s, self._on_connection_lost)
        self._connection = connection
        await open_connection(address, connection, _CONNECT_TIMEOUT_S, must_be_primary=discovery.may_move)
        await self.load_scripts()
        await self._check_eviction_policy()
        await self.on_ready()
        if self._lost.is_set():
            raise RedisUnavailable("The connection broke.")
        return address

    async def _wait_until_lost(self, discovery: Discovery, address: Address) -> None:
        """Waits until the connection has ended, or another server is the primary."""
        if not discovery.may_move:
            await self._lost.wait()
            return
        moved = asyncio.create_task(wait_for_other_primary(lambda: discovery.find_primary(self._slot), address))
        lost = asyncio.create_task(self._lost.wait())
        try:
            await asyncio.wait((moved, lost), return_when=asyncio.FIRST_COMPLETED)
            if moved.done():
                log.warning(
                    "another Redis is the primary of the limits now", extra={"host": moved.result().host, "port": moved.result().port}
                )
        finally:
            moved.cancel()
            lost.cancel()

    async def _check_eviction_policy(self) -> None:
        """Warn about a server that may evict counters, as it would then admit too much."""
        with contextlib.suppress(RedisReplyError):  # INFO may be denied to us
            reply: bytes = await self.send_command(command((b"INFO", b"memory")))
            policy = next((line[17:] for line in reply.decode().splitlines() if line.startswith("maxmemory_policy:")), "noeviction")
            if policy != "noeviction":
                log.warning("Redis may evict counters of limits: set its maxmemory-policy to noeviction", extra={"policy": policy})

    def _on_connection_lost(self) -> None:
        self.is_ready = False
        self._lost.set()
