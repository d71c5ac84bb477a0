"""Counting units: what writers touched becomes units, and units whose window is over are measured and added to the sums.

Sums follow the records whatever comes late, because a unit is always measured from its inferences and feedback again, and what is in the
sums of it is kept with it: both change in one transaction, by the difference.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from app.results.units.contributions import Changes
from app.results.units.outcomes import covariates, measure
from app.results.units.windows import complete_at, feedback_window, is_in_window, window_end, window_of
from app.store.experiment_units.counted_experiments import CountedExperiment, find_experiments, read_experiments
from app.store.experiment_units.forgotten_units import is_forgotten
from app.store.experiment_units.pre_period_feedback import read_expected_feedback, unfinished_scans
from app.store.experiment_units.sums import add_sums, read_slice_values
from app.store.experiment_units.touched_units import Touch, take_touches
from app.store.experiment_units.unit_measurements import (
    FirstInference,
    UnitSummary,
    measure_feedback,
    measure_units,
    only_by_index,
    read_first_inferences,
)
from app.store.experiment_units.units import (
    UnitKey,
    UnitRow,
    insert_units,
    lock_counting,
    lock_due_units,
    lock_units,
    move_units,
    put_off_first,
    update_units,
)
from app.store.experiment_units.usage_before import Subject, read_usage_before
from app.store.postgres.bounded_transactions import bounded_transaction
from app.store.postgres.locks import ERASED
from app.store.postgres.partitions import Connection

TOUCHES_AT_ONCE = 2_000
UNITS_AT_ONCE = 500
OTHER_VALUE = "(other)"
_MAX_SLICE_VALUES = 50
_MAX_VALUE_CHARACTERS = 100
# A unit is measured from all its inferences. So that a large one, such as a team with feedback all day, costs no more than a part in some
# thousands of the time, what comes late waits for more: a minute for each 1,000 inferences.
_SMALL_UNIT = 100
_WAIT_PER_INFERENCE = timedelta(milliseconds=60)
_LONGEST_WAIT = timedelta(minutes=30)


async def take_in_touched(connection: Connection) -> bool:
    """Returns whether there may be more to do now."""
    async with bounded_transaction(connection):
        if not await lock_counting(connection):
            return False
        touches = await take_touches(connection, TOUCHES_AT_ONCE)
        if not touches:
            return False
        experiments = await find_experiments(connection, ((each.experiment, each.version) for each in touches))
        by_unit: dict[UnitKey, list[Touch]] = {}
        for touch in touches:
            experiment = experiments.get((touch.experiment, touch.version))
            if experiment is not None:
                by_unit.setdefault(UnitKey(experiment.id, touch.unit), []).append(touch)
        by_id = {experiment.id: experiment for experiment in experiments.values()}
        known = await lock_units(connection, by_unit)
        now: datetime = await connection.fetchval("SELECT now()")
        changes = Changes()
        new: list[UnitRow] = []
        moved: list[tuple[UnitKey, str, datetime]] = []
        for key, of_unit in by_unit.items():
            experiment, unit = by_id[key.experiment_id], known.get(key)
            enrolled = min((touch for touch in of_unit if touch.enrolled), key=lambda touch: touch.id, default=None)
            if unit is None:
                if enrolled is not None:
                    unit = _new_unit(experiment, key.unit, enrolled)
                    new.append(unit)
                    changes.add(experiment, None, unit)
            elif enrolled is not None and enrolled.id < unit.first_id:
                due_at = window_end(experiment, enrolled.id) if unit.state == "open" else now + _wait(unit)
                moved.append((key, enrolled.id, due_at))
                changes.add(experiment, unit, replace(unit, first_id=enrolled.id))  # maybe of another day
            elif unit.state != "open" and any(is_in_window(experiment, unit, touch.id) for touch in of_unit):
                moved.append((key, unit.first_id, now + _wait(unit)))
        await insert_units(connection, new)
        await move_units(connection, moved)
        await add_sums(connection, *changes.in_order())
        return len(touches) == TOUCHES_AT_ONCE


async def put_off_due_unit(connection: Connection) -> str | None:
    """Puts off the unit that is due first; returns its experiment, or None if none is due, or somebody else
    counts.
    """
    async with bounded_transaction(connection):
        if not await lock_counting(connection):
            return None
        return await put_off_first(connection, waiting=await _waiting(connection))


async def count_due_units(connection: Connection, limit: int = UNITS_AT_ONCE) -> bool:
    """Returns whether there may be more to do now."""
    async with bounded_transaction(connection):
        if not await lock_counting(connection):
            return False
        due = await lock_due_units(connection, limit, waiting=await _waiting(connection))
        if not due:
            return False
        await only_by_index(connection)
        now: datetime = await connection.fetchval("SELECT now()")
        experiments = await read_experiments(connection, (unit.experiment_id for unit in due))
        firsts = await read_first_inferences(connection, [unit.first_id for unit in due])
        changes = Changes()
        counted: list[UnitRow] = []
        left: list[tuple[UnitRow, FirstInference]] = []
        for unit in due:
            first = firsts.get(unit.first_id)
            if first is None or first.unit != unit.unit:
                counted.append(_without_records(unit, is_erased=first is not None or is_forgotten(unit.unit)))
                changes.add(experiments[unit.experiment_id], unit, counted[-1])
            else:
                left.append((unit, first))
        for unit, after in zip([unit for unit, _ in left], await _count(connection, experiments, left, now), strict=True):
            counted.append(after)
            changes.add(experiments[unit.experiment_id], unit, after)
        await update_units(connection, counted)
        await add_sums(connection, *changes.in_order())
        return len(due) == limit


async def _waiting(connection: Connection) -> list[str]:
    """Returns the ids of experiments whose units have no covariates yet."""
    return [scan.experiment_id for scan in await unfinished_scans(connection)]


def _new_unit(experiment: CountedExperiment, unit: str, first: Touch) -> UnitRow:
    kind = first.episode_kind if experiment.unit == "episode" else ""
    return UnitRow(
        experiment_id=experiment.id,
        unit=unit,
        first_id=first.id,
        version=first.version,
        episode_kind=kind,
        arm=first.arm,
        due_at=window_end(experiment, first.id),
    )


def _wait(unit: UnitRow) -> timedelta:
    """Returns the time until a unit is measured again."""
    return min(_LONGEST_WAIT, unit.inferences * _WAIT_PER_INFERENCE) if unit.inferences > _SMALL_UNIT else timedelta(0)


def _without_records(unit: UnitRow, *, is_erased: bool) -> UnitRow:
    """Returns a unit whose records were erased or have expired.

    What is in the sums stays, and what is not never comes. A tag's value may name somebody.
    """
    if is_erased and unit.slices is not None:
        unit = replace(unit, slices=[ERASED] * len(unit.slices))
    if unit.state == "complete":
        return replace(unit, due_at=None)
    return replace(unit, state="complete", due_at=None, excluded=unit.excluded or (None if unit.state == "measured" else "erased"))


async def _count(
    connection: Connection, experiments: Mapping[str, CountedExperiment], due: Sequence[tuple[UnitRow, FirstInference]], now: datetime
) -> list[UnitRow]:
    """Returns the units as they are now, in the same order."""
    windows = [window_of(experiments[unit.experiment_id], unit) for unit, _ in due]
    summaries = await measure_units(connection, windows)
    is_complete = [now >= complete_at(experiments[unit.experiment_id], unit.first_id) for unit, _ in due]
    with_feedback = [
        at
        for at, (unit, _) in enumerate(due)
        if is_complete[at] and experiments[unit.experiment_id].has_feedback and summaries[at].excluded is None
    ]
    feedback_windows = [feedback_window(experiments[due[at][0].experiment_id], due[at][0], windows[at]) for at in with_feedback]
    feedback = dict(zip(with_feedback, await measure_feedback(connection, feedback_windows), strict=True))
    before = await _covariates(connection, experiments, due)
    slices: dict[str, dict[str, set[str]]] = {}
    for experiment in {unit.experiment_id: experiments[unit.experiment_id] for unit, _ in due}.values():
        if experiment.analysis.slices:
            slices[experiment.id] = await read_slice_values(connection, experiment.id)
    return [
        _counted_unit(
            *(experiments[unit.experiment_id], unit, first, summaries[at], is_complete[at], feedback.get(at, {}), before.get(at)),
            _slices(experiments[unit.experiment_id], first, slices.get(unit.experiment_id, {})),
        )
        for at, (unit, first) in enumerate(due)
    ]


def _counted_unit(
    experiment: CountedExperiment,
    unit: UnitRow,
    first: FirstInference,
    summary: UnitSummary,
    is_complete: bool,
    feedback: Mapping[str, int],
    before: Sequence[int | None] | None,
    slices: Sequence[str] | None,
) -> UnitRow:
    unit = replace(
        unit,
        version=unit.version if first.version is None else first.version,
        episode_kind=first.episode_kind if experiment.unit == "episode" else "",
        arm=first.arm,
    )
    if summary.excluded is not None or not summary.inferences:
        return replace(unit, state="complete", excluded=summary.excluded or "erased", measured=None, due_at=None)
    return replace(
        unit,
        state="complete" if is_complete else "measured",
        excluded=None,
        inferences=summary.inferences,
        episodes=summary.episodes,
        served_by_other=summary.served_by_other,
        measured=measure(experiment, summary, feedback),
        covariates=before if unit.covariates is None else unit.covariates,
        slices=slices,
        due_at=None if is_complete else complete_at(experiment, unit.first_id),
    )


async def _covariates(
    connection: Connection, experiments: Mapping[str, CountedExperiment], due: Sequence[tuple[UnitRow, FirstInference]]
) -> dict[int, Sequence[int | None]]:
    """Returns covariates by position in `due`, of units that return and are measured for the first time."""
    wanted: dict[int, Subject] = {}
    for at, (unit, first) in enumerate(due):
        experiment = experiments[unit.experiment_id]
        if experiment.unit != "episode" and unit.covariates is None:
            wanted[at] = _subject(experiment, first)
    usages = await read_usage_before(connection, list(wanted.values()))
    feedback = await read_expected_feedback(connection, [due[at][0].key for at in wanted])
    return {
        at: covariates(experiments[due[at][0].experiment_id], usage, expected)
        for at, usage, expected in zip(wanted, usages, feedback, strict=True)
    }


def _subject(experiment: CountedExperiment, first: FirstInference) -> Subject:
    since, until = experiment.pre_period
    match experiment.unit:
        case "team":
            return Subject(first.team_id, None, "", since, until, experiment.metrics)
        case "user":
            return Subject(first.team_id, "end_user", first.end_user or "", since, until, experiment.metrics)
        case unit:
            return Subject(first.team_id, unit, first.tags.get(unit.removeprefix("tag:"), ""), since, until, experiment.metrics)


def _slices(experiment: CountedExperiment, first: FirstInference, known: dict[str, set[str]]) -> Sequence[str] | None:
    """Returns the values by which a unit is summed up; of too many only those that come first. `known` gets
    the new ones.

    They are the same whenever it is counted again: `known` does not grow once it is full.
    """
    if not experiment.analysis.slices:
        return None
    values: list[str] = []
    for name in experiment.analysis.slices:
        of_slice = known.setdefault(name, set())
        value = first.tags.get(name, "")
        if value not in of_slice and (len(value) > _MAX_VALUE_CHARACTERS or len(of_slice) >= _MAX_SLICE_VALUES):
            value = OTHER_VALUE
        of_slice.add(value)
        values.append(value)
    return values
