"""Targets: what this project promised itself, computed from one run's figures."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench.system import Figures

Run = Mapping[str, Figures]
NARTHEX, LIMITED, DIRECT = "narthex", "narthex-limits", "direct"


@dataclass(frozen=True, slots=True)
class Target:
    """`measured` gives None where the run has no such figure, as without the peer it compares with."""

    title: str
    unit: str
    first: float  # the bound that the first version has to keep
    goal: float
    at_least: bool
    measured: Callable[[Run], float | None]

    def met(self, run: Run) -> bool | None:
        value = self.measured(run)
        return None if value is None else value >= self.first if self.at_least else value <= self.first


def _own(name: str, scale: float = 1.0) -> Callable[[Run], float | None]:
    def measured(run: Run) -> float | None:
        value = run.get(NARTHEX, {}).get(name)
        return None if value is None else value * scale

    return measured


def _times(peer: str) -> Callable[[Run], float | None]:
    def measured(run: Run) -> float | None:
        ours, theirs = (run.get(name, {}).get("requests_per_s_per_core") for name in (NARTHEX, peer))
        return None if ours is None or not theirs else ours / theirs

    return measured


def added_ms(run: Run, name: str, figure: str) -> float | None:
    """A system's percentile less the direct connection's, in milliseconds."""
    through, direct = run.get(name, {}).get(figure), run.get(DIRECT, {}).get(figure)
    return None if through is None or direct is None else (through - direct) / 1e3


def _added(figure: str) -> Callable[[Run], float | None]:
    return lambda run: added_ms(run, NARTHEX, figure)


def _five_limits(run: Run) -> float | None:
    without, limited = (run.get(name, {}).get("us_per_request") for name in (NARTHEX, LIMITED))
    return None if without is None or limited is None else limited - without


TARGETS = (
    Target("processor per request, saturated", "µs", 220, 120, False, _own("us_per_request")),
    Target("more for five limits about every request", "µs", 60, 60, False, _five_limits),
    Target("requests/s per core × LiteLLM", "×", 80, 150, True, _times("litellm")),
    Target("requests/s per core × Portkey", "×", 10, 20, True, _times("portkey")),
    Target("requests/s per core × sglang-router", "×", 0.65, 1.1, True, _times("sglang-router")),
    Target("requests/s per core × nginx", "×", 0.09, 0.16, True, _times("nginx")),
    Target("added latency p50 at 100 requests/s", "ms", 0.9, 0.5, False, _added("p50_us_at_100")),
    Target("added latency p99 at 100 requests/s", "ms", 1.8, 1.0, False, _added("p99_us_at_100")),
    Target("added latency p50 at 500 requests/s", "ms", 0.6, 0.3, False, _added("p50_us_at_500")),
    Target("added latency p99 at 500 requests/s", "ms", 1.8, 0.6, False, _added("p99_us_at_500")),
    Target("processor per relayed chunk", "µs", 65, 35, False, _own("us_per_chunk")),
    Target("chunk delay p99 above direct", "ms", 1.5, 0.5, False, _added("chunk_delay_p99_us")),
    Target("memory per held stream", "KiB", 50, 30, False, _own("kib_per_held_stream")),
    Target("failed of 1,000 held streams", "", 0, 0, False, _own("failed_held")),
    Target("writer into Postgres", "inferences/s", 2000, 6000, True, _own("writer_rows_per_s")),
)
