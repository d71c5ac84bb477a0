"""The fleet: every endpoint that a target may be served by."""

import heapq
import itertools
import weakref
from collections.abc import Collection

import httpx

from app.background_tasks import BackgroundTask
from app.domain import ProviderConfig, Snapshot, Target
from app.gateway.fleet.endpoint import Endpoint
from app.gateway.fleet.endpoint_choice import EndpointPool
from app.gateway.fleet.endpoint_table import EndpointTable, PoolKey, pool_key
from app.gateway.fleet.probe import Prober, send_probe
from app.settings import Settings
from app.store.vault import Vault
from app.thread_steps import in_steps
from providers import catalogue, credentials
from providers.canonical.errors import UpstreamError


class Fleet:
    """The endpoints in force (`table`), their credentials and their probes.

    A new snapshot is prepared, then swapped in: those endpoints that it still has are kept, with what is known of them. A request keeps to
    the table by which it was planned.
    """

    def __init__(self, settings: Settings, transport: httpx.AsyncBaseTransport, vault: Vault | None = None) -> None:
        self._settings = settings
        self.transport = transport
        self.vault = Vault(()) if vault is None else vault
        self._credential_reader = credentials.CredentialReader(self._read_secret, settings.folders_of_credentials)
        self.table = EndpointTable()
        self._retired: weakref.WeakSet[Endpoint] = weakref.WeakSet()  # those that requests in flight still have
        self._prober = Prober(settings, transport)
        self._new_slots, self._free_slots = itertools.count(), list[int]()

    def start(self) -> None:
        self._prober.start()

    def stop(self) -> None:
        self._prober.stop()

    @property
    def background_tasks(self) -> tuple[BackgroundTask, ...]:
        return (self._prober.rounds,)

    @property
    def endpoints(self) -> Collection[Endpoint]:
        return self.table.endpoints.values()

    def record_success(self, endpoint: Endpoint) -> None:
        endpoint.breaker.record_success()

    def record_failure(self, endpoint: Endpoint, error: UpstreamError) -> None:
        endpoint.breaker.record_failure(error, self._settings.breaker_failures, self._settings.breaker_open_s)

    async def reprobe(self, endpoint: Endpoint) -> None:
        """Recognises an endpoint anew after an operation changed it. Returns when that is done, or after a few seconds."""
        await self._prober.reprobe(endpoint)

    def apply_snapshot(self, snapshot: Snapshot) -> None:
        """prepare() and swap() in one: for what serves nobody meanwhile."""
        self.swap(self.prepare(snapshot))

    def prepare(self, snapshot: Snapshot) -> EndpointTable:
        """The endpoints of a snapshot, for swap(). In steps, in any thread."""
        known = self.table
        if snapshot.providers == known.snapshot.providers and snapshot.models == known.snapshot.models:
            return EndpointTable(snapshot, known.endpoints, known.pools, known.prefix_index)
        endpoints: dict[tuple[str, str], Endpoint] = {}
        pools: dict[PoolKey, EndpointPool] = {}
        for model in in_steps(snapshot.models.values()):
            for target in model.targets:
                config = snapshot.providers[target.provider]
                pools[pool_key(target)] = EndpointPool(
                    [self._keep_or_create(endpoints, target.provider, config, address) for address in _addresses(target, config)],
                    target.endpoint_weights,
                )
        return EndpointTable(snapshot, endpoints, pools, known.prefix_index)

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
            self._prober.watch(prepared.endpoints.values())

    def _keep_or_create(self, endpoints: dict[tuple[str, str], Endpoint], name: str, config: ProviderConfig, address: str) -> Endpoint:
        key = name, address
        if key not in endpoints:
            known = self.table.endpoints.get(key)
            if known is None or known.config != config:
                provider = catalogue.build_provider(config.adapter, name, config.options, address)
                slot = heapq.heappop(self._free_slots) if self._free_slots else next(self._new_slots)
                known = Endpoint(config, provider, address, self._credential_reader, self._fetch_token, slot)
                weakref.finalize(known, heapq.heappush, self._free_slots, slot)
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

    async def _fetch_token(self, request: httpx.Request) -> tuple[int, bytes]:
        """Sends a credential's request for a token: status and body."""
        response = await send_probe(self.transport, request)
        return response.status, response.body


def _addresses(target: Target, config: ProviderConfig) -> tuple[str, ...]:
    if target.endpoints:
        return target.endpoints
    address = catalogue.provider_url(config.adapter, target.provider, config.options, config.base_url)
    return (address,) if address else ()
