"""Processes forked from one that has imported Narthex: the imports of a gateway alone take two seconds of processor time.

Each process of pytest has one such parent, which starts with the first child.
"""

import ctypes
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import forkserver, reduction
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from app.supervisor.processes import launch
from tests.support.processes.forked_interpreter import Program, run_program

_APP = Path(__file__).parents[3] / "app"
_COMMANDS = [".".join(("app", *file.relative_to(_APP).with_suffix("").parts)) for file in (_APP / "cli").rglob("[a-z]*.py")]
_PROCESSES = [f"app.supervisor.{name}" for name in ("run_gateway", "run_writer", "run_sandbox")]
# An application of Litestar imports these where they are installed: a quarter of a second for each gateway process.
_OPTIONAL = ["litestar.plugins.pydantic", "litestar.plugins.attrs"]
# Imported in this order. The last makes the collector skip what the others have made.
_PRELOADED = [*_COMMANDS, *_PROCESSES, *_OPTIONAL, "tests.support.processes.writer_process", "tests.support.processes.frozen_heap"]

# A child shows its own command line and environment in /proc by writing them over the server's, which must be long enough.
_ROOM_VARIABLE = "ROOM_FOR_THE_ENVIRONMENT_OF_FORKED_PROCESSES"
_ROOM_BYTES = 32_768
_starting = threading.Lock()


class ForkedProcess(ForkServerProcess):
    """A multiprocessing.Process that is forked from the server with the imports."""

    def start(self) -> None:
        with _starting:
            os.environ[_ROOM_VARIABLE] = "x" * _ROOM_BYTES
            try:
                forkserver.set_forkserver_preload(_PRELOADED)
                forkserver.ensure_running()
            finally:
                del os.environ[_ROOM_VARIABLE]
        super().start()


def run_forked(function: Callable[..., None], *arguments: object) -> None:
    """Calls the function in a process of its own, such as one that has no event loop yet."""
    process = ForkedProcess(target=function, args=arguments, daemon=True)
    process.start()
    process.join()
    assert process.exitcode == 0, f"{function.__name__} ended with {process.exitcode}"


class ForkedProgram:
    """A program in Python, such as `narthex`, as subprocess.Popen would start it, but without its imports.

    `stdin`, `stdout` and `stderr` are descriptors. `command` begins with the path of a script in Python. `folder` None: ours.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        stdin: int,
        stdout: int,
        stderr: int,
        folder: str | None = None,
        start_new_session: bool = False,
    ) -> None:
        self.args = command
        self.returncode: int | None = None
        streams = [_Descriptor(number) for number in (stdin, stdout, stderr)]
        program = Program(tuple(command), dict(environment), folder or os.getcwd(), start_new_session)
        # As a daemon: multiprocessing ends it with pytest if a test fails to.
        self._process = ForkedProcess(target=_run, args=(program, streams), daemon=True)
        self._lock = threading.Lock()
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """Returns the exit status, or None while it runs."""
        with self._lock:
            if self.returncode is None:
                self.returncode = self._process.exitcode
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Returns the exit status once it has ended. Raises subprocess.TimeoutExpired."""
        if self.poll() is None and not wait([self._process.sentinel], timeout):
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        status = self.poll()
        assert status is not None
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        if self.poll() is None:
            self._process.terminate()

    def kill(self) -> None:
        if self.poll() is None:
            self._process.kill()


class _Descriptor:
    """A descriptor that goes to the child with the arguments of its function."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _receive, (reduction.DupFd(self.number),)


def _receive(sent: Any) -> _Descriptor:
    return _Descriptor(sent.detach())


def _run(program: Program, streams: Sequence[_Descriptor]) -> None:
    # It ends with the server, and that with pytest, even if pytest is killed.
    ctypes.CDLL(None).prctl(launch.PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    run_program(program, [stream.number for stream in streams])
