"""Narthex: started as a user starts it, its gateway process alone on the proxy's core; its writer and servers accounted for apart."""

import os
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from app.local.place import erase
from app.local.servers import found
from app.settings import Settings
from bench.compiled import HERE
from bench.cores import Cores, children_on, move, set_nice
from bench.processes import cpu_s, peak_memory_kib
from bench.recorded import Recorded
from bench.system import Figures, System, free_port, started, wait_until_ready
from bench.targets import LIMITED, NARTHEX
from bench.trouble import Trouble

READY_PATIENCE_S = 180
END_PATIENCE_S = 90
ENOUGH_TO_TIME = 2000  # rows; fewer arrive between two looks
COMMAND = Path(sys.executable).parent / "narthex"


class Narthex(System):
    """Its trees of processes: the gateway is the proxy; writer, Postgres and Valkey are shown beside it."""

    def __init__(self, name: str, what: str, home: Path, port: int, cores: Cores) -> None:
        key = (home / "first-key").read_text().strip()
        super().__init__(name, what, port, [_pid(home, "gateway-0")], [f"authorization: Bearer {key}"])
        self._home = home
        self._writer, self._postgres, self._valkey = (_pid(home, name) for name in ("writer", "postgres", "valkey"))
        self._shared = cores.load == cores.backstage
        self._database_url = found(Settings(home=home)).database_url
        self._began = 0.0
        self._recorded = Recorded(self._database_url)
        self._before: Sequence[float] = ()
        move(self.roots, cores.proxy)
        move([self._writer, self._postgres, self._valkey], cores.backstage)

    def before_saturation(self) -> None:
        if [_pid(self._home, "gateway-0")] != list(self.roots):
            raise Trouble("The gateway process was started anew in the middle of the benchmark: see its log above.")
        if self._shared:
            set_nice([self._writer, self._postgres], 19)  # every time: Postgres starts new backends, each in a session of its own
        self._recorded = Recorded(self._database_url)
        self._before = self._spent()
        self._began = monotonic()

    def after_saturation(self, answered: int) -> Figures:
        loaded_s = monotonic() - self._began
        if self._shared:
            set_nice([self._writer, self._postgres], 0)
        drained = self._recorded.drained(answered)
        writer, postgres, valkey = (after - before for after, before in zip(self._spent(), self._before, strict=True))
        rows = max(1, drained.rows)
        # While the load ran the writer also made progress; where it left no backlog, that pace is all that was seen of it.
        kept_pace = drained.rows / (loaded_s + drained.seconds)
        drain_pace = drained.backlog / drained.seconds if drained.backlog >= ENOUGH_TO_TIME else 0.0
        return {
            "recorded_missing": max(0, answered - drained.rows),
            "writer_backlog_rows": drained.backlog,
            "writer_rows_per_s": max(kept_pace, drain_pace),
            "writer_us_per_row": writer / rows * 1e6,
            "postgres_us_per_row": postgres / rows * 1e6,
            "valkey_us_per_row": valkey / rows * 1e6,
            "writer_peak_mib": peak_memory_kib(self._writer) / 1024,
        }

    def _spent(self) -> Sequence[float]:
        return [cpu_s([self._writer]), cpu_s([self._postgres]), cpu_s([self._valkey])]


@contextmanager
def running(engine_port: int, cores: Cores, folder: Path, *, limited: bool = False) -> Generator[Narthex]:
    """Raises Trouble if it does not come up. Its home is removed afterwards. `limited`: with five rules about every request."""
    name = LIMITED if limited else NARTHEX
    what = "keys, directory, routing, durable recording: on" + ("; five limits about every request" if limited else "; no limits set")
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
    rules = (HERE / "limits.toml").read_text() if limited else ""
    configuration.write_text((HERE / "narthex.toml").read_text().replace("@ENGINE_PORT@", str(engine_port)) + rules)
    try:
        with children_on(cores.backstage), started([str(COMMAND), "up"], log, environment, END_PATIENCE_S) as pid:
            wait_until_ready(name, port, "/health/ready", pid, log, READY_PATIENCE_S)
            _apply(configuration, environment)
            yield Narthex(name, what, home, port, cores)
    finally:
        erase(home)


def _apply(configuration: Path, environment: dict[str, str]) -> None:
    command = [str(COMMAND), "apply", str(configuration), "--yes"]
    applied = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=60)
    if applied.returncode:
        raise Trouble(f"narthex apply said:\n{applied.stdout}{applied.stderr}")


def _pid(home: Path, name: str) -> int:
    return int((home / "run" / f"{name}.pid").read_text())
