"""Machine: what a reader has to know about the computer and its load. Nothing identifies its owner."""

import os
import platform
import subprocess
from pathlib import Path

from bench.c_programs import BENCH_FOLDER

# Above these, a note warns readers of the result.
MAX_LOAD_BEFORE = 0.3
MAX_STEAL_SHARE = 0.02
MAX_OTHERS_SHARE = 0.05


def machine_facts() -> dict[str, str]:
    model = next(
        (line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), ""
    )
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cores": str(os.cpu_count()),
        "processor": model or platform.machine(),
        "memory": f"{memory_gib:.0f} GiB",
        "kernel": platform.release().split("-")[0],
        "python": platform.python_version(),
        "commit": _commit(),
    }


def load_average() -> float:
    """The load average of the last minute, before the benchmark starts."""
    return os.getloadavg()[0]


def _commit() -> str:
    completed = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=BENCH_FOLDER, capture_output=True, text=True, check=False)
    return completed.stdout.strip() or "unknown"
