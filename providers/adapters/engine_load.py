"""Engine load: what an engine's own metrics say of its queue, read from its Prometheus page. Pure.

Names of the metrics: docs/sources.md#engine-metrics.
"""

import math

from msgspec import Struct

METRICS_PATH = "/metrics"


class LoadMetrics(Struct, frozen=True):
    """The names of an engine's metrics; their values are summed over all labels."""

    running: tuple[bytes, ...]
    waiting: tuple[bytes, ...]
    cache_usage: bytes | None = None  # 0 to 1, of which the largest counts


class EngineLoad(Struct, frozen=True):
    """Requests of all callers."""

    running: int
    waiting: int
    cache_usage: float | None  # how full its KV cache is, 0 to 1; None: not reported


def read_engine_load(page: bytes, metrics: LoadMetrics) -> EngineLoad | None:
    """Returns None if the page has none of the metrics: it is another engine's, or no page of metrics."""
    running = [value for name in metrics.running for value in _values(page, name)]
    waiting = [value for name in metrics.waiting for value in _values(page, name)]
    if not running and not waiting:
        return None
    usage = max(_values(page, metrics.cache_usage), default=None) if metrics.cache_usage else None
    return EngineLoad(round(sum(running)), round(sum(waiting)), usage)


def _values(page: bytes, name: bytes) -> list[float]:
    """The values of a metric, one for each set of labels. Found by search, because a page has thousands of lines of other metrics."""
    values: list[float] = []
    position = 0 if page.startswith(name) else page.find(b"\n" + name) + 1
    while page.startswith(name, position):
        end = page.find(b"\n", position)
        line = page[position : end if end >= 0 else len(page)]
        rest = line[len(name) :]
        if rest[:1] in (b"{", b" "):
            value = _number(rest.rpartition(b"}")[2])
            if value is not None:
                values.append(value)
        position = page.find(b"\n" + name, position) + 1
        if not position:
            break
    return values


def _number(text: bytes) -> float | None:
    """The value, before the timestamp that may follow; None for NaN, infinity, a negative number and anything else."""
    try:
        value = float(text.split()[0])
    except (IndexError, ValueError):
        return None
    return value if math.isfinite(value) and value >= 0 else None
