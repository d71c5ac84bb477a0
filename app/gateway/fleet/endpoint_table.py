"""The endpoints of one configuration, and in which order to try them."""

import time
from collections.abc import Iterable, Mapping, Sequence

from app.domain import Plan, Snapshot, Target
from app.gateway.fleet import select
from app.gateway.fleet.endpoint import Endpoint
from app.gateway.fleet.operator_drops import read_operator_drops
from app.store.snapshots import EMPTY
from app.thread_steps import in_steps
from providers.dialect import InboundRequest


class EndpointTable:
    """Which endpoints serve a target of `snapshot`, and what may be dropped there. It does not change; what is known of endpoints does.

    `endpoints`: by provider and address. `by_target`: by provider and the target's own addresses. Built in steps.
    """

    def __init__(
        self,
        snapshot: Snapshot = EMPTY,
        endpoints: Mapping[tuple[str, str], Endpoint] | None = None,
        by_target: Mapping[tuple[str, tuple[str, ...]], tuple[Endpoint, ...]] | None = None,
    ) -> None:
        self.snapshot = snapshot
        self.endpoints = endpoints or {}
        self.by_target = by_target or {}
        self.operator_drops = read_operator_drops(snapshot)
        # The headers in which callers may send a credential of their own to some host.
        self.caller_credential_headers = frozenset(
            name.encode() for endpoint in in_steps(self.endpoints.values()) for name in endpoint.credential_pool.caller_header_names
        )

    def endpoints_of(self, target: Target) -> Sequence[Endpoint]:
        """All endpoints of a target, as configured. rank_endpoints() gives the order in which to try them."""
        return self.by_target.get((target.provider, target.endpoints), ())

    def rank_endpoints(self, target: Target, request: InboundRequest | None = None) -> list[Endpoint]:
        """The endpoints of a target, best first: see select.rank_endpoints().

        `request`: what is to be served; None: no inference (an operation). Reserved for prefix affinity (DESIGN.md part 9), which will
        prefer the endpoint that holds the prompt's prefix; today the order does not depend on it.
        """
        endpoints = self.by_target.get((target.provider, target.endpoints), ())
        return select.rank_endpoints(endpoints, target.model, time.monotonic()) if len(endpoints) > 1 else list(endpoints)

    def rank_targets(self, plan: Plan) -> Iterable[tuple[Target, str]]:
        """See select.rank_targets()."""
        if len(plan.targets) == 1:
            return ((plan.targets[0], plan.names[0]),)
        return select.rank_targets(plan, self.endpoints_of, time.monotonic())
