"""Versions of an experiment in time: what a ramp plans, and which of all versions are in force when. Pure."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from app.domain.experiments import ExperimentConfig, ExperimentVersion


def planned_enrolments(config: ExperimentConfig, start: datetime, effective: datetime) -> Iterator[tuple[datetime, float]]:
    """The enrolment at `effective`, and each later one of the ramp, which counts from `start`."""
    enrolment = config.enrolment
    later: list[tuple[datetime, float]] = []
    for step in config.ramp:
        begins = start + timedelta(hours=step.after_hours)
        if begins <= effective:
            enrolment = step.enrolment
        else:
            later.append((begins, step.enrolment))
    yield effective, enrolment
    yield from later


def versions_in_force(versions: Sequence[ExperimentVersion]) -> tuple[ExperimentVersion, ...]:
    """Returns those of all versions that are in force at some time, the earliest first.

    `versions` are in the order of their numbers. A newer one supersedes whatever was to take effect after it,
    such as the rest of a ramp.
    """
    in_force: list[ExperimentVersion] = []
    for version in versions:
        while in_force and in_force[-1].effective_ms >= version.effective_ms:
            in_force.pop()
        in_force.append(version)
    return tuple(in_force)
