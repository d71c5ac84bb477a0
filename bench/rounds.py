"""Rounds: every phase measures all systems before the next starts, so that a noisy minute affects all; results are medians."""

from collections.abc import Callable, Sequence
from statistics import median

from bench.errors import BenchmarkError
from bench.phases import PhaseRunner, Plan
from bench.system import Figures, System

# At more than this share of its capacity a system's latency shows only its growing queue, so it is called overloaded instead.
MAX_CAPACITY_SHARE = 0.9
STREAMS_PART = ", streams"


class Rounds:
    """run() returns the figures by system; `failures` says what could not be measured, and why."""

    def __init__(self, phases: PhaseRunner, plan: Plan, systems: Sequence[System], report: Callable[[str], None]) -> None:
        self._phases = phases
        self._plan = plan
        self._systems = list(systems)
        self._report = report
        self._figures: dict[str, list[Figures]] = {system.name: [] for system in systems}
        self.failures: dict[str, str] = {}

    def run(self) -> dict[str, Figures]:
        self._measure_each("warming up", self._warm_up)
        for number in range(1, self._plan.rounds + 1):
            round_title = f"round {number} of {self._plan.rounds}"
            self._measure_each(f"{round_title}: saturated", self._phases.measure_saturation)
            for rate in self._plan.latency_s:
                self._measure_each(f"{round_title}: {rate} requests/s", lambda system, rate=rate: self._measure_latency(system, rate))
            self._measure_each(f"{round_title}: streams", self._phases.measure_streams, STREAMS_PART)
            self._systems.append(self._systems.pop(0))  # each round starts with another system
        self._measure_each(f"{self._plan.held_streams} held streams", self._phases.measure_held_streams, STREAMS_PART)
        return {name: _medians(measured) for name, measured in self._figures.items() if name not in self.failures}

    def _warm_up(self, system: System) -> Figures:
        self._phases.warm_up(system)
        return {}

    def _measure_latency(self, system: System, rate: int) -> Figures:
        capacity = max(measured.get("requests_per_s", 0.0) for measured in self._figures[system.name])
        if rate > MAX_CAPACITY_SHARE * capacity:
            return {f"overloaded_at_{rate}": 1.0}
        return self._phases.measure_latency(system, rate)

    def _measure_each(self, title: str, measure: Callable[[System], Figures], part: str = "") -> None:
        """Measures each system. After a failure a system is skipped: in this `part`, or without one in everything."""
        for system in list(self._systems):
            failure_key = f"{system.name}{part}"
            if failure_key in self.failures:
                continue
            self._report(f"{title}: {system.name}")
            try:
                self._figures[system.name].append(measure(system))
            except BenchmarkError as error:
                self.failures[failure_key] = str(error)
                self._report(f"{failure_key} failed: {error}")
                if not part:
                    self._systems.remove(system)


def _medians(rounds: Sequence[Figures]) -> Figures:
    """The medians of all figures; failures and missing records are added up, because a single one counts."""
    names = {name for figures in rounds for name in figures}
    return {name: _combine(name, [figures[name] for figures in rounds if name in figures]) for name in sorted(names)}


def _combine(name: str, values: Sequence[float]) -> float:
    return sum(values) if name.startswith(("failed_", "recorded_missing")) else median(values)
