"""Contributions of units to the sums of their experiment.

This is pure: what a change of a unit adds is the difference of two contributions.
"""

import datetime
from collections.abc import Iterator, Mapping, Sequence

from app.domain import uuid7
from app.results.units.outcomes import capped, scale_of
from app.store.experiment_units.counted_experiments import CountedExperiment
from app.store.experiment_units.sums import CountKey, SumKey
from app.store.experiment_units.units import UnitRow


def sums_of(experiment: CountedExperiment, unit: UnitRow) -> Iterator[tuple[SumKey, Sequence[int]]]:
    """Yields what a unit adds to sums, by key, in the order of SUM_NAMES."""
    if unit.excluded is not None or unit.measured is None:
        return
    slices = [("", ""), *zip(experiment.analysis.slices, unit.slices or (), strict=False)]
    for position, metric in enumerate(experiment.metrics):
        value = unit.measured[position]
        if value is None:
            continue
        y = capped(experiment, metric, value)
        x = 0 if unit.covariates is None else unit.covariates[position] or 0
        added = (1, y, y * y, int(y == 0), int(y == scale_of(metric)), x, x * x, x * y, int(y < value), value)
        for slice, of_slice in slices:
            yield SumKey(unit.experiment_id, metric, slice, of_slice, unit.version, unit.episode_kind, unit.arm), added


def counts_of(unit: UnitRow) -> tuple[CountKey, Sequence[int]]:
    """Returns what a unit adds to counts, with its key, in the order of COUNT_NAMES."""
    day = datetime.datetime.fromtimestamp(uuid7.created_ms(unit.first_id) / 1000, datetime.UTC).date()
    key = CountKey(unit.experiment_id, unit.version, unit.episode_kind, unit.arm, day)
    if unit.excluded is not None:
        return key, (0, 1, 0, 0, 0, 0, 0)
    is_measured = unit.state != "open"
    seen = (unit.inferences, unit.episodes, unit.served_by_other) if is_measured else (0, 0, 0)
    return key, (1, 0, int(is_measured), int(unit.state == "complete"), *seen)


class Changes:
    """The changes of sums and counts by all changes of units."""

    def __init__(self) -> None:
        self.sums: dict[SumKey, list[int]] = {}
        self.counts: dict[CountKey, list[int]] = {}

    def add(self, experiment: CountedExperiment, before: UnitRow | None, after: UnitRow) -> None:
        """Adds a change of a unit. `before` is None if the unit is new."""
        for unit, sign in ((before, -1), (after, 1)):
            if unit is not None:
                for key, added in sums_of(experiment, unit):
                    _add(self.sums.setdefault(key, [0] * len(added)), added, sign)
                key, counted = counts_of(unit)
                _add(self.counts.setdefault(key, [0] * len(counted)), counted, sign)

    def in_order(self) -> tuple[Mapping[SumKey, Sequence[int]], Mapping[CountKey, Sequence[int]]]:
        return dict(sorted(self.sums.items())), dict(sorted(self.counts.items()))


def _add(into: list[int], added: Sequence[int], sign: int) -> None:
    for at, number in enumerate(added):
        into[at] += sign * number
