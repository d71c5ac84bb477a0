"""A working process as the gateway sees it: stopped and continued by its pool, and replaced if it ends."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process

import msgspec

from app.gateway.large_work.protocol import LENGTHS_BYTES, Outcome, Task, decode_lengths, encode_head

# A hostile body might take over the process, so it inherits no secrets: only the variables that locate Python.
_INHERITED_ENVIRONMENT = ("PATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "LANG")
# -P and the root folder: a package named app in the operator's working folder must not be imported instead of ours.
_ARGUMENTS = ("-P", "-m", "app.gateway.large_work.process")
_WORKING_FOLDER = "/"
_PIECE_BYTES = 256 * 1024
# The event loops of gateways come first.
_NICENESS = 5
_REPEAT_S = 0.1
_END_S = 5.0

_decode_outcome = msgspec.msgpack.Decoder(Outcome).decode


class WorkerEnded(Exception):
    """The process has ended, and the task with it."""


class Worker:
    """start() starts the process, run() does so if it does not run. One task at a time."""

    def __init__(self, memory_bytes: int, processor_s: float) -> None:
        self._bounds = (str(memory_bytes), str(processor_s))
        self._process: Process | None = None
        self._is_stopped = False
        self._is_killed = False
        self._starting = asyncio.Lock()

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self.is_alive else None

    async def start(self) -> Process:
        """Raises WorkerEnded if it was killed meanwhile."""
        async with self._starting:
            return await self._start()

    async def _start(self) -> Process:
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, *_ARGUMENTS, *self._bounds),
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                env=_environment(),
                cwd=_WORKING_FOLDER,
                limit=_PIECE_BYTES,
                start_new_session=True,  # so that signals reach its forks, too
            )
            with contextlib.suppress(ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, self._process.pid, _NICENESS)
            if self._is_stopped:
                self._signal(signal.SIGSTOP)
        if self._is_killed:  # perhaps while it was started
            await self.kill()
            raise WorkerEnded
        return self._process

    async def run(self, task: Task, body: bytes) -> tuple[Outcome, bytes]:
        """Raises WorkerEnded. If it is cancelled, kill() has to follow."""
        process = await self.start()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(encode_head(task, len(body)))
            for start in range(0, len(body), _PIECE_BYTES):
                process.stdin.write(body[start : start + _PIECE_BYTES])
                await process.stdin.drain()
            head_bytes, body_bytes = decode_lengths(await process.stdout.readexactly(LENGTHS_BYTES))
            outcome = _decode_outcome(await process.stdout.readexactly(head_bytes))
            return outcome, await process.stdout.readexactly(body_bytes)
        except (OSError, asyncio.IncompleteReadError, msgspec.DecodeError):
            await self.kill()
            raise WorkerEnded from None

    async def end_task(self, running: asyncio.Task[object]) -> None:
        """Ends the task that `running` waits for; the process goes on, if it can."""
        self.go_on()
        deadline_s = time.monotonic() + _END_S
        while not running.done() and time.monotonic() < deadline_s:
            if self._process is not None and self.is_alive:
                with contextlib.suppress(ProcessLookupError):
                    self._process.send_signal(signal.SIGTERM)
            await asyncio.wait([running], timeout=_REPEAT_S)
        if not running.done():
            await self.kill()

    def stop(self) -> None:
        """Stops the process, which uses no processor until go_on()."""
        if not self._is_stopped:
            self._is_stopped = True
            self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        if self._is_stopped:
            self._is_stopped = False
            self._signal(signal.SIGCONT)

    async def kill(self) -> None:
        self._is_killed = True
        if self._process is not None:
            self._signal(signal.SIGKILL)
            await self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)


def _environment() -> dict[str, str]:
    environment = {name: os.environ[name] for name in _INHERITED_ENVIRONMENT if name in os.environ}
    # Its entries are relative to our working folder, and an empty one means that folder itself.
    if import_folders := [os.path.abspath(each) for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]:
        environment["PYTHONPATH"] = os.pathsep.join(import_folders)
    return environment
