"""The times of a unit: the window in which its inferences count, and when it is measured and complete."""

from datetime import UTC, datetime, timedelta

from app.domain import uuid7
from app.store.experiment_units.counted_experiments import CountedExperiment
from app.store.experiment_units.unit_measurements import FeedbackWindow, Window
from app.store.experiment_units.units import UnitRow
from app.store.postgres.partitions import DAY_MS

# Between the end of a window and the moment when a unit is measured: an inference is stored when it has ended.
GRACE = timedelta(seconds=5)


def is_in_window(experiment: CountedExperiment, unit: UnitRow, inference_id: str) -> bool:
    """Returns whether an inference is in the unit's window, or as long before it.

    There, an inference that is not enrolled excludes the unit.
    """
    window = window_of(experiment, unit)
    return window.since <= inference_id < window.until


def window_of(experiment: CountedExperiment, unit: UnitRow) -> Window:
    first_ms = uuid7.created_ms(unit.first_id)
    since, until = (uuid7.lowest_at(at_ms) for at_ms in (first_ms - experiment.window_ms, first_ms + experiment.window_ms))
    return Window(experiment.name, unit.unit, since, unit.first_id, until, experiment.unit == "episode")


def feedback_window(experiment: CountedExperiment, unit: UnitRow, window: Window) -> FeedbackWindow:
    # An id may be known, and rated, before the clock of another machine has reached the time in it.
    first_ms = uuid7.created_ms(unit.first_id)
    return FeedbackWindow(
        window, uuid7.lowest_at(first_ms - DAY_MS), uuid7.lowest_at(first_ms + experiment.feedback_ms), experiment.metrics
    )


def window_end(experiment: CountedExperiment, first_id: str) -> datetime:
    return _moment(uuid7.created_ms(first_id) + experiment.window_ms) + GRACE


def complete_at(experiment: CountedExperiment, first_id: str) -> datetime:
    wait_ms = experiment.feedback_ms if experiment.has_feedback else experiment.window_ms
    return _moment(uuid7.created_ms(first_id) + wait_ms) + GRACE


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
