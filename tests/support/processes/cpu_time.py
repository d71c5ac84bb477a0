"""Processor time, and how it grows with the size of an input: claims about speed that hold on a busy machine."""

import time
from collections.abc import Callable


def cpu_time_growth(run: Callable[[int], None], small: int, large: int) -> float:
    """How many times as long `run(large)` takes as `run(small)`: the best of some runs each, since other work disturbs caches."""
    return min(_cpu_time_s(run, large) for _ in range(3)) / min(_cpu_time_s(run, small) for _ in range(5))


def least_cpu_time_s(work: Callable[[], object]) -> float:
    """Returns the processor time of this thread for a call: the least of three, as other work disturbs caches."""
    taken_s: list[float] = []
    for _ in range(3):
        started_s = time.thread_time()
        work()
        taken_s.append(time.thread_time() - started_s)
    return min(taken_s)


def _cpu_time_s(run: Callable[[int], None], size: int) -> float:
    started_s = time.process_time()
    run(size)
    return time.process_time() - started_s
