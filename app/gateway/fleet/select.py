"""Endpoint selection: which endpoint of a target, and which target of a plan, to try first. Pure."""

from collections.abc import Callable, Iterable, Sequence

from app.domain import Plan, Target
from app.gateway.fleet.endpoint import Endpoint


def rank_endpoints(endpoints: Sequence[Endpoint], model: str, now: float) -> list[Endpoint]:
    """Best first: those in cooldown last, then by what this worker has in flight there; of equal ones that which has waited longest.

    `model`: the target's, as its host names it.
    """
    return sorted(endpoints, key=lambda endpoint: (endpoint.in_cooldown(now, model), endpoint.in_flight, endpoint.last_dispatch))


def rank_targets(plan: Plan, endpoints_of: Callable[[Target], Sequence[Endpoint]], now: float) -> Iterable[tuple[Target, str]]:
    """The plan's targets with the model each belongs to, in the plan's order; those whose endpoints are all in cooldown come last."""

    def in_cooldown(target: Target) -> bool:
        return all(endpoint.in_cooldown(now, target.model) for endpoint in endpoints_of(target))

    return sorted(zip(plan.targets, plan.names, strict=True), key=lambda each: in_cooldown(each[0]))
