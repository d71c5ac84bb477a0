"""How processor time grows with the size of an input: a claim about speed that holds on a slow or busy machine."""

import time
from collections.abc import Callable


def cpu_time_growth(run: Callable[[int], None], small: int, large: int) -> float:
    """How many times as long `run(large)` takes as `run(small)`: the best of some runs each, since other work disturbs caches."""
    return min(_cpu_time_s(run, large) for _ in range(3)) / min(_cpu_time_s(run, small) for _ in range(5))


def _cpu_time_s(run: Callable[[int], None], size: int) -> float:
    started_s = time.process_time()
    run(size)
    return time.process_time() - started_s
