"""Phases: the four measurements of a system, each a function from a running system to figures."""

import time
from dataclasses import dataclass

from bench.cores import Cores
from bench.errors import BenchmarkError
from bench.load_client import LoadClient, LoadResult
from bench.processes import core_busy_s, cpu_s, memory_kib
from bench.system import Figures, System

CONNECTIONS = 32
STREAMS = 100
CHUNK_INTERVAL_S = 0.02
FIRST_RESPONSE_TIMEOUT_S = 30  # some gateways load much of their code at the first request


@dataclass(frozen=True, slots=True)
class Plan:
    """The duration and number of measurements. `latency_s`: seconds by rate, in requests per second."""

    rounds: int
    saturate_s: float
    latency_s: dict[int, float]
    stream_s: float
    held_streams: int
    held_s: float
    warm_up_s: float


FULL = Plan(rounds=3, saturate_s=3, latency_s={100: 5, 500: 3}, stream_s=4, held_streams=1000, held_s=8, warm_up_s=2)
QUICK = Plan(rounds=1, saturate_s=2, latency_s={100: 2, 500: 2}, stream_s=2, held_streams=1000, held_s=2, warm_up_s=1)


class PhaseRunner:
    """Runs the phases with one load client, on assigned cores, by one plan."""

    def __init__(self, load: LoadClient, cores: Cores, plan: Plan) -> None:
        self._load = load
        self._cores = cores
        self._plan = plan

    def warm_up(self, system: System) -> None:
        """Sends both kinds of requests until caches are filled and pools open. Raises BenchmarkError if no response is correct."""
        deadline = time.monotonic() + FIRST_RESPONSE_TIMEOUT_S
        answered = 0
        while not answered:
            outcome = self._load.run_closed_loop(system.port, system.headers, connections=CONNECTIONS, seconds=self._plan.warm_up_s)
            answered = outcome.answered
            if time.monotonic() > deadline:
                _require_responses(answered, outcome)
        self._load.run_streams(system.port, system.headers, count=8, chunks=10, interval_s=0.05, ramp_s=0.2)
        self._wait_until_quiet(system)

    def measure_saturation(self, system: System) -> Figures:
        """32 connections, each sending its next request as soon as it has its response."""
        system.before_saturation()
        others_before = core_busy_s(self._cores.proxy)[0] - cpu_s(system.roots)
        before, started_at = cpu_s(system.roots), time.monotonic()
        outcome = self._load.run_closed_loop(system.port, system.headers, connections=CONNECTIONS, seconds=self._plan.saturate_s)
        cpu_spent_s, wall_s = cpu_s(system.roots) - before, time.monotonic() - started_at
        others = core_busy_s(self._cores.proxy)[0] - cpu_s(system.roots) - others_before
        figures: Figures = {
            "requests_per_s": outcome.answered / outcome.seconds,
            "p50_us_saturated": outcome.latency_us.p50,
            "p99_us_saturated": outcome.latency_us.p99,
            "failed_saturated": outcome.failed,
        }
        if system.roots and outcome.answered:
            figures["us_per_request"] = cpu_spent_s / outcome.answered * 1e6
            figures["busy"] = cpu_spent_s / wall_s
            figures["requests_per_s_per_core"] = outcome.answered / cpu_spent_s
            figures["others_on_core"] = others / wall_s
        figures |= system.after_saturation(outcome.answered)
        self._wait_until_quiet(system)
        return figures

    def measure_latency(self, system: System, rate: int) -> Figures:
        """A request every 1/rate seconds, however late responses are; latency from the intended send time to the last byte."""
        outcome = self._load.run_open_loop(system.port, system.headers, rate=rate, seconds=self._plan.latency_s[rate])
        self._wait_until_quiet(system)
        return {
            f"p50_us_at_{rate}": outcome.latency_us.p50,
            f"p99_us_at_{rate}": outcome.latency_us.p99,
            f"failed_at_{rate}": outcome.failed,
        }

    def measure_streams(self, system: System) -> Figures:
        """100 streams of 50 chunks a second, evenly out of step, so that each chunk is a separate wake-up. Costs include the requests."""
        before = cpu_s(system.roots)
        outcome = self._load.run_streams(
            system.port,
            system.headers,
            count=STREAMS,
            chunks=round(self._plan.stream_s / CHUNK_INTERVAL_S),
            interval_s=CHUNK_INTERVAL_S,
            # They start a little more than half an interval apart, so that they are evenly out of step and none start together.
            ramp_s=STREAMS * CHUNK_INTERVAL_S * (1 + 1 / STREAMS) / 2,
        )
        cpu_spent_s, chunks = cpu_s(system.roots) - before, outcome.chunk_delay_us.count
        _require_responses(chunks, outcome)
        figures: Figures = {
            "chunk_delay_p50_us": outcome.chunk_delay_us.p50,
            "chunk_delay_p99_us": outcome.chunk_delay_us.p99,
            "failed_streams": outcome.failed,
        }
        if system.roots:
            figures["us_per_chunk"] = cpu_spent_s / chunks * 1e6
        self._wait_until_quiet(system)
        return figures

    def measure_held_streams(self, system: System) -> Figures:
        """A thousand streams open at the same time, a chunk a second each. Memory is measured when all are open."""
        memory_before, memory_open, open_streams = memory_kib(system.roots), 0.0, 0

        def record_memory(count: int) -> None:
            nonlocal memory_open, open_streams
            memory_open, open_streams = memory_kib(system.roots), count

        outcome = self._load.run_streams(
            system.port,
            system.headers,
            count=self._plan.held_streams,
            chunks=round(self._plan.held_s),
            interval_s=1,
            ramp_s=2,
            on_all_open=record_memory,
        )
        _require_responses(outcome.chunk_delay_us.count, outcome)
        figures: Figures = {"held_open": open_streams, "failed_held": outcome.failed}
        if system.roots and open_streams:
            figures["kib_per_held_stream"] = (memory_open - memory_before) / open_streams
        self._wait_until_quiet(system)
        return figures

    def _wait_until_quiet(self, system: System) -> None:
        """Waits until the proxy has finished its remaining work, at most ten seconds, so that the next system has a quiet core."""
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            before = cpu_s(system.roots)
            time.sleep(0.2)
            if cpu_s(system.roots) - before <= 0.02:
                return


def _require_responses(correct: int, outcome: LoadResult) -> None:
    if not correct:
        first_failure = " ".join(outcome.first_failure.split()) or "none in time"
        raise BenchmarkError(f"no correct response; the first response was: {first_failure}")
