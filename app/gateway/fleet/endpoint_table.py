"""The endpoints of one configuration, and in which order to try them."""

import time
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from app.domain.routing import Target
from app.domain.snapshot import Plan, Snapshot
from app.gateway.fleet.endpoint import Endpoint
from app.gateway.fleet.endpoint_choice import EndpointChoice, EndpointPool, LoneEndpoint
from app.gateway.fleet.operator_drops import read_operator_drops
from app.gateway.fleet.prefix_index import PrefixIndex
from app.process.thread_steps import in_steps
from app.store.configuration.snapshots import EMPTY
from providers.dialect import InboundRequest

PoolKey: TypeAlias = tuple[str, str, tuple[str, ...], tuple[tuple[str, float], ...]]
_EMPTY_POOL = EndpointPool(())


def pool_key(target: Target) -> PoolKey:
    """Returns the key of a target's pool, which is the same for all targets with the same endpoints."""
    weights = tuple(sorted(target.endpoint_weights.items())) if target.endpoint_weights else ()
    return target.provider, target.model, target.endpoints, weights


class EndpointTable:
    """The endpoints that serve the targets of `snapshot`, and what may be dropped there.

    The table does not change; what is known of endpoints does. It is built in steps. `endpoints` has them by
    provider and address, `pools` those of each target. `prefix_index` outlives the table. `discovered` has
    the addresses behind each `dns+http://` name.
    """

    def __init__(
        self,
        snapshot: Snapshot = EMPTY,
        endpoints: Mapping[tuple[str, str], Endpoint] | None = None,
        pools: Mapping[PoolKey, EndpointPool] | None = None,
        prefix_index: PrefixIndex | None = None,
        discovered: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self.snapshot = snapshot
        self.endpoints = endpoints or {}
        self.pools = pools or {}
        self.prefix_index = PrefixIndex() if prefix_index is None else prefix_index
        self.discovered = discovered or {}
        self.operator_drops = read_operator_drops(snapshot)
        # The headers in which callers may send a credential of their own to some host.
        self.caller_credential_headers = frozenset(
            name.encode() for endpoint in in_steps(self.endpoints.values()) for name in endpoint.credential_pool.caller_header_names
        )

    def endpoints_of(self, target: Target) -> Sequence[Endpoint]:
        """All endpoints of a target, as configured. choose_endpoints() gives the order in which to try them."""
        return self.pools.get(pool_key(target), _EMPTY_POOL).endpoints

    def choose_endpoints(self, target: Target, request: InboundRequest, team_id: str, session: str | None = None) -> EndpointChoice:
        """The endpoints of a target in the order in which to try them for a request. `session` is that of EndpointChoice."""
        pool = self.pools.get(pool_key(target), _EMPTY_POOL)
        if pool.is_lone:
            return LoneEndpoint(pool, target, request, team_id)
        return EndpointChoice(pool, target, request, team_id, self.prefix_index, session)

    def rank_targets(self, plan: Plan) -> Sequence[int]:
        """The positions of the plan's targets, in its order; those whose endpoints are all in cooldown come last."""
        if len(plan.targets) == 1:
            return (0,)
        now = time.monotonic()

        def in_cooldown(target: Target) -> bool:
            return all(endpoint.in_cooldown(now, target.model) for endpoint in self.endpoints_of(target))

        return sorted(range(len(plan.targets)), key=lambda at: in_cooldown(plan.targets[at]))
