"""The fleet: every endpoint that a target may be served by, what it is, how loaded it is, and whether to leave it alone for now."""

import asyncio
import logging
import time
import traceback
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

import httpx

from app.domain import Plan, ProviderConfig, Snapshot, Target
from app.gateway.credentials.client import CredentialClient
from app.gateway.credentials.pool import CredentialPool
from app.settings import Settings
from app.store.vault import Vault
from providers import catalogue, credentials
from providers.adapters import probing
from providers.adapters.probing import ENGINE_PROBES, ProbeResponse, ProbeResult
from providers.adapters.provider import InvalidOption, Provider, server_root
from providers.canonical.errors import UpstreamError
from providers.credentials import Fetch
from providers.credentials.masking import SecretMask
from providers.credentials.references import SecretLookup
from providers.engines.versions import parse_version

log = logging.getLogger(__name__)

Health = Literal["unknown", "answers", "not_ready", "silent", "not_asked"]

_PROBE_TIMEOUT = {"connect": 2.0, "first": 5.0, "read": 5.0, "total": 10.0}
_PROBE_BYTES = 4 * 1024 * 1024
# Who is replaced without a pause, by another with the same models, is found out after so long.
_RECOGNITION_INTERVAL_S = 60.0
# For what was just told to an engine to show.
_REPROBE_WAIT_S = 3.0


class Endpoint:
    """One address of a provider. `dialects`: those spoken there, best first. `in_flight` and the breaker are this worker's own view.

    `found`: what probing found there; None: nothing yet. `learned`: when that was, by the monotonic clock; None: to be found anew.
    `answered_s`: when it last answered a probe, in Unix time.
    """

    def __init__(self, config: ProviderConfig, provider: Provider, base_url: str, stored: SecretLookup, fetch: Fetch) -> None:
        self.config = config
        self.credential_pool = CredentialPool(config.credentials, stored, fetch)
        self.provider = provider
        self.base_url = base_url
        self.dialects = provider.spoken_dialects
        self._dialects_by_model: dict[str, tuple[str, ...]] = {}
        self.in_flight = 0
        self.consecutive_failures = 0
        self.open_until = 0.0
        self.probe_result: ProbeResult | None = None
        self.learned_at: float | None = None
        self.answered_s: float | None = None
        self.health: Health = "unknown" if config.adapter in ENGINE_PROBES else "not_asked"

    def build_request(
        self,
        url: httpx.URL,
        body: bytes,
        method: str = "POST",
        timeout: Mapping[str, float] = _PROBE_TIMEOUT,
        credential_client: CredentialClient | None = None,
    ) -> httpx.Request:
        """A request beside the dialects, for which nobody waits long unless `timeout` says so. Raises credentials.NoCredential.

        `identity` None: the first of the gateway's own.
        """
        sender = credential_client or self._gateway_credential
        headers = sender.headers(self.provider) if sender else []
        return httpx.Request(method, url, headers=headers, content=body, extensions={"timeout": timeout})

    def dialects_for(self, model: str) -> tuple[str, ...]:
        """See Provider.spoken_for: found once, for each request wants it."""
        known = self._dialects_by_model.get(model)
        if known is None:
            known = self._dialects_by_model[model] = self.provider.spoken_dialects_for(model)
        return known

    def probe_request(self, path: str) -> httpx.Request:
        """With the credential, if it can be read: some engines tell of their models to those alone who may use them."""
        url = httpx.URL(server_root(self.base_url) + path)
        try:
            return self.build_request(url, b"", "GET")
        except credentials.CredentialError:
            return httpx.Request("GET", url, headers=[("user-agent", "narthex")], extensions={"timeout": _PROBE_TIMEOUT})

    def in_cooldown(self, now: float, model: str) -> bool:
        """Whether it is to be left alone: it failed lately, or none of its credentials has room for this model of its."""
        return self.open_until > now or self.credential_pool.in_cooldown(now, model)

    def reload_credential(self) -> bool:
        """After a refusal: see Identity.renew."""
        return self._gateway_credential is not None and self._gateway_credential.reload()

    def discard_templates(self) -> None:
        """How it was spoken to so far: it is another engine, or a credential was stored anew."""
        for credential_client in self.credential_pool.gateway_clients:
            credential_client.discard_templates()

    @property
    def secret_mask(self) -> SecretMask:
        """Of what is asked beside the road."""
        return self._gateway_credential.secret_mask if self._gateway_credential else SecretMask(())

    @property
    def _gateway_credential(self) -> CredentialClient | None:
        """That of what is asked beside the road; None: callers bring theirs."""
        return self.credential_pool.gateway_clients[0] if self.credential_pool.gateway_clients else None

    def apply_probe_result(self, probe_result: ProbeResult) -> None:
        """From now on it is spoken to as what it is, which may not be what it is configured as."""
        self.probe_result = probe_result
        self.learned_at = time.monotonic()
        version = parse_version(probe_result.version or "")
        adapter = probe_result.engine or self.config.adapter
        if adapter == "auto":  # it has answered, as none that we know: so it will be no other
            adapter = "openai"
        provider = self.provider if adapter == self.provider.name else self._build_provider(adapter)
        if version != provider.version:
            provider = provider.at_version(version)
        provider.lora_adapters = probe_result.lora_adapters
        if provider is not self.provider:
            self.provider, self.dialects = provider, provider.spoken_dialects
            self._dialects_by_model.clear()
            self.discard_templates()

    def _build_provider(self, adapter: str) -> Provider:
        name, options = self.provider.configured_as, self.config.options
        if adapter != self.config.adapter:
            known = catalogue.ADAPTERS[adapter].known_options
            # The version that is said there is another engine's.
            options = {key: value for key, value in options.items() if key in known and key != "version"}
            if self.config.adapter != "auto":
                log_fields = {"endpoint": self.base_url, "provider": name, "configured": self.config.adapter, "found": adapter}
                log.warning("an endpoint is not what it is configured as, and is served as what it is", extra=log_fields)
        try:
            return catalogue.build_provider(adapter, name, options, self.base_url)
        except InvalidOption as fault:
            log.warning("an endpoint cannot be served as what it is", extra={"endpoint": self.base_url, "fault": str(fault)})
            return catalogue.build_provider(self.config.adapter, name, self.config.options, self.base_url)


class Fleet:
    """Endpoints by provider and address. swap() keeps those that a new directory still has, with what is known of them."""

    def __init__(self, settings: Settings, transport: httpx.AsyncBaseTransport, vault: Vault | None = None) -> None:
        self._settings = settings
        self.transport = transport
        self.vault = Vault(()) if vault is None else vault
        self._encrypted: Mapping[str, str] = {}
        self._endpoints: Mapping[tuple[str, str], Endpoint] = {}
        self._endpoints_by_target: dict[tuple[str, tuple[str, ...]], tuple[Endpoint, ...]] = {}
        self._probe_loop: asyncio.Task[None] | None = None
        self._probe_tasks: dict[Endpoint, asyncio.Task[None]] = {}
        self._endpoints_changed = asyncio.Event()

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
                    self._endpoint(endpoints, target.provider, config, address) for address in _addresses(target, config)
                )
        self._endpoints, self._endpoints_by_target = endpoints, endpoints_by_target
        if changed or removed:
            for endpoint in endpoints.values():
                endpoint.credential_pool.reload_stored(changed, removed)
        self._endpoints_changed.set()

    def _read_secret(self, name: str) -> str:
        """The secret that is stored under a name. Raises NoCredential."""
        encrypted = self._encrypted.get(name)
        if encrypted is None:
            raise credentials.CredentialError(
                f"No credential is stored under the name {name!r}: `narthex credentials set {name}` stores one."
            )
        return self.vault.decrypt(name, encrypted)

    async def _fetch(self, request: httpx.Request) -> tuple[int, bytes]:
        response = await self._send(request)
        return response.status, response.body

    def _endpoint(self, endpoints: dict[tuple[str, str], Endpoint], name: str, config: ProviderConfig, address: str) -> Endpoint:
        key = name, address
        if key not in endpoints:
            known = self._endpoints.get(key)
            if known is None or known.config != config:
                provider = catalogue.build_provider(config.adapter, name, config.options, address)
                known = Endpoint(config, provider, address, self._read_secret, self._fetch)
            endpoints[key] = known
        return endpoints[key]

    def rank_endpoints(self, target: Target) -> list[Endpoint]:
        """The endpoints of a target, best first: those to be left alone last, then by what this worker has in flight there."""
        endpoints = self._endpoints_by_target.get((target.provider, target.endpoints), ())
        if len(endpoints) == 1:
            return list(endpoints)
        now = time.monotonic()
        return sorted(endpoints, key=lambda endpoint: (endpoint.in_cooldown(now, target.model), endpoint.in_flight))

    def rank_targets(self, plan: Plan) -> Iterable[tuple[Target, str]]:
        """A plan's targets, with the model that each is of: as planned, but for those whose endpoints are all to be left alone, last."""
        if len(plan.targets) == 1:
            return ((plan.targets[0], plan.names[0]),)
        now = time.monotonic()
        return sorted(zip(plan.targets, plan.names, strict=True), key=lambda each: self._in_cooldown(each[0], now))

    def _in_cooldown(self, target: Target, now: float) -> bool:
        endpoints = self._endpoints_by_target.get((target.provider, target.endpoints), ())
        return all(endpoint.in_cooldown(now, target.model) for endpoint in endpoints)

    @property
    def endpoints(self) -> Collection[Endpoint]:
        return self._endpoints.values()

    def endpoints_of(self, target: Target) -> Sequence[Endpoint]:
        """All endpoints of a target, in no order."""
        return self._endpoints_by_target.get((target.provider, target.endpoints), ())

    def record_success(self, endpoint: Endpoint) -> None:
        endpoint.consecutive_failures = 0

    def record_failure(self, endpoint: Endpoint, error: UpstreamError) -> None:
        if not error.counts_as_failure:
            endpoint.consecutive_failures = 0
            return
        endpoint.consecutive_failures += 1
        if endpoint.consecutive_failures >= self._settings.breaker_failures:
            endpoint.open_until = time.monotonic() + self._settings.breaker_open_s

    def start(self) -> None:
        self._probe_loop = asyncio.create_task(self._probe_all())

    def stop(self) -> None:
        for task in (self._probe_loop, *self._probe_tasks.values()):
            if task is not None:
                task.cancel()

    async def reprobe(self, endpoint: Endpoint) -> None:
        """At all that it tells, for it was told to do something; returns when this worker knows, or after a few seconds."""
        if endpoint.config.adapter not in ENGINE_PROBES:
            return
        if (running := self._probe_tasks.get(endpoint)) is not None:
            await asyncio.wait((running,), timeout=_REPROBE_WAIT_S)
        endpoint.learned_at = None
        await asyncio.wait((self._start_probe(endpoint),), timeout=_REPROBE_WAIT_S)

    async def _probe_all(self) -> None:
        while True:
            self._endpoints_changed.clear()
            for endpoint in self._endpoints.values():
                if endpoint.config.adapter in ENGINE_PROBES:
                    self._start_probe(endpoint)
            try:
                async with asyncio.timeout(self._settings.probe_interval_s):
                    await self._endpoints_changed.wait()
            except TimeoutError:
                pass

    def _start_probe(self, endpoint: Endpoint) -> asyncio.Task[None]:
        """Each by itself, and one at a time: that one is slow is no matter of the others'."""
        task = self._probe_tasks.get(endpoint)
        if task is None:
            task = self._probe_tasks[endpoint] = asyncio.create_task(self._probe_safely(endpoint))
            task.add_done_callback(lambda _: self._probe_tasks.pop(endpoint, None))
        return task

    async def _probe_safely(self, endpoint: Endpoint) -> None:
        try:
            await self._probe_endpoint(endpoint)
        except httpx.TransportError as fault:
            if endpoint.health != "silent":
                masked = endpoint.secret_mask.mask(repr(fault))
                log.warning("an endpoint does not answer", extra={"endpoint": endpoint.base_url, "fault": masked})
            self._mark_down(endpoint, "silent")
        except Exception:  # whatever it answered: it is to be asked again
            masked = endpoint.secret_mask.mask(traceback.format_exc())
            log.error("an endpoint's answer to its probe cannot be read", extra={"endpoint": endpoint.base_url, "traceback": masked})

    async def _probe_endpoint(self, endpoint: Endpoint) -> None:
        """Which models it has, what it is, where that may have changed, and whether it lives. Raises httpx.TransportError.

        The models first: what is cheap for one engine is a generation for another, and they say whether it is still the same one.
        """
        models = await self._get(endpoint, probing.MODELS_PATH)
        if models.status in (401, 403) and endpoint.reload_credential():
            models = await self._get(endpoint, probing.MODELS_PATH)
        endpoint.answered_s = time.time()
        responses = {probing.MODELS_PATH: models}
        # One that is starting, or what stands before it, says nothing about what it is.
        if models.status < 500 and self._needs_recognition(endpoint, models):
            endpoint.apply_probe_result(probing.identify_engine(await self._fetch_probe_responses(endpoint, responses)))
        probe_result = endpoint.probe_result
        path = (
            probing.MODELS_PATH if probe_result is None or probe_result.engine is None else ENGINE_PROBES[probe_result.engine].health_path
        )
        liveness = responses.get(path) or await self._get(endpoint, path)
        if probing.is_ready(liveness):
            endpoint.health = "answers"
            endpoint.open_until = 0.0
        else:
            self._mark_down(endpoint, "not_ready")

    def _needs_recognition(self, endpoint: Endpoint, models: ProbeResponse) -> bool:
        """At first, after a silence or a fault, once a minute, and when its models show that it is not the one that it was."""
        if endpoint.probe_result is None or endpoint.learned_at is None or endpoint.health == "silent" or endpoint.consecutive_failures:
            return True
        return time.monotonic() - endpoint.learned_at > _RECOGNITION_INTERVAL_S or probing.has_changed(endpoint.probe_result, models)

    async def _fetch_probe_responses(self, endpoint: Endpoint, responses: dict[str, ProbeResponse]) -> Mapping[str, ProbeResponse]:
        """All that recognise() wants to know."""
        while paths := [path for path in probing.next_paths(responses) if path not in responses]:
            fetched = await asyncio.gather(*(self._get_if_there(endpoint, path) for path in paths))
            responses.update(zip(paths, fetched, strict=True))
        return responses

    async def _get_if_there(self, endpoint: Endpoint, path: str) -> ProbeResponse:
        try:
            return await self._get(endpoint, path)
        except httpx.TransportError:
            return ProbeResponse(0, b"")

    async def _get(self, endpoint: Endpoint, path: str) -> ProbeResponse:
        return await self._send(endpoint.probe_request(path))

    async def _send(self, request: httpx.Request) -> ProbeResponse:
        response = await self.transport.handle_async_request(request)
        try:
            assert isinstance(response.stream, httpx.AsyncByteStream)
            body = b""
            async for block in response.stream:
                body += block
                if len(body) > _PROBE_BYTES:
                    return ProbeResponse(response.status_code, b"")
            return ProbeResponse(response.status_code, body)
        finally:
            await response.aclose()

    def _mark_down(self, endpoint: Endpoint, health: Health) -> None:
        endpoint.health = health
        endpoint.open_until = time.monotonic() + max(self._settings.breaker_open_s, 2 * self._settings.probe_interval_s)


def _addresses(target: Target, config: ProviderConfig) -> tuple[str, ...]:
    if target.endpoints:
        return target.endpoints
    address = catalogue.provider_url(config.adapter, target.provider, config.options, config.base_url)
    return (address,) if address else ()
