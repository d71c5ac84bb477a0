"""Counters: the connection of this worker, made again whenever it is lost, and how scripts are called through it."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any

from app.store.counters.address import Address, parse_address
from app.store.counters.connection import Connection, RedisReplyError, RedisUnavailable, ReplyWaiter
from app.store.counters.resp import command
from app.store.counters.scripts import Scripts, read_scripts
from providers.transport.write_batcher import WriteBatcher

log = logging.getLogger(__name__)

_CONNECT_TIMEOUT_S = 5.0
_MIN_RETRY_PAUSE_S = 0.05
MAX_RETRY_PAUSE_S = 1.0  # until the next try
_STABLE_S = 1.0  # a connection that lasted for less was none to rely on: the pauses go on growing


async def _do_nothing() -> None:
    pass


class RedisCounters:
    """`up`: the server answered, and what had to be made up for (`on_up`) is done. While it is False, nobody need try.

    on_up() is called on each new connection, before `up`: it may call(); an Away or Says of its ends that connection.
    """

    def __init__(self, url: str, timeout_s: float, write_batcher: WriteBatcher, scripts: Scripts | None = None) -> None:
        """Raises ValueError for an address that is none. Without one the server is away for good."""
        self.scripts = scripts or read_scripts()
        self.is_ready = False
        self.on_ready: Callable[[], Awaitable[None]] = _do_nothing
        self.on_lost: Callable[[], None] = lambda: None
        self._address: Address | None = parse_address(url) if url else None
        self._timeout_s = timeout_s
        self._write_batcher = write_batcher
        self._connection: Connection | None = None
        self._lost = asyncio.Event()
        self._attempted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()

    async def start(self, timeout_s: float = 1.0) -> None:
        """Waits for the server for a moment, then goes on without it."""
        if self._address is None:
            return
        self._task = asyncio.create_task(self._run(self._address))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._attempted.wait()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self._connection is not None:
            self._connection.abort()

    def reconnect(self) -> None:
        """Ends the connection, as if the server had gone: a new one is made, and what was missed is made up for."""
        if self._connection is not None:
            self._connection.abort()

    def send(self, payload: bytes, waiter: ReplyWaiter) -> None:
        """Raises Away, unsent, where there is no connection."""
        if self._connection is None:
            raise RedisUnavailable("There is no connection.", unsent=True)
        self._connection.send(payload, waiter)

    async def call(self, payload: bytes) -> Any:
        """A command's reply. Raises Away or Says. A script that the server has lost is told to it once more."""
        try:
            return await self.send_command(payload)
        except RedisReplyError as error:
            if not str(error).startswith("NOSCRIPT"):
                raise
        await self.load_scripts()
        return await self.send_command(payload)

    async def load_scripts(self) -> None:
        """Makes the scripts known to the server. Raises Away or Says."""
        for script in (self.scripts.take, self.scripts.settle, self.scripts.renew, self.scripts.seed):
            await self.send_command(command((b"SCRIPT", b"LOAD", script.text)))

    def send_command(self, payload: bytes) -> asyncio.Future[Any]:
        """Sent at once, before whatever is sent next. Raises Away, unsent; its reply may be an Away or Says."""
        waiter: asyncio.Future[Any] = self._loop.create_future()
        self.send(payload, waiter)
        return waiter

    async def _run(self, address: Address) -> None:
        pause_s = _MIN_RETRY_PAUSE_S
        while True:
            try:
                await self._connect(address)
                self.is_ready = True
                self._attempted.set()
                since_s = self._loop.time()
                await self._lost.wait()
                if self._loop.time() - since_s > _STABLE_S:
                    pause_s = _MIN_RETRY_PAUSE_S
            except (OSError, TimeoutError, RedisUnavailable, RedisReplyError) as fault:
                log.info("no connection to Redis", extra={"fault": repr(fault)})
            except Exception:
                log.exception("what was to be made up for in Redis could not be")
            finally:
                self.is_ready = False
                self._attempted.set()
                if self._connection is not None:
                    self._connection.abort()
                    self._connection = None
            self.on_lost()
            await asyncio.sleep(pause_s * random.uniform(0.5, 1))
            pause_s = min(2 * pause_s, MAX_RETRY_PAUSE_S)

    async def _connect(self, address: Address) -> None:
        self._lost.clear()
        connection = Connection(self._write_batcher, self._timeout_s, self._on_connection_lost)
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            await address.connect(lambda: connection)
        self._connection = connection
        for handshake_command in address.handshake_commands:
            await self.send_command(command(handshake_command))
        await self.load_scripts()
        await self._check_eviction_policy()
        await self.on_ready()
        if self._lost.is_set():
            raise RedisUnavailable("The connection broke.")

    async def _check_eviction_policy(self) -> None:
        """A server that forgets what it has no memory for would forget what was counted, and so admit too much."""
        with contextlib.suppress(RedisReplyError):  # INFO may be denied to us
            reply: bytes = await self.send_command(command((b"INFO", b"memory")))
            policy = next((line[17:] for line in reply.decode().splitlines() if line.startswith("maxmemory_policy:")), "noeviction")
            if policy != "noeviction":
                log.warning("Redis may evict counters of limits: set its maxmemory-policy to noeviction", extra={"policy": policy})

    def _on_connection_lost(self) -> None:
        self.is_ready = False
        self._lost.set()
