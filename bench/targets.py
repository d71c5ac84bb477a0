"""Targets: this project's performance targets, computed from one run's figures of the instance with everything on, limits included."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench.system import Figures

Run = Mapping[str, Figures]
NARTHEX, NARTHEX_LIMITS, DIRECT = "narthex", "narthex-limits", "direct"


@dataclass(frozen=True, slots=True)
class Target:
    """A figure that is to be reached.

    `measure` returns None if the run lacks a figure, for example without the peer that it compares with.
    """

    title: str
    unit: str
    required: float  # of the first version
    goal: float
    at_least: bool
    measure: Callable[[Run], float | None]

    def is_met(self, run: Run) -> bool | None:
        value = self.measure(run)
        return None if value is None else value >= self.required if self.at_least else value <= self.required


def _narthex_figure(name: str, scale: float = 1.0) -> Callable[[Run], float | None]:
    def measure(run: Run) -> float | None:
        value = run.get(NARTHEX_LIMITS, {}).get(name)
        return None if value is None else value * scale

    return measure


def _ratio_to_peer(peer: str) -> Callable[[Run], float | None]:
    def measure(run: Run) -> float | None:
        narthex_figure, peer_figure = (run.get(name, {}).get("requests_per_s_per_core") for name in (NARTHEX_LIMITS, peer))
        return None if narthex_figure is None or not peer_figure else narthex_figure / peer_figure

    return measure


def added_ms(run: Run, name: str, figure: str) -> float | None:
    """A system's percentile minus the direct connection's, in milliseconds; None if the run lacks one of them."""
    through, direct = run.get(name, {}).get(figure), run.get(DIRECT, {}).get(figure)
    return None if through is None or direct is None else (through - direct) / 1e3


def _added_latency(figure: str) -> Callable[[Run], float | None]:
    return lambda run: added_ms(run, NARTHEX_LIMITS, figure)


def _cost_of_five_limits(run: Run) -> float | None:
    without, limited = (run.get(name, {}).get("us_per_request") for name in (NARTHEX, NARTHEX_LIMITS))
    return None if without is None or limited is None else limited - without


TARGETS = (
    Target("processor per request, saturated", "µs", 220, 120, False, _narthex_figure("us_per_request")),
    Target("added by five limits on every request", "µs", 60, 60, False, _cost_of_five_limits),
    Target("requests/s per core × LiteLLM", "×", 80, 150, True, _ratio_to_peer("litellm")),
    Target("requests/s per core × Portkey", "×", 10, 20, True, _ratio_to_peer("portkey")),
    Target("requests/s per core × sglang-router", "×", 0.65, 1.1, True, _ratio_to_peer("sglang-router")),
    Target("requests/s per core × nginx", "×", 0.09, 0.16, True, _ratio_to_peer("nginx")),
    Target("added latency p50 at 100 requests/s", "ms", 0.9, 0.5, False, _added_latency("p50_us_at_100")),
    Target("added latency p99 at 100 requests/s", "ms", 1.8, 1.0, False, _added_latency("p99_us_at_100")),
    Target("added latency p50 at 500 requests/s", "ms", 0.6, 0.3, False, _added_latency("p50_us_at_500")),
    Target("added latency p99 at 500 requests/s", "ms", 1.8, 0.6, False, _added_latency("p99_us_at_500")),
    Target("processor per relayed chunk", "µs", 65, 35, False, _narthex_figure("us_per_chunk")),
    Target("chunk delay p99 above direct", "ms", 1.5, 0.5, False, _added_latency("chunk_delay_p99_us")),
    Target("memory per held stream", "KiB", 50, 30, False, _narthex_figure("kib_per_held_stream")),
    Target("failed of 1,000 held streams", "", 0, 0, False, _narthex_figure("failed_held")),
    Target("writer into Postgres", "inferences/s", 2000, 6000, True, _narthex_figure("writer_rows_per_s")),
)
