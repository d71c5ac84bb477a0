"""Which processes of a home run, by its pid files and by what the kernel says of those numbers."""

import os
import time
from pathlib import Path

from msgspec import Struct

from app.doctor.findings import Finding, Findings

_START_TOLERANCE_S = 3.0  # between a process's start and its pid file; the kernel counts in hundredths of a second from the boot


class ProcessStatus(Struct, frozen=True):
    """`pid` None: noted as ended. `runs`: there is such a process, and it is the one that was noted. `since_s`: how long ago it began."""

    name: str
    pid: int | None
    runs: bool
    since_s: float | None


def collect_facts(home: Path) -> tuple[ProcessStatus, ...]:
    """Each process that has ever been noted here and not ended in order."""
    return tuple(_read_process_status(each) for each in sorted((home / "run").glob("*.pid")))


def diagnose(processes: tuple[ProcessStatus, ...], home: Path) -> list[Finding]:
    findings = Findings("processes")
    supervised = any(each.name == "supervisor" and each.runs for each in processes)
    children = [each for each in processes if each.name != "supervisor"]
    running = [each for each in children if each.runs]
    if not supervised and not running:
        findings.add_error(f"Nothing runs in {home.absolute()}.", "`narthex up` starts everything; NARTHEX_HOME names another folder.")
        return findings.finish("")
    for each in children:
        log = home.absolute() / "logs" / f"{each.name}.log"
        if supervised and not each.runs:
            findings.add_error(f"{each.name} does not run.", f"It is started again within seconds; if it keeps ending, {log} tells why.")
        elif not supervised and each.runs:
            findings.add_error(
                f"{each.name} (process {each.pid}) runs without its supervisor.", f"End it (kill {each.pid}) and start again."
            )
    if supervised and not any(each.name.startswith("gateway-") and each.runs for each in children):
        findings.add_error("No gateway process runs.", f"See {home.absolute() / 'logs'}.")
    return findings.finish(f"{len(running)} processes run: {', '.join(each.name for each in running)}.")


def gateway_pid(processes: tuple[ProcessStatus, ...]) -> int | None:
    return next((each.pid for each in processes if each.runs and each.name.startswith("gateway-")), None)


def _read_process_status(pid_file: Path) -> ProcessStatus:
    try:
        pid, recorded_at = pid_file.read_text().strip(), pid_file.stat().st_mtime
    except OSError:
        pid, recorded_at = "", 0.0
    if not pid.isdigit():
        return ProcessStatus(pid_file.stem, None, False, None)
    started_at = _started_at(int(pid))
    # A number may have gone to another process since, which then began after it was noted.
    runs = started_at is not None and started_at <= recorded_at + _START_TOLERANCE_S
    return ProcessStatus(pid_file.stem, int(pid), runs, max(0.0, time.time() - started_at) if runs and started_at is not None else None)


def _started_at(pid: int) -> float | None:
    """Unix time; None if there is no such process, or only what is left of one."""
    try:
        stat_fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        up_s = float(Path("/proc/uptime").read_text().split()[0])
    except OSError:
        return None
    if stat_fields[0] == "Z":
        return None
    return time.time() - (up_s - int(stat_fields[19]) / os.sysconf("SC_CLK_TCK"))
