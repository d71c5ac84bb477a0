"""The state of a home's processes, according to its pid files and /proc."""

import os
import time
from pathlib import Path

from msgspec import Struct

from app.doctor.findings import Finding, Findings

_START_TOLERANCE_S = 3.0  # between a process's start and its pid file; the kernel counts from the boot, in hundredths of a second


class ProcessStatus(Struct, frozen=True):
    """The state of a process. `pid` is None if its pid file is empty.

    `running` means that this process exists, and is the one that wrote the pid file.
    """

    name: str
    pid: int | None
    running: bool
    uptime_s: float | None


def collect_facts(home: Path) -> tuple[ProcessStatus, ...]:
    """Every process with a pid file in this home: those that run, and those that did not end in order."""
    return tuple(_read_process_status(each) for each in sorted((home / "run").glob("*.pid")))


def diagnose(processes: tuple[ProcessStatus, ...], home: Path) -> list[Finding]:
    findings = Findings("processes")
    supervised = any(each.name == "supervisor" and each.running for each in processes)
    children = [each for each in processes if each.name != "supervisor"]
    running = [each for each in children if each.running]
    if not supervised and not running:
        findings.add_error(f"Nothing runs in {home.absolute()}.", "`narthex up` starts everything; NARTHEX_HOME chooses another folder.")
        return findings.finish("")
    for each in children:
        log = home.absolute() / "logs" / f"{each.name}.log"
        if supervised and not each.running:
            findings.add_error(f"{each.name} does not run.", f"It is restarted within seconds; if it keeps ending, {log} says why.")
        elif not supervised and each.running:
            findings.add_error(
                f"{each.name} (process {each.pid}) runs without its supervisor.", f"End it (kill {each.pid}) and start again."
            )
    if supervised and not any(each.name.startswith("gateway-") and each.running for each in children):
        findings.add_error("No gateway process runs.", f"See {home.absolute() / 'logs'}.")
    return findings.finish(f"{len(running)} processes run: {', '.join(each.name for each in running)}.")


def gateway_pid(processes: tuple[ProcessStatus, ...]) -> int | None:
    """The process number of one running gateway process; None if there is none."""
    return next((each.pid for each in processes if each.running and each.name.startswith("gateway-")), None)


def _read_process_status(pid_file: Path) -> ProcessStatus:
    try:
        pid, recorded_at = pid_file.read_text().strip(), pid_file.stat().st_mtime
    except OSError:
        pid, recorded_at = "", 0.0
    if not pid.isdigit():
        return ProcessStatus(pid_file.stem, None, False, None)
    started_at = _started_at(int(pid))
    # The number may belong to another process by now, which then started after the pid file was written.
    if started_at is None or started_at > recorded_at + _START_TOLERANCE_S:
        return ProcessStatus(pid_file.stem, int(pid), False, None)
    return ProcessStatus(pid_file.stem, int(pid), True, max(0.0, time.time() - started_at))


def _started_at(pid: int) -> float | None:
    """Unix time; None if there is no such process, or only a zombie."""
    try:
        stat_fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        up_s = float(Path("/proc/uptime").read_text().split()[0])
    except OSError:
        return None
    if stat_fields[0] == "Z":
        return None
    return time.time() - (up_s - int(stat_fields[19]) / os.sysconf("SC_CLK_TCK"))
