"""The arm that serves a request first: the assigned one, unless it was stopped, or the experiment is a draft or has ended."""

from typing import NamedTuple

from app.domain.experiments import Assignment, Experiment, ExperimentConfig
from app.gateway.experiments.assignment import assign
from app.gateway.experiments.unit import RequestFacts


class ChosenArm(NamedTuple):
    """The arm that serves a request, and its assignment."""

    serving: str  # the arm that is tried first
    assignment: Assignment | None  # to the arm that counts; None if no experiment is running


def choose_serving_arm(
    config: ExperimentConfig, running: Experiment | None, default: str | None, facts: RequestFacts, pin: str | None
) -> ChosenArm:
    """Chooses the arm that serves a request.

    `default` is the control, unless the experiment names one. `pin` is the arm that the caller demands, which
    exists.
    """
    control = config.control_arm(default)
    if running is None or config.status != "running":
        return ChosenArm(pin or config.winner or control, None)
    assignment = assign(running, facts, pin)
    is_stopped = assignment.arm in config.stopped and pin is None
    return ChosenArm(control if is_stopped else assignment.arm, assignment)


def other_arms(config: ExperimentConfig, serving: str) -> list[str]:
    """Returns the arms that serve if that one fails, the heaviest first.

    What was stopped or retired is left out. The control may always serve.
    """
    others = [(-weight, arm) for arm, weight in config.arms.items() if arm != serving and weight > 0 and arm not in config.stopped]
    return [arm for _, arm in sorted(others)]
