"""Cores: one for the proxies, one for the load, one for the gateway's background processes."""

import os
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.processes import process_tree, thread_ids


@dataclass(frozen=True, slots=True)
class Cores:
    """The processor cores of a run."""

    proxy: int
    load: int
    background: int  # for the gateway's writer, Postgres and Valkey: a third core, or the load's if there are only two

    @property
    def warning(self) -> str:
        if self.proxy == self.load:
            return "Only one core: proxy and load share it, so only processor time is meaningful."
        if self.load == self.background:
            return "Two cores: the gateway's writer and Postgres share the load's, at the lowest priority."
        return ""


def assign_cores() -> Cores:
    available: Sequence[int] = sorted(os.sched_getaffinity(0))
    return Cores(available[0], available[min(1, len(available) - 1)], available[min(2, len(available) - 1)])


@contextmanager
def run_children_on(core: int) -> Generator[None]:
    """Processes started inside inherit the core from their first instruction, so that runtimes size their thread pools by it."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def move_processes(roots: Iterable[int], core: int) -> None:
    """Moves every thread of these process trees to the core."""
    for pid in (pid for root in roots for pid in process_tree(root)):
        for thread in thread_ids(pid):
            os.sched_setaffinity(thread, {core})


def set_nice(roots: Iterable[int], nice: int) -> None:
    """Sets the priority of these process trees: at 19 they get what the load client on their core leaves; 0 is normal.

    Only root may go back to 0; other users keep 19. With autogroup scheduling a nice value counts only inside a session, so each session's
    own value is set too.
    """
    for pid in (pid for root in roots for pid in process_tree(root)):
        try:
            os.setpriority(os.PRIO_PROCESS, pid, nice)
            own_group = Path(f"/proc/{pid}/autogroup")
            if own_group.exists() and own_group.read_text() != Path("/proc/self/autogroup").read_text():
                own_group.write_text(str(nice))
        except (ProcessLookupError, FileNotFoundError, PermissionError):
            continue  # it has ended, or this user may not raise its priority again
