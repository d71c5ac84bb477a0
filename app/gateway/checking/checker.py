"""A worker's hold of the process that checks: started in the background, started anew when it dies, one order at a time."""

import asyncio
import contextlib
import logging
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process

import msgspec

from app.gateway.checking.tasks import HEAD_BYTES, Order, Verdict, framed

log = logging.getLogger(__name__)

_MOST_WAITING = 64
_FAREWELL_S = 1.0
# What a hostile source could reach is not to hold what the worker holds: of the environment only where Python is.
_KEPT = ("PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "LANG")


class NoAnswer(Exception):
    """The order could not be looked at: too many wait, or the process is not to be had."""


class Checker:
    """start() begins the process without waiting for it; judge() starts it if it does not run."""

    def __init__(self, deadline_s: float) -> None:
        """`deadline_s`: of an order, after it has come to its turn and a process runs."""
        self._deadline_s = deadline_s
        self._process: Process | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._starting: asyncio.Task[None] | None = None
        self._stopped = False

    def start(self) -> None:
        self._starting = asyncio.create_task(self._ready())

    async def stop(self) -> None:
        """After the order that is looked at. Those that wait get no answer."""
        self._stopped = True
        if self._starting is not None:
            self._starting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._starting
        async with self._turn:
            await self._let_go(_FAREWELL_S)

    @property
    def pid(self) -> int | None:
        return None if self._process is None or self._process.returncode is not None else self._process.pid

    async def judge(self, order: Order) -> Verdict:
        """Raises NoAnswer. Not to be cancelled: a verdict that nobody reads would be taken for the next order's."""
        if self._waiting >= _MOST_WAITING:
            raise NoAnswer(f"{_MOST_WAITING} others wait")
        self._waiting += 1
        try:
            async with self._turn:
                if self._stopped:
                    raise NoAnswer("no more is looked at")
                return await self._judge(order)
        finally:
            self._waiting -= 1

    async def _judge(self, order: Order) -> Verdict:
        for last in (False, True):
            try:
                process = await self._begun()
                async with asyncio.timeout(self._deadline_s):
                    assert process.stdin is not None and process.stdout is not None
                    process.stdin.write(framed(order))
                    await process.stdin.drain()
                    head = await process.stdout.readexactly(HEAD_BYTES)
                    return msgspec.msgpack.decode(await process.stdout.readexactly(int.from_bytes(head, "big")), type=Verdict)
            except (OSError, asyncio.IncompleteReadError, TimeoutError, msgspec.DecodeError) as fault:
                log.warning("the process that checks constraints failed", extra={"fault": repr(fault)})
                await self._let_go(0)
                if last or isinstance(fault, TimeoutError):
                    raise NoAnswer(repr(fault)) from None
        raise AssertionError

    async def _ready(self) -> None:
        async with self._turn:
            with contextlib.suppress(OSError):
                await self._begun()

    async def _begun(self) -> Process:
        if self._process is None or self._process.returncode is not None:
            environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
            command = (sys.executable, "-m", "app.gateway.checking.child")
            self._process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=environment)
        return self._process

    async def _let_go(self, farewell_s: float) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(farewell_s):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
