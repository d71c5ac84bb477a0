"""Assignment: the arm of a unit, the same on every worker, with no state.

A unit takes the arm that weighted rendezvous draws by the weights in force when it began; another hash says whether it takes part. So
raising the enrolment moves no unit between arms, and a change of weights moves none that had begun before it. Units without a birth time
(users, teams, tags, and episodes that callers name by a text) are always split by the weights of the first version, and take part by the
enrolment that was in force when the conversation, the episode of the request, began.

What a unit is left out for is checked in this order, and the first that applies is recorded: pinned, no_unit, ineligible, holdout, layer,
before, share; then future and late, which alone leave the unit in the arm that it will have once it may take part.
"""

from bisect import bisect_right
from collections.abc import Mapping
from operator import attrgetter

from app.domain.experiment_unit import draw, draw_enrolment
from app.domain.experiments import EXPERIMENT_CLOCK_TOLERANCE_MS, EXPERIMENT_LEAD_MS, Assignment, Experiment, ExperimentVersion, NotEnrolled
from app.gateway.experiments.unit import RequestFacts, Unit, unit_of
from app.gateway.experiments.weighted_rendezvous import order_arms
from app.store.configuration.validation.experiments import LAYER_SLOTS

_TOLERATED_AGE_MS = EXPERIMENT_LEAD_MS - EXPERIMENT_CLOCK_TOLERANCE_MS
_effective_ms = attrgetter("effective_ms")


def assign(experiment: Experiment, facts: RequestFacts, pin: str | None = None) -> Assignment:
    """Returns the arm of a request. `pin` is the arm that the caller demands."""
    unit = unit_of(experiment.unit, facts)
    drawn = b"" if unit is None else draw_enrolment(experiment.salt, unit.id)
    version = _version_at(experiment, facts.now_ms if unit is None else unit.at_ms)
    if pin is not None:
        return _left_out(experiment, version, pin, "pinned", drawn, facts)
    if unit is None:
        return _left_out(experiment, version, experiment.control, "no_unit", drawn, facts)
    reason = _find_exclusion(experiment, version, unit, facts, drawn)
    if reason is not None:
        return _left_out(experiment, version, experiment.control, reason, drawn, facts)
    assert version is not None
    arms = version.arms if unit.has_birth else experiment.versions[0].arms
    arm = choose_arm(arms, experiment.salt, unit.id)
    if unit.at_ms > facts.now_ms + EXPERIMENT_CLOCK_TOLERANCE_MS:
        reason = "future"
    elif unit.at_ms > facts.current_ms + _TOLERATED_AGE_MS:
        reason = "late"
    probability = arms[arm] / sum(arms.values())
    return Assignment(experiment.name, version.number, arm, probability, reason, drawn.hex(), facts.episode.kind)


def choose_arm(arms: Mapping[str, float], salt: str, unit: bytes) -> str:
    """The arm for this unit. At least one weight is more than 0: configurations without one are refused."""
    names = list(arms)
    if len(names) == 1:
        return names[0]
    weighted = [(name.encode(), weight) for name, weight in arms.items()]
    return names[order_arms(weighted, b"arm\0" + salt.encode(), unit)[0]]


def _version_at(experiment: Experiment, at_ms: int) -> ExperimentVersion | None:
    """The version in force then; None: the experiment had not begun."""
    versions = experiment.versions
    if versions[-1].effective_ms <= at_ms:  # as nearly always
        return versions[-1]
    position = bisect_right(versions, at_ms, key=_effective_ms)
    return versions[position - 1] if position > 0 else None


def _find_exclusion(
    experiment: Experiment, version: ExperimentVersion | None, unit: Unit, facts: RequestFacts, drawn: bytes
) -> NotEnrolled | None:
    """Returns why the unit gets the control, whichever worker assigns it, or None if it takes part."""
    if experiment.eligible and not _is_eligible(experiment.eligible, facts):
        return "ineligible"
    # Without a salt of the experiment: it holds the same units out of all that have the same kind of unit.
    if experiment.holdout > 0 and _uniform(draw(b"holdout", "", unit.id)) < experiment.holdout:
        return "holdout"
    if experiment.layer is not None and experiment.slots is not None:
        slot = int.from_bytes(draw(b"layer", experiment.layer, unit.id)) % LAYER_SLOTS
        if not experiment.slots[0] <= slot < experiment.slots[1]:
            return "layer"
    if version is None:
        return "before"
    return "share" if version.enrolment < 1 and _uniform(drawn) >= version.enrolment else None


def _is_eligible(eligible: Mapping[str, tuple[str, ...]], facts: RequestFacts) -> bool:
    for dimension, values in eligible.items():
        match dimension:
            case "key":
                # The key that replaced one of these is held to what that was.
                value = facts.caller.prefix if facts.caller.prefix in values else facts.caller.counted_prefix
            case "team":
                value = facts.caller.team
            case _:
                value = facts.tags.get(dimension.removeprefix("tag:"))
        if value not in values:
            return False
    return True


def _left_out(
    experiment: Experiment, version: ExperimentVersion | None, arm: str, reason: NotEnrolled, drawn: bytes, facts: RequestFacts
) -> Assignment:
    shown = experiment.versions[0] if version is None else version
    return Assignment(experiment.name, shown.number, arm, 0.0, reason, drawn.hex() or None, facts.episode.kind)


def _uniform(drawn: bytes) -> float:
    """Returns a number between 0 and 1, and neither of them.

    It is exact in a float: all 64 bits divided by 2**64 would round up to 1.
    """
    return ((int.from_bytes(drawn) >> 12) + 0.5) * 2**-52
