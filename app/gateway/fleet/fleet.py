"""The fleet: every endpoint that a target may be served by."""

import asyncio
import functools
import heapq
import itertools
import weakref
from collections.abc import Collection, Mapping, Sequence

import httpx2

from app.domain.routing import Node, ProviderConfig, Target
from app.domain.snapshot import Snapshot
from app.gateway.fleet.endpoint import Endpoint
from app.gateway.fleet.endpoint_choice import EndpointPool
from app.gateway.fleet.endpoint_table import EndpointTable, PoolKey, pool_key
from app.gateway.fleet.name_discovery import is_name, resolve_names, resolve_now
from app.gateway.fleet.probe import Prober, send_probe
from app.gateway.learned_rules.store import LearnedRuleStore
from app.process.background_tasks import BackgroundTask
from app.process.thread_steps import in_steps, run_in_steps
from app.settings import Settings
from app.store.postgres.vault import Vault
from providers import catalogue, credentials
from providers.canonical.errors import UpstreamError
from providers.transport.resolver import Resolver

_RESOLVER_THREADS = 2


class Fleet:
    """The endpoints in force (`table`), their credentials and their probes.

    A new snapshot is prepared, then swapped in: those endpoints that it still has are kept, with what is known of them. A request keeps to
    the table by which it was planned.
    """

    def __init__(self, settings: Settings, transport: httpx2.AsyncBaseTransport, vault: Vault | None = None) -> None:
        self._settings = settings
        self.address_guard = settings.address_guard
        self.transport = transport
        self.vault = Vault(()) if vault is None else vault
        self._credential_reader = credentials.CredentialReader(self._read_secret, settings.folders_of_credentials)
        self.table = EndpointTable()
        self.learned_rules = LearnedRuleStore(settings.learned_rules_keep_s)
        self._retired: weakref.WeakSet[Endpoint] = weakref.WeakSet()  # those that requests in flight still have
        self._prober = Prober(settings, transport)
        self._discovery = BackgroundTask("discovery", self._keep_discovering)
        self.resolver = Resolver(_RESOLVER_THREADS)
        self._new_slots, self._free_slots = itertools.count(), list[int]()

    def start(self) -> None:
        self._prober.start()
        self._discovery.start()

    def stop(self) -> None:
        self._prober.stop()
        self._discovery.cancel()
        self.resolver.close()

    @property
    def background_tasks(self) -> tuple[BackgroundTask, ...]:
        return (self._prober.rounds, self._prober.load_rounds, self._discovery)

    @property
    def endpoints(self) -> Collection[Endpoint]:
        return self.table.endpoints.values()

    def record_success(self, endpoint: Endpoint) -> None:
        if endpoint.breaker.open_until:
            endpoint.load.cool_down()
        endpoint.breaker.record_success()

    def record_failure(
        self, endpoint: Endpoint, model: str, error: UpstreamError, *, team_id: str | None = None, in_doubt_of: str | None = None
    ) -> None:
        """Counts a failure of an endpoint. `model` is named as the host does; `team_id` means what it does for BusyTimes.record(), and
        `in_doubt_of` what it does for Breaker.record_failure().
        """
        endpoint.breaker.record_failure(error, self._settings.breaker_failures, self._settings.breaker_open_s, in_doubt_of)
        endpoint.busy_times.record(model, error, self._settings.endpoint_cooldown_max_s, team_id)

    async def reprobe(self, endpoint: Endpoint) -> None:
        """Recognises an endpoint anew after an operation changed it. Returns when that is done, or after a few seconds."""
        await self._prober.reprobe(endpoint)

    def apply_snapshot(self, snapshot: Snapshot) -> None:
        """prepare() and swap() in one: for what serves nobody meanwhile. Blocks where the snapshot has `dns+http://` names."""
        self.swap(self.prepare(snapshot))

    def prepare(self, snapshot: Snapshot, discovered: Mapping[str, tuple[str, ...]] | None = None) -> EndpointTable:
        """The endpoints of a snapshot, for swap(). In steps, in any thread.

        `discovered` has the addresses behind `dns+http://` names; None means those known, and of new names those that they have now.
        """
        known = self.table
        names = _names_of(snapshot)
        if discovered is None:
            discovered = {name: known.discovered.get(name) or resolve_now(name) for name in names}
        is_same = snapshot.providers == known.snapshot.providers and snapshot.models == known.snapshot.models
        is_same = is_same and snapshot.nodes == known.snapshot.nodes and snapshot.drained == known.snapshot.drained
        if is_same and discovered == known.discovered:
            return EndpointTable(snapshot, known.endpoints, known.pools, known.prefix_index, discovered)
        nodes_by_provider: dict[str, list[Node]] = {}
        for node in snapshot.nodes:
            nodes_by_provider.setdefault(node.provider, []).append(node)
        endpoints: dict[tuple[str, str], Endpoint] = {}
        pools: dict[PoolKey, EndpointPool] = {}
        for model in in_steps(snapshot.models.values()):
            for target in model.targets:
                config = snapshot.providers[target.provider]
                nodes = [
                    node for node in nodes_by_provider.get(target.provider, ()) if config.accepts_nodes and target.model in node.models
                ]
                addresses = [each for address in _addresses(target, config) for each in discovered.get(address, (address,))]
                members = [self._keep_or_create(endpoints, target.provider, config, address) for address in addresses]
                members += [self._keep_or_create(endpoints, target.provider, config, node.address, is_node=True) for node in nodes]
                pools[pool_key(target)] = EndpointPool(
                    [each for each in dict.fromkeys(members) if (target.provider, each.base_url) not in snapshot.drained],
                    {**target.endpoint_weights, **_weights_of(nodes)},
                )
        return EndpointTable(snapshot, endpoints, pools, known.prefix_index, discovered)

    def swap(self, prepared: EndpointTable) -> None:
        """Puts prepared endpoints in force. Requests in flight, at these or at any before, read no credential that was removed."""
        previous, self.table = self.table, prepared
        before, now = previous.snapshot.credentials, prepared.snapshot.credentials
        if previous.endpoints is not prepared.endpoints:
            self._retired.update([each for key, each in previous.endpoints.items() if prepared.endpoints.get(key) is not each])
        if before != now:
            changed = {name for name, encrypted in now.items() if before.get(name) != encrypted}
            for endpoint in (*self._retired, *prepared.endpoints.values()):
                endpoint.credential_pool.reload_stored(changed, before.keys() - now.keys())
        if before != now or previous.endpoints is not prepared.endpoints:
            choosable = {endpoint for pool in prepared.pools.values() if len(pool.endpoints) > 1 for endpoint in pool.endpoints}
            self._prober.watch(prepared.endpoints.values(), choosable)

    def _keep_or_create(
        self, endpoints: dict[tuple[str, str], Endpoint], name: str, config: ProviderConfig, address: str, *, is_node: bool = False
    ) -> Endpoint:
        key = name, address
        if key not in endpoints:
            known = self.table.endpoints.get(key)
            if known is None or known.config != config:
                provider = catalogue.build_provider(config.adapter, name, config.options, address)
                provider.learned_rules = self.learned_rules.in_force
                slot = heapq.heappop(self._free_slots) if self._free_slots else next(self._new_slots)
                known = Endpoint(config, provider, address, self._credential_reader, self._fetch_token, slot)
                weakref.finalize(known, heapq.heappush, self._free_slots, slot)
                if self.table.endpoints:  # it joins others, and may have just started
                    known.load.cool_down()
                if is_node:  # it registers while it starts, and is tried last until a probe finds it ready
                    known.breaker.open_for(self._settings.node_expiry_s)
            endpoints[key] = known
        return endpoints[key]

    def _read_secret(self, name: str) -> str:
        """The secret that is stored under a name. Raises CredentialError."""
        encrypted = self.table.snapshot.credentials.get(name)
        if encrypted is None:
            raise credentials.CredentialError(
                f"No credential is stored under the name {name!r}: `narthex credentials set {name}` stores one."
            )
        return self.vault.decrypt(name, encrypted)

    async def _keep_discovering(self) -> None:
        while True:
            await asyncio.sleep(self._settings.discovery_interval_s)
            table = self.table
            names = _names_of(table.snapshot)
            if not names:
                continue
            discovered = await resolve_names(self.resolver, names, table.discovered)
            if discovered != table.discovered:
                prepared = await run_in_steps(functools.partial(self.prepare, table.snapshot, discovered))
                if self.table is table:  # else another configuration came meanwhile, whose names are resolved in the next round
                    self.swap(prepared)

    async def _fetch_token(self, request: httpx2.Request) -> tuple[int, bytes]:
        """Sends a credential's request for a token: status and body."""
        response = await send_probe(self.transport, request)
        return response.status, response.body


def _names_of(snapshot: Snapshot) -> list[str]:
    """The addresses of the configuration that are names to be resolved."""
    configured = [address for model in snapshot.models.values() for target in model.targets for address in target.endpoints]
    configured += [config.base_url for config in snapshot.providers.values() if config.base_url is not None]
    return [address for address in dict.fromkeys(configured) if is_name(address)]


def _weights_of(nodes: Sequence[Node]) -> Mapping[str, float]:
    """Returns weights by address, from the speeds that nodes report, which are numbers of any size.

    A node that reports none counts as the mean of the others.
    """
    speeds = [node.speed for node in nodes if node.speed]
    if not speeds:
        return {}
    mean = sum(speeds) / len(speeds)
    return {node.address: (node.speed or mean) / mean for node in nodes}


def _addresses(target: Target, config: ProviderConfig) -> tuple[str, ...]:
    if target.endpoints:
        return target.endpoints
    if config.base_url is not None and is_name(config.base_url):
        return (config.base_url,)
    address = catalogue.provider_url(config.adapter, target.provider, config.options, config.base_url)
    return (address,) if address else ()
