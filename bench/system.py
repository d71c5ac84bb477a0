"""System: something that answers POST /v1/chat/completions and is measured; and starting and stopping its processes."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from bench.errors import BenchmarkError

Figures = dict[str, float]


class System:
    """A proxy that is measured, or a direct connection."""

    def __init__(self, name: str, description: str, port: int, roots: Sequence[int], headers: Sequence[str] = ()) -> None:
        self.name = name
        self.description = description  # what is on, for the report
        self.port = port
        self.roots = roots  # the processes whose trees are the proxy; none for a direct connection
        self.headers = headers

    def before_saturation(self) -> None:
        """A hook for systems with figures of their own."""

    def after_saturation(self, answered: int) -> Figures:
        """A system's own figures. Returns once no work is left that would disturb the next system."""
        return {}


@contextmanager
def start_process(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None, stop_timeout_s: float = 10
) -> Generator[int]:
    """Starts a program and yields its pid. Afterwards ends the program and its process group."""
    with log.open("wb") as log_file:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log_file,
            stderr=log_file,
            cwd=log.parent,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
    try:
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(stop_timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_ready(name: str, port: int, path: str, pid: int, log: Path, timeout_s: float) -> None:
    """Returns once it answers. Raises BenchmarkError with the end of its log if it ends instead, or does not answer in time."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            raise BenchmarkError(f"{name} ended while starting. The end of its log:\n{_log_tail(log)}")
        if _answers(port, path):
            return
        time.sleep(0.1)
    raise BenchmarkError(f"{name} was not ready after {timeout_s:.0f} s. The end of its log:\n{_log_tail(log)}")


def _answers(port: int, path: str) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status < 400
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def _log_tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-12:])
