"""A worker's client of the checking process: starts it in the background, restarts it when it dies, sends one order at a time."""

import asyncio
import contextlib
import logging
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process

import msgspec

from app.gateway.structured_output.checker.protocol import LENGTH_PREFIX_BYTES, CheckOrder, Verdict, encode_frame

log = logging.getLogger(__name__)

_STOP_TIMEOUT_S = 1.0
# A hostile constraint might take over the process, so it inherits no secrets: only the variables that locate Python.
_INHERITED_ENVIRONMENT = ("PATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "LANG")
# -P and the root folder: a package named app in the operator's working folder must not be imported instead of ours.
_ARGUMENTS = ("-P", "-m", "app.gateway.structured_output.checker.process")
_WORKING_FOLDER = "/"


class CheckerUnavailable(Exception):
    """The order could not be checked: the process cannot run, or too many orders wait for it."""


class CheckerStopped(CheckerUnavailable):
    """The worker is stopping: no later try can succeed."""


class CheckerClient:
    """start() starts the process without waiting for it; check() starts it if it does not run."""

    def __init__(self, deadline_s: float) -> None:
        """An order may take `deadline_s`, once it is sent to the process."""
        self._deadline_s = deadline_s
        self._process: Process | None = None
        self._lock = asyncio.Lock()
        self._starting: asyncio.Task[None] | None = None
        self._stopped = False

    def start(self) -> None:
        self._starting = asyncio.create_task(self._prestart())

    async def stop(self) -> None:
        """Stops the process after the order in progress. Orders that wait raise CheckerUnavailable."""
        self._stopped = True
        if self._starting is not None:
            self._starting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._starting
        async with self._lock:
            await self._release(_STOP_TIMEOUT_S)

    @property
    def pid(self) -> int | None:
        return None if self._process is None or self._process.returncode is not None else self._process.pid

    async def check(self, check_order: CheckOrder) -> Verdict:
        """Raises CheckerUnavailable. Must not be cancelled: the next order would read this order's verdict."""
        async with self._lock:
            if self._stopped:
                raise CheckerStopped("the worker is stopping")
            return await self._check(check_order)

    async def _check(self, check_order: CheckOrder) -> Verdict:
        for is_last_try in (False, True):
            try:
                process = await self._ensure_process()
                async with asyncio.timeout(self._deadline_s):
                    assert process.stdin is not None and process.stdout is not None
                    process.stdin.write(encode_frame(check_order))
                    await process.stdin.drain()
                    head = await process.stdout.readexactly(LENGTH_PREFIX_BYTES)
                    return msgspec.msgpack.decode(await process.stdout.readexactly(int.from_bytes(head, "big")), type=Verdict)
            except (OSError, asyncio.IncompleteReadError, TimeoutError, msgspec.DecodeError) as fault:
                log.warning("the checking process of constraints failed", extra={"fault": repr(fault)})
                await self._release(0)
                if is_last_try or isinstance(fault, TimeoutError):
                    raise CheckerUnavailable(repr(fault)) from None
        raise AssertionError

    async def _prestart(self) -> None:
        async with self._lock:
            with contextlib.suppress(OSError):
                await self._ensure_process()

    async def _ensure_process(self) -> Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, *_ARGUMENTS, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=_environment(), cwd=_WORKING_FOLDER
            )
        return self._process

    async def _release(self, stop_timeout_s: float) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(stop_timeout_s):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _environment() -> dict[str, str]:
    environment = {name: os.environ[name] for name in _INHERITED_ENVIRONMENT if name in os.environ}
    # Its entries are relative to our working folder, and an empty one means that folder itself.
    if import_folders := [os.path.abspath(each) for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]:
        environment["PYTHONPATH"] = os.pathsep.join(import_folders)
    return environment
