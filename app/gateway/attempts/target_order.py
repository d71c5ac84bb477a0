"""The order in which targets are tried: by rank, in groups of one model and variant; a group of a fallback only for a reason of its own."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from app.domain.routing import USUAL_REASONS, Target
from app.domain.snapshot import Plan
from app.gateway.attempts.attempt_failures import Failures
from app.gateway.attempts.reasoning_state import MarkedState
from app.gateway.fleet.endpoint import Endpoint
from app.gateway.state.stages import Attempted
from providers.canonical.refusal_reasons import RefusalReason


class TargetGroup(NamedTuple):
    """Targets of one model, tried one after the other."""

    model: str
    variant: str | None  # whose prompt they get; None: the plan is of no function
    targets: Sequence[Target]


def order_targets(attempted: Attempted, marked_state: MarkedState | None) -> list[TargetGroup]:
    """The targets of the plan in the order in which to try them: of each model, and of each variant."""
    plan, ranked = attempted.planned.plan, _rank(attempted, marked_state)
    if len(ranked) == 1:
        groups = [TargetGroup(plan.names[ranked[0]], plan.variants[ranked[0]] if plan.variants else None, [plan.targets[ranked[0]]])]
    else:

        def group(position: int) -> tuple[str, str | None]:
            return plan.names[position], plan.variants[position] if plan.variants else None

        groups = [
            TargetGroup(*key, [plan.targets[position] for position in positions]) for key, positions in itertools.groupby(ranked, key=group)
        ]
    if attempted.broken_endpoint is None:
        return groups
    # Another variant has another prompt, which nothing goes on with.
    return [group for group in groups if group.variant == attempted.variant]


def find_next(remaining: Sequence[TargetGroup], plan: Plan, failures: Failures) -> int | None:
    """The position of the first group that may serve after what has failed; None: none may.

    A fallback may come first, if its reasons include failures: the targets of the plan's own model are all in cooldown. Another variant is
    a fallback for the usual reasons.
    """
    for position, group in enumerate(remaining):
        base = model_of(plan, group.variant)
        if group.model != base:
            reasons = plan.snapshot.models[base].fallback_on.get(group.model, USUAL_REASONS)
        elif group.variant == plan.variant:
            if failures.refusal is None:
                return position
            continue
        else:
            reasons = USUAL_REASONS
        if failures.refusal in reasons if failures.refusal is not None else not (failures.reasons or {"failure"}).isdisjoint(reasons):
            return position
    return None


def model_of(plan: Plan, variant: str | None) -> str:
    """The model that the plan, or one of its variants, is for; what else serves it are that model's fallbacks."""
    if variant is None or variant == plan.variant:
        return plan.name
    if plan.function is None:  # an arm of a model's experiment
        return variant if variant in plan.snapshot.models else plan.name if plan.experiment_model is None else plan.experiment_model
    return plan.snapshot.functions[plan.function].variants[variant].model


def has_fallback_for(plan: Plan, reason: RefusalReason) -> bool:
    """Whether a fallback is configured for this refusal of the plan's model."""
    config = plan.snapshot.models[plan.name]
    return any(reason in config.fallback_on.get(name, ()) for name in plan.names if name != plan.name)


def _rank(attempted: Attempted, marked_state: MarkedState | None) -> Sequence[int]:
    """The positions of the plan's targets in the order in which to try them."""
    table, plan = attempted.planned.endpoint_table, attempted.planned.plan
    ranked = table.rank_targets(plan)
    if marked_state is not None:
        ranked = marked_state.sort_targets(ranked, plan)
    if attempted.broken_endpoint is not None:
        ranked = sorted(
            ranked, key=lambda position: _tried_before(plan.targets[position], table.endpoints_of(plan.targets[position]), attempted)
        )
    return ranked


def _tried_before(target: Target, endpoints: Sequence[Endpoint], attempted: Attempted) -> tuple[bool, int]:
    """The order of targets that go on with a broken stream: those with an endpoint at another address than the broken one come first.

    Of the others, one that was tried less often does: another model at that address may go on where this one breaks off each time.
    """
    broken = attempted.broken_endpoint
    tried = [attempt for attempt in attempted.attempts if (attempt.provider, attempt.model) == (target.provider, target.model)]
    return all(endpoint is broken for endpoint in endpoints), len(tried)
