"""Which processes of a home run, by its pid files and by what the kernel says of those numbers."""

import os
import time
from pathlib import Path

from msgspec import Struct

from app.local.doctor.finding import Finding, Findings

_SLACK_S = 3.0  # between a process's start and its pid file; the kernel counts in hundredths of a second from the boot


class Process(Struct, frozen=True):
    """`pid` None: noted as ended. `runs`: there is such a process, and it is the one that was noted. `since_s`: how long ago it began."""

    name: str
    pid: int | None
    runs: bool
    since_s: float | None


def look(home: Path) -> tuple[Process, ...]:
    """Each process that has ever been noted here and not ended in order."""
    return tuple(_process(each) for each in sorted((home / "run").glob("*.pid")))


def judge(processes: tuple[Process, ...], home: Path) -> list[Finding]:
    found = Findings("processes")
    supervised = any(each.name == "supervisor" and each.runs for each in processes)
    members = [each for each in processes if each.name != "supervisor"]
    running = [each for each in members if each.runs]
    if not supervised and not running:
        found.wrong(f"Nothing runs in {home.absolute()}.", "`narthex up` starts everything; NARTHEX_HOME names another folder.")
        return found.all("")
    for each in members:
        log = home.absolute() / "logs" / f"{each.name}.log"
        if supervised and not each.runs:
            found.wrong(f"{each.name} does not run.", f"It is started again within seconds; if it keeps ending, {log} tells why.")
        elif not supervised and each.runs:
            found.wrong(f"{each.name} (process {each.pid}) runs without its supervisor.", f"End it (kill {each.pid}) and start again.")
    if supervised and not any(each.name.startswith("gateway-") and each.runs for each in members):
        found.wrong("No gateway process runs.", f"See {home.absolute() / 'logs'}.")
    return found.all(f"{len(running)} processes run: {', '.join(each.name for each in running)}.")


def gateway_pid(processes: tuple[Process, ...]) -> int | None:
    return next((each.pid for each in processes if each.runs and each.name.startswith("gateway-")), None)


def _process(pid_file: Path) -> Process:
    try:
        pid, noted_at = pid_file.read_text().strip(), pid_file.stat().st_mtime
    except OSError:
        pid, noted_at = "", 0.0
    if not pid.isdigit():
        return Process(pid_file.stem, None, False, None)
    began_at = _began_at(int(pid))
    # A number may have gone to another process since, which then began after it was noted.
    runs = began_at is not None and began_at <= noted_at + _SLACK_S
    return Process(pid_file.stem, int(pid), runs, max(0.0, time.time() - began_at) if runs and began_at is not None else None)


def _began_at(pid: int) -> float | None:
    """Unix time; None if there is no such process, or only what is left of one."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        up_s = float(Path("/proc/uptime").read_text().split()[0])
    except OSError:
        return None
    if told[0] == "Z":
        return None
    return time.time() - (up_s - int(told[19]) / os.sysconf("SC_CLK_TCK"))
