"""Narthex: started as a user starts it. Its gateway process is alone on the proxy's core; writer and servers are measured separately."""

import os
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from app.settings import Settings
from app.supervisor.machine.home import erase_home
from app.supervisor.machine.server_addresses import resolve
from bench.c_programs import BENCH_FOLDER
from bench.cores import Cores, move_processes, run_children_on, set_nice
from bench.errors import BenchmarkError
from bench.processes import cpu_s, peak_memory_kib
from bench.recording_progress import RecordingProgress
from bench.system import Figures, System, free_port, start_process, wait_until_ready
from bench.targets import NARTHEX, NARTHEX_LIMITS

READY_TIMEOUT_S = 180
STOP_TIMEOUT_S = 90
MIN_BACKLOG_ROWS = 2000  # as many as may arrive between two polls
COMMAND = Path(sys.executable).parent / "narthex"


class NarthexSystem(System):
    """Its process trees: the gateway is the proxy; writer, Postgres and Valkey are reported separately."""

    def __init__(self, name: str, description: str, home: Path, port: int, cores: Cores) -> None:
        key = (home / "first-key").read_text().strip()
        super().__init__(name, description, port, [_read_pid(home, "gateway-0")], [f"authorization: Bearer {key}"])
        self._home = home
        self._writer, self._postgres, self._valkey = (_read_pid(home, name) for name in ("writer", "postgres", "valkey"))
        self._shares_load_core = cores.load == cores.background
        self._database_url = resolve(Settings(home=home)).database_url
        self._started_at = 0.0
        self._recording = RecordingProgress(self._database_url)
        self._cpu_before: Sequence[float] = ()
        move_processes(self.roots, cores.proxy)
        move_processes([self._writer, self._postgres, self._valkey], cores.background)

    def before_saturation(self) -> None:
        if [_read_pid(self._home, "gateway-0")] != list(self.roots):
            raise BenchmarkError("The gateway process was restarted during the benchmark: see its log above.")
        if self._shares_load_core:
            set_nice([self._writer, self._postgres], 19)  # again each time: Postgres starts new backends, each in a session of its own
        self._recording = RecordingProgress(self._database_url)
        self._cpu_before = self._cpu_spent()
        self._started_at = monotonic()

    def after_saturation(self, answered: int) -> Figures:
        loaded_s = monotonic() - self._started_at
        if self._shares_load_core:
            set_nice([self._writer, self._postgres], 0)
        drained = self._recording.wait_until_drained(answered)
        writer, postgres, valkey = (after - before for after, before in zip(self._cpu_spent(), self._cpu_before, strict=True))
        rows = max(1, drained.rows)
        # The writer also worked during the load. If it left no backlog, that pace is the only measurement.
        load_pace = drained.rows / (loaded_s + drained.seconds)
        drain_pace = drained.backlog / drained.seconds if drained.backlog >= MIN_BACKLOG_ROWS else 0.0
        return {
            "recorded_missing": max(0, answered - drained.rows),
            "writer_backlog_rows": drained.backlog,
            "writer_rows_per_s": max(load_pace, drain_pace),
            "writer_us_per_row": writer / rows * 1e6,
            "postgres_us_per_row": postgres / rows * 1e6,
            "valkey_us_per_row": valkey / rows * 1e6,
            "writer_peak_mib": peak_memory_kib(self._writer) / 1024,
        }

    def _cpu_spent(self) -> Sequence[float]:
        return [cpu_s([self._writer]), cpu_s([self._postgres]), cpu_s([self._valkey])]


@contextmanager
def run_narthex(engine_port: int, cores: Cores, folder: Path, *, limited: bool = False) -> Generator[NarthexSystem]:
    """Runs it and removes its home afterwards. Raises BenchmarkError if it does not start. `limited`: five rules apply to every request."""
    name = NARTHEX_LIMITS if limited else NARTHEX
    description = f"keys, configuration, routing, durable recording; {'five limits on every request' if limited else 'no limits'}"
    home, port, log = folder / name, free_port(), folder / f"{name}.log"
    environment = {
        "NARTHEX_HOME": str(home),
        "NARTHEX_HOST": "127.0.0.1",
        "NARTHEX_PORT": str(port),
        "NARTHEX_WORKERS": "1",
        "DATABASE_URL": "",
        "REDIS_URL": "",
    }
    configuration = folder / f"{name}.toml"
    rules = (BENCH_FOLDER / "limits.toml").read_text() if limited else ""
    configuration.write_text((BENCH_FOLDER / "narthex.toml").read_text().replace("@ENGINE_PORT@", str(engine_port)) + rules)
    try:
        with run_children_on(cores.background), start_process([str(COMMAND), "up"], log, environment, STOP_TIMEOUT_S) as pid:
            wait_until_ready(name, port, "/health/ready", pid, log, READY_TIMEOUT_S)
            _apply(configuration, environment)
            yield NarthexSystem(name, description, home, port, cores)
    finally:
        erase_home(home)


def _apply(configuration: Path, environment: dict[str, str]) -> None:
    command = [str(COMMAND), "apply", str(configuration), "--yes"]
    completed = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=60)
    if completed.returncode:
        raise BenchmarkError(f"narthex apply failed:\n{completed.stdout}{completed.stderr}")


def _read_pid(home: Path, name: str) -> int:
    return int((home / "run" / f"{name}.pid").read_text())
