"""The supervisor: keeps this machine's processes alive, and ends them in order on a signal."""

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType

from app.supervisor.machine import service_manager
from app.supervisor.machine.errors import OperatorError
from app.supervisor.machine.log_file import LogFile
from app.supervisor.processes.process import SupervisedProcess

_POLL_S = 0.1
_STABLE_S = 2.0  # a process that ran this long is restarted at once
_MAX_RESTART_DELAY_S = 5.0
_HURRIED_TIMEOUT_S = 1.0


@dataclass(slots=True)
class _Supervised:
    """One process, its log and the state of its restarts."""

    process: SupervisedProcess
    log_file: LogFile
    stop_timeout_s: float
    launched_at: float = 0.0
    restart_delay_s: float = 0.0
    restart_at: float | None = None  # None: no restart is due


class Supervisor:
    """Used in this order: start() and wait_until_ready() for each group of processes, then run(), then stop().

    Until run() is called, SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt, so that a start can be interrupted anywhere.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._groups: list[list[_Supervised]] = []
        self._running = False
        self._stop_signals = 0
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, self._on_stop_signal)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # under nohup this outlives its terminal
            signal.signal(signal.SIGHUP, self._on_stop_signal)

    def start(self, processes: Sequence[SupervisedProcess], *, stop_timeout_s: float) -> None:
        """Starts a group of processes and returns at once. In stop() they may take `stop_timeout_s` to end."""
        group = [_Supervised(process, LogFile(process.child.log_path), stop_timeout_s) for process in processes]
        self._groups.append(group)
        for supervised in group:
            supervised.log_file.rotate()
            supervised.launched_at = time.monotonic()
            supervised.process.launch()

    def wait_until_ready(self) -> None:
        """Returns once every started process answers. Raises OperatorError if one does not."""
        for group in self._groups:
            for supervised in group:
                supervised.process.wait_until_ready()

    def run(self) -> None:
        """Restarts processes that end, until a signal (Ctrl-C, SIGTERM, a closed terminal); the caller then calls stop()."""
        self._running = True
        service_manager.notify("READY=1")
        while not self._stop_signals:
            for group in self._groups:
                for supervised in group:
                    self._check(supervised)
            time.sleep(_POLL_S)
        service_manager.notify("STOPPING=1")

    def stop(self) -> None:
        """Ends every process, the group started last first. A second signal cuts the waiting short."""
        self._running = True
        signals_before = self._stop_signals
        for group in reversed(self._groups):
            for supervised in group:
                supervised.process.child.terminate()
            deadline = time.monotonic() + max(each.stop_timeout_s for each in group)
            while any(each.process.pid is not None for each in group) and time.monotonic() < deadline:
                if self._stop_signals > signals_before:
                    deadline = min(deadline, time.monotonic() + _HURRIED_TIMEOUT_S)
                time.sleep(0.02)
            for supervised in group:
                if supervised.process.pid is not None:
                    self._report(f"{supervised.process.name} did not end in time; killing it.")
                supervised.process.stop(0.0)
        self._groups.clear()

    def _check(self, supervised: _Supervised) -> None:
        for line in supervised.log_file.new_error_lines():
            self._report(f"{supervised.process.name}: {line}")
        now = time.monotonic()
        if supervised.process.pid is not None:
            return
        if supervised.restart_at is None:
            lived_s = now - supervised.launched_at
            supervised.restart_delay_s = (
                0.0 if lived_s >= _STABLE_S else min(max(0.25, supervised.restart_delay_s * 2), _MAX_RESTART_DELAY_S)
            )
            supervised.restart_at = now + supervised.restart_delay_s
            delay_text = f" in {supervised.restart_delay_s:g} s" if supervised.restart_delay_s > 1 else ""
            self._report(f"{supervised.process.name} {_describe_end(supervised.process)}; restarting it{delay_text}.")
        if now >= supervised.restart_at:
            supervised.restart_at = None
            supervised.launched_at = time.monotonic()
            try:
                supervised.process.launch()
            except (OperatorError, OSError) as error:  # such as a full disk: the other processes keep running
                self._report(str(error))

    def _on_stop_signal(self, number: int, frame: FrameType | None) -> None:
        self._stop_signals += 1
        if not self._running:
            raise KeyboardInterrupt


def _describe_end(process: SupervisedProcess) -> str:
    status = process.child.status
    if status is None:
        return "could not be started"
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    log_tail = process.child.log_tail(3)
    return f"ended with status {status}" + (f" (the end of its log: {log_tail})" if log_tail else "")
