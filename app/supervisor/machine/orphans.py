"""Orphans: processes of this home that outlived their supervisor, found in /proc and ended."""

import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path


def pids_with_working_folder(folder: Path) -> set[int]:
    """Processes with this working folder, such as a database server and its helpers in their data folder."""
    return {pid for pid in _processes() if _read_link(pid, "cwd") == str(folder)}


def pids_with_variable(variable: bytes) -> set[int]:
    """Processes started with this NAME=value in their environment."""
    return {pid for pid in _processes() if variable in _read(pid, "environ").split(b"\0")}


def end_processes(pids: Iterable[int], *, signals: Iterable[signal.Signals], timeout_s: float) -> None:
    """Sends each signal in turn to the processes still alive, and SIGKILL last; waits up to `timeout_s` after each."""
    remaining = set(pids)
    for next_signal in (*signals, signal.SIGKILL):
        for pid in remaining:
            _send_signal(pid, next_signal)
        deadline = time.monotonic() + timeout_s
        while remaining and time.monotonic() < deadline:
            remaining = {pid for pid in remaining if _is_alive(pid)}
            if remaining:
                time.sleep(0.02)
        if not remaining:
            return


def _processes() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _read_link(pid: int, name: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/{name}")
    except OSError:  # it has ended, or belongs to another user and so is not ours
        return ""


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _is_alive(pid: int) -> bool:
    # A zombie has ended; its parent has yet to collect it.
    stat = _read(pid, "stat")
    return bool(stat) and not stat.rpartition(b")")[2].startswith(b" Z")


def _send_signal(pid: int, signal_number: signal.Signals) -> None:
    try:
        os.kill(pid, signal_number)
    except (ProcessLookupError, PermissionError):
        return
