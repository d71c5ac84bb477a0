"""ChildProcess: one process of this home, with a log, a pid file and a way to end it."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from app.supervisor.machine.paths import OsUser
from app.supervisor.processes import launch


class ChildProcess:
    """Started with start(), ended with stop(). Its log is HOME/logs/NAME.log, its pid file HOME/run/NAME.pid.

    Without `environment` it has ours, without `os_user` it runs as the current user. It inherits the descriptors `files`.
    """

    def __init__(
        self,
        home: Path,
        name: str,
        command: Sequence[str],
        *,
        working_folder: Path,
        environment: Mapping[str, str] | None = None,
        os_user: OsUser | None = None,
        files: Sequence[int] = (),
        end_signal: signal.Signals = signal.SIGTERM,
    ) -> None:
        self.name = name
        self.command = command
        self.log_path = home / "logs" / f"{name}.log"
        self.pid_file = home / "run" / f"{name}.pid"
        self._working_folder = working_folder
        self._environment = environment
        self._os_user = os_user
        self._files = files
        self._end_signal = end_signal
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process id, or None before start() and after the process has ended."""
        return None if self._process is None or self._process.poll() is not None else self._process.pid

    @property
    def status(self) -> int | None:
        """The exit status as subprocess reports it (below 0: ended by that signal). None before start() and while it runs."""
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        """Returns at once; the program may not be ready yet."""
        self.log_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.pid_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The kernel sends the parent-death signal when the *thread* that forked ends, so only the main thread can use it.
        parent_death_signal = self._end_signal if threading.current_thread() is threading.main_thread() else 0
        uid, gid = self._os_user or (-1, -1)
        launcher = [sys.executable, "-I", "-S", launch.__file__, str(os.getpid()), str(int(parent_death_signal)), str(uid), str(gid)]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*launcher, *self.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._working_folder,
                env=self._environment,
                pass_fds=self._files,
                start_new_session=True,  # Ctrl-C in the terminal reaches only the supervisor, which ends its children in order
            )
        # Replaced, not rewritten: a reader sees the old pid or the new one, and never half a file.
        unfinished = self.pid_file.with_suffix(".pid-new")
        unfinished.write_text(f"{self._process.pid}\n")
        unfinished.replace(self.pid_file)

    def terminate(self) -> None:
        """Sends the end signal and returns at once."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(self._end_signal)

    def stop(self, timeout_s: float) -> bool:
        """Sends the end signal, waits, then kills. Returns whether it ended in time."""
        if self._process is None:
            return True
        self.terminate()
        ended_in_time = self.wait_for_end(timeout_s)
        self.kill()
        self.pid_file.unlink(missing_ok=True)
        return ended_in_time

    def wait_for_end(self, timeout_s: float) -> bool:
        """Returns whether it ended in time."""
        deadline = time.monotonic() + timeout_s
        while self.pid is not None:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def kill(self) -> None:
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def log_tail(self, lines: int = 8) -> str:
        """The last lines of its log, for the operator; empty if there is no log."""
        try:
            with self.log_path.open("rb") as log:
                log.seek(max(0, self.log_path.stat().st_size - 8192))
                return "\n".join(log.read().decode(errors="replace").splitlines()[-lines:])
        except FileNotFoundError:
            return ""
