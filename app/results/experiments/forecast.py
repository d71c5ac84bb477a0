"""How many more units an experiment needs until there is a result, and how many days they take."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from app.domain.experiments import BUILT_IN_OUTCOMES
from app.results.experiments.arm_units import Counts
from app.results.experiments.metric_facts import MetricFacts
from app.results.experiments.strata import probabilities_of
from app.results.statistics.burn_in import burn_in_units
from app.results.statistics.compare import Comparison
from app.results.statistics.power import needed_units
from app.store.experiments.queries import ExperimentRow

_DAYS_OF_RATE = 7
_LONGEST_WAIT_DAYS = 3650


class Forecast:
    """Expects of an experiment what its counts until `now` say.

    `units_by_arm` has the counts of each arm by name; see count_by_arm().
    """

    def __init__(
        self,
        experiment: ExperimentRow,
        weights: Mapping[int, Mapping[str, float]],
        counts: Counts,
        units_by_arm: Mapping[str, Mapping[str, int]],
        now: datetime,
    ) -> None:
        self.units_per_day = _units_per_day(experiment, counts, now)
        self._experiment = experiment
        self._weights = weights
        self._units_by_arm = units_by_arm
        self._now = now

    def more_units(self, facts: MetricFacts, arm: str, found: Comparison) -> int | None:
        """Returns how many more units of both arms together are needed, or None if nobody knows.

        They are counted until there is an interval or, once there is one, until the difference seen now would
        be certain.
        """
        of_control, of_arm = self._shares(arm)
        if not (of_control and of_arm):
            return None
        share = of_arm / (of_control + of_arm)
        if found.verdict == "too early":
            missing = burn_in_units(facts.kind, share) - found.units - found.units_left_out
            return missing if missing > 0 else None
        if found.verdict != "no difference yet" or not found.difference or not found.unit_variance:
            return None
        return max(0, needed_units(found.difference, found.unit_variance, facts.plan, share) - found.units)

    def days(self, facts: MetricFacts, arm: str, found: Comparison, more_units: int | None) -> float | None:
        """Returns the days that more units take at the present rate of units, and of those that get a value.

        Returns None if they take for ever, or nobody knows.
        """
        if more_units is None or self._experiment.status != "running" or not self.units_per_day:
            return None
        counted = "measured" if facts.name in BUILT_IN_OUTCOMES else "complete"
        of_both = sum(self._units_by_arm.get(each, {}).get(counted, 0) for each in (arm, self._experiment.control))
        with_value = found.units + found.units_left_out
        part = min(1.0, with_value / of_both) if of_both and with_value else 1.0
        days = self._days_to_first(facts) + more_units / (self.units_per_day * sum(self._shares(arm)) * part)
        return days if days < _LONGEST_WAIT_DAYS else None

    def _days_to_first(self, facts: MetricFacts) -> float:
        """Returns the days until the first units are complete, in the window of the first ones after the
        start.
        """
        if self._experiment.started_at is None:
            return 0.0
        analysis = self._experiment.analysis
        lasts_s = analysis.window_minutes * 60 if facts.name in BUILT_IN_OUTCOMES else analysis.feedback_hours * 3600
        started = datetime.fromisoformat(self._experiment.started_at)
        return max(0.0, lasts_s - (self._now - started).total_seconds()) / 86_400

    def _shares(self, arm: str) -> tuple[float, float]:
        """Returns the shares of the control and of this arm in all new units."""
        shares = probabilities_of(self._experiment, self._weights, max(self._weights), "")
        return shares.get(self._experiment.control, 0.0), shares.get(arm, 0.0)


def _units_per_day(experiment: ExperimentRow, counts: Counts, now: datetime) -> float:
    """Returns the new units per day of the last full days (UTC), or since the start where there is none."""
    if experiment.started_at is None:
        return 0.0
    started = datetime.fromisoformat(experiment.started_at).astimezone(UTC)
    ended = now if experiment.ended_at is None else datetime.fromisoformat(experiment.ended_at).astimezone(UTC)
    full_days = [ended.date() - timedelta(days=back) for back in range(1, _DAYS_OF_RATE + 1)]
    full_days = [day for day in full_days if day > started.date()]
    if full_days:
        return sum(values["units"] for key, values in counts if key.day in full_days) / len(full_days)
    elapsed_days = max((ended - started).total_seconds(), 3600) / 86_400
    return sum(values["units"] for _, values in counts) / elapsed_days
