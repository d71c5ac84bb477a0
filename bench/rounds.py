"""Rounds: every phase goes round all systems before the next begins, so that a noisy minute hurts all alike; medians of the rounds."""

from collections.abc import Callable, Sequence
from statistics import median

from bench.phases import Measuring, Plan
from bench.system import Figures, System
from bench.trouble import Trouble

# Asked for more than this share of what it can do, a system only shows its queue growing: "overloaded" says as much, sooner.
OVERLOAD = 0.9
STREAMS = ", streams"


class Rounds:
    """run() gives the figures by system; `broken` says what could not be measured, and why."""

    def __init__(self, measuring: Measuring, plan: Plan, systems: Sequence[System], say: Callable[[str], None]) -> None:
        self._measuring = measuring
        self._plan = plan
        self._systems = list(systems)
        self._say = say
        self._seen: dict[str, list[Figures]] = {system.name: [] for system in systems}
        self.broken: dict[str, str] = {}

    def run(self) -> dict[str, Figures]:
        self._each("warming up", self._warm)
        for number in range(1, self._plan.rounds + 1):
            of = f"round {number} of {self._plan.rounds}"
            self._each(f"{of}: saturated", self._measuring.saturated)
            for rate in self._plan.paced_s:
                self._each(f"{of}: {rate} requests/s", lambda system, rate=rate: self._paced(system, rate))
            self._each(f"{of}: streams", self._measuring.streamed, STREAMS)
            self._systems.append(self._systems.pop(0))  # nobody is always measured right after the same neighbour
        self._each(f"{self._plan.held} held streams", self._measuring.held, STREAMS)
        return {name: _middle(seen) for name, seen in self._seen.items() if name not in self.broken}

    def _warm(self, system: System) -> Figures:
        self._measuring.warm(system)
        return {}

    def _paced(self, system: System, rate: int) -> Figures:
        capacity = max(seen.get("requests_per_s", 0.0) for seen in self._seen[system.name])
        if rate > OVERLOAD * capacity:
            return {f"overloaded_at_{rate}": 1.0}
        return self._measuring.paced(system, rate)

    def _each(self, title: str, measure: Callable[[System], Figures], part: str = "") -> None:
        """Trouble with a `part` costs a system that part alone; any other trouble ends its run."""
        for system in list(self._systems):
            what = f"{system.name}{part}"
            if what in self.broken:
                continue
            self._say(f"{title}: {system.name}")
            try:
                self._seen[system.name].append(measure(system))
            except Trouble as trouble:
                self.broken[what] = str(trouble)
                self._say(f"{what} given up: {trouble}")
                if not part:
                    self._systems.remove(system)


def _middle(seen: Sequence[Figures]) -> Figures:
    """Medians; what failed or is missing is added up, because a single failure counts."""
    names = {name for figures in seen for name in figures}
    return {name: _one(name, [figures[name] for figures in seen if name in figures]) for name in sorted(names)}


def _one(name: str, values: Sequence[float]) -> float:
    return sum(values) if name.startswith(("failed_", "recorded_missing")) else median(values)
