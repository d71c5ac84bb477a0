"""The fleet: every endpoint that a target may be served by."""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence

import httpx

from app.background_tasks import BackgroundTask
from app.domain import Plan, ProviderConfig, Snapshot, Target
from app.gateway.fleet import select
from app.gateway.fleet.endpoint import Endpoint
from app.gateway.fleet.probe import Prober, send_probe
from app.settings import Settings
from app.store.vault import Vault
from providers import catalogue, credentials
from providers.canonical.errors import UpstreamError
from providers.dialect import InboundRequest


class Fleet:
    """Endpoints by provider and address. apply_snapshot() keeps those that a new snapshot still has, with what is known of them."""

    def __init__(self, settings: Settings, transport: httpx.AsyncBaseTransport, vault: Vault | None = None) -> None:
        self._settings = settings
        self.transport = transport
        self.vault = Vault(()) if vault is None else vault
        self._encrypted: Mapping[str, str] = {}
        self._credential_reader = credentials.CredentialReader(self._read_secret, settings.folders_of_credentials)
        # The headers in which callers may send a credential of their own to some host.
        self.caller_credential_headers: frozenset[bytes] = frozenset()
        self._endpoints: Mapping[tuple[str, str], Endpoint] = {}
        self._endpoints_by_target: dict[tuple[str, tuple[str, ...]], tuple[Endpoint, ...]] = {}
        self._prober = Prober(settings, transport)

    def start(self) -> None:
        self._prober.start()

    def stop(self) -> None:
        self._prober.stop()

    @property
    def background_tasks(self) -> tuple[BackgroundTask, ...]:
        return (self._prober.rounds,)

    @property
    def endpoints(self) -> Collection[Endpoint]:
        return self._endpoints.values()

    def endpoints_of(self, target: Target) -> Sequence[Endpoint]:
        """All endpoints of a target, as configured. rank_endpoints() gives the order in which to try them."""
        return self._endpoints_by_target.get((target.provider, target.endpoints), ())

    def rank_endpoints(self, target: Target, request: InboundRequest | None = None) -> list[Endpoint]:
        """The endpoints of a target, best first: those in cooldown last, then by what this worker has in flight there.

        `request`: what is to be served; None: no inference (an operation). Reserved for prefix affinity (DESIGN.md part 9), which will
        prefer the endpoint that holds the prompt's prefix; today the order does not depend on it.
        """
        endpoints = self._endpoints_by_target.get((target.provider, target.endpoints), ())
        return select.rank_endpoints(endpoints, target.model, time.monotonic()) if len(endpoints) > 1 else list(endpoints)

    def rank_targets(self, plan: Plan) -> Iterable[tuple[Target, str]]:
        """See select.rank_targets()."""
        if len(plan.targets) == 1:
            return ((plan.targets[0], plan.names[0]),)
        return select.rank_targets(plan, self.endpoints_of, time.monotonic())

    def record_success(self, endpoint: Endpoint) -> None:
        endpoint.breaker.record_success()

    def record_failure(self, endpoint: Endpoint, error: UpstreamError) -> None:
        endpoint.breaker.record_failure(error, self._settings.breaker_failures, self._settings.breaker_open_s)

    async def reprobe(self, endpoint: Endpoint) -> None:
        """Recognises an endpoint anew after an operation changed it. Returns when that is done, or after a few seconds."""
        await self._prober.reprobe(endpoint)

    def apply_snapshot(self, snapshot: Snapshot) -> None:
        changed = {name for name, encrypted in snapshot.credentials.items() if self._encrypted.get(name) != encrypted}
        removed = self._encrypted.keys() - snapshot.credentials.keys()
        self._encrypted = snapshot.credentials
        endpoints: dict[tuple[str, str], Endpoint] = {}
        endpoints_by_target: dict[tuple[str, tuple[str, ...]], tuple[Endpoint, ...]] = {}
        for model in snapshot.models.values():
            for target in model.targets:
                config = snapshot.providers[target.provider]
                endpoints_by_target[target.provider, target.endpoints] = tuple(
                    self._keep_or_create(endpoints, target.provider, config, address) for address in _addresses(target, config)
                )
        self._endpoints, self._endpoints_by_target = endpoints, endpoints_by_target
        self.caller_credential_headers = frozenset(
            name.encode() for endpoint in endpoints.values() for name in endpoint.credential_pool.caller_header_names
        )
        if changed or removed:
            for endpoint in endpoints.values():
                endpoint.credential_pool.reload_stored(changed, removed)
        self._prober.watch(endpoints.values())

    def _keep_or_create(self, endpoints: dict[tuple[str, str], Endpoint], name: str, config: ProviderConfig, address: str) -> Endpoint:
        key = name, address
        if key not in endpoints:
            known = self._endpoints.get(key)
            if known is None or known.config != config:
                provider = catalogue.build_provider(config.adapter, name, config.options, address)
                known = Endpoint(config, provider, address, self._credential_reader, self._fetch_token)
            endpoints[key] = known
        return endpoints[key]

    def _read_secret(self, name: str) -> str:
        """The secret that is stored under a name. Raises CredentialError."""
        encrypted = self._encrypted.get(name)
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
