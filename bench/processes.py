"""Processes: trees, processor time and memory, read from /proc."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def process_tree(root: int) -> list[int]:
    """The process and all its running descendants; empty if it has ended."""
    children: dict[int, list[int]] = {}
    for pid in _pids():
        fields = _stat(pid)
        if fields:
            children.setdefault(int(fields[1]), []).append(pid)
    tree, pending = list[int](), [root] if _stat(root) else []
    while pending:
        pid = pending.pop()
        tree.append(pid)
        pending += children.get(pid, [])
    return tree


def cpu_s(roots: Iterable[int]) -> float:
    """User and kernel seconds of process trees, collected children included. In ticks of 10 ms, so measure over seconds."""
    total = 0
    for root in roots:
        for pid in process_tree(root):
            fields = _stat(pid)
            total += sum(map(int, fields[11:15])) if fields else 0
    return total / TICKS_PER_S


def memory_kib(roots: Iterable[int]) -> float:
    """Proportional set size of process trees: a page that several processes share counts once; socket buffers do not count."""
    return sum(_field_kib(Path(f"/proc/{pid}/smaps_rollup"), "Pss:") for root in roots for pid in process_tree(root))


def peak_memory_kib(root: int) -> float:
    """The most that this process alone has ever used."""
    return _field_kib(Path(f"/proc/{root}/status"), "VmHWM:")


def core_busy_s(core: int) -> tuple[float, float]:
    """Seconds since the boot that a core has worked, and that the host has withheld it (steal)."""
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith(f"cpu{core} "):
            user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, line.split()[1:9])
            return (user + nice + system + irq + softirq) / TICKS_PER_S, steal / TICKS_PER_S
    return 0.0, 0.0


def thread_ids(pid: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except FileNotFoundError:
        return []


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _stat(pid: int) -> Sequence[str]:
    # The name, in parentheses, may contain spaces and parentheses, so the fields are counted from its end.
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ()


def _field_kib(path: Path, name: str) -> float:
    try:
        lines = path.read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return next((float(line.split()[1]) for line in lines if line.startswith(name)), 0.0)
