"""The fleet: every endpoint that a target may be served by, what it is, how loaded it is, and whether to leave it alone for now."""

import asyncio
import logging
import time
import traceback
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

import httpx

from app.domain import Directory, Plan, ProviderConfig, Target
from app.gateway.identities import Identities
from app.gateway.identity import Identity
from app.settings import Settings
from app.store.vault import Vault
from providers import catalogue, credentials, probing
from providers.credentials import Fetch
from providers.credentials.hiding import Hiding
from providers.credentials.references import Stored
from providers.engines.versions import read_numbers
from providers.errors import UpstreamError
from providers.probing import HABITS, Found, Told
from providers.provider import BadOption, Provider, server_root

log = logging.getLogger(__name__)

Health = Literal["unknown", "answers", "not_ready", "silent", "not_asked"]

_PROBE_TIMEOUT = {"connect": 2.0, "first": 5.0, "read": 5.0, "total": 10.0}
_PROBE_BYTES = 4 * 1024 * 1024
# Who is replaced without a pause, by another with the same models, is found out after so long.
_ANEW_S = 60.0
# For what was just told to an engine to show.
_LOOK_AGAIN_S = 3.0


class Endpoint:
    """One address of a provider. `dialects`: those spoken there, best first. `in_flight` and the breaker are this worker's own view.

    `found`: what probing found there; None: nothing yet. `learned`: when that was, by the monotonic clock; None: to be found anew.
    `answered_s`: when it last answered a probe, in Unix time.
    """

    def __init__(self, config: ProviderConfig, provider: Provider, base_url: str, stored: Stored, fetch: Fetch) -> None:
        self.config = config
        self.identities = Identities(config.credentials, stored, fetch)
        self.provider = provider
        self.base_url = base_url
        self.dialects = provider.spoken
        self._spoken: dict[str, tuple[str, ...]] = {}
        self.in_flight = 0
        self.faults = 0
        self.shut_until = 0.0
        self.found: Found | None = None
        self.learned: float | None = None
        self.answered_s: float | None = None
        self.health: Health = "unknown" if config.adapter in HABITS else "not_asked"

    def told(
        self,
        url: httpx.URL,
        body: bytes,
        method: str = "POST",
        timeout: Mapping[str, float] = _PROBE_TIMEOUT,
        identity: Identity | None = None,
    ) -> httpx.Request:
        """A request beside the dialects, for which nobody waits long unless `timeout` says so. Raises credentials.NoCredential.

        `identity` None: the first of the gateway's own.
        """
        speaks = identity or self._own
        headers = speaks.headers(self.provider) if speaks else []
        return httpx.Request(method, url, headers=headers, content=body, extensions={"timeout": timeout})

    def spoken_for(self, model: str) -> tuple[str, ...]:
        """See Provider.spoken_for: found once, for each request wants it."""
        known = self._spoken.get(model)
        if known is None:
            known = self._spoken[model] = self.provider.spoken_for(model)
        return known

    def probe(self, path: str) -> httpx.Request:
        """With the credential, if it can be read: some engines tell of their models to those alone who may use them."""
        url = httpx.URL(server_root(self.base_url) + path)
        try:
            return self.told(url, b"", "GET")
        except credentials.NoCredential:
            return httpx.Request("GET", url, headers=[("user-agent", "narthex")], extensions={"timeout": _PROBE_TIMEOUT})

    def rests(self, now: float, model: str) -> bool:
        """Whether it is to be left alone: it failed lately, or none of its credentials has room for this model of its."""
        return self.shut_until > now or self.identities.rest(now, model)

    def renew_credential(self) -> bool:
        """After a refusal: see Identity.renew."""
        return self._own is not None and self._own.renew()

    def forget(self) -> None:
        """How it was spoken to so far: it is another engine, or a credential was stored anew."""
        for identity in self.identities.kept:
            identity.forget()

    @property
    def hiding(self) -> Hiding:
        """Of what is asked beside the road."""
        return self._own.hiding if self._own else Hiding(())

    @property
    def _own(self) -> Identity | None:
        """That of what is asked beside the road; None: callers bring theirs."""
        return self.identities.kept[0] if self.identities.kept else None

    def learn(self, found: Found) -> None:
        """From now on it is spoken to as what it is, which may not be what it is configured as."""
        self.found = found
        self.learned = time.monotonic()
        version = read_numbers(found.version or "")
        adapter = found.engine or self.config.adapter
        if adapter == "auto":  # it has answered, as none that we know: so it will be no other
            adapter = "openai"
        provider = self.provider if adapter == self.provider.name else self._as(adapter)
        if version != provider.version:
            provider = provider.at_version(version)
        provider.loras = found.loras
        if provider is not self.provider:
            self.provider, self.dialects = provider, provider.spoken
            self._spoken.clear()
            self.forget()

    def _as(self, adapter: str) -> Provider:
        name, options = self.provider.configured_as, self.config.options
        if adapter != self.config.adapter:
            known = catalogue.ADAPTERS[adapter].known_options
            # The version that is said there is another engine's.
            options = {key: value for key, value in options.items() if key in known and key != "version"}
            if self.config.adapter != "auto":
                where = {"endpoint": self.base_url, "provider": name, "configured": self.config.adapter, "found": adapter}
                log.warning("an endpoint is not what it is configured as, and is served as what it is", extra=where)
        try:
            return catalogue.build(adapter, name, options, self.base_url)
        except BadOption as fault:
            log.warning("an endpoint cannot be served as what it is", extra={"endpoint": self.base_url, "fault": str(fault)})
            return catalogue.build(self.config.adapter, name, self.config.options, self.base_url)


class Fleet:
    """Endpoints by provider and address. swap() keeps those that a new directory still has, with what is known of them."""

    def __init__(self, settings: Settings, transport: httpx.AsyncBaseTransport, vault: Vault | None = None) -> None:
        self._settings = settings
        self.transport = transport
        self.vault = Vault(()) if vault is None else vault
        self._sealed: Mapping[str, str] = {}
        self._endpoints: Mapping[tuple[str, str], Endpoint] = {}
        self._of_target: dict[tuple[str, tuple[str, ...]], tuple[Endpoint, ...]] = {}
        self._probing: asyncio.Task[None] | None = None
        self._looking: dict[Endpoint, asyncio.Task[None]] = {}
        self._new = asyncio.Event()

    def swap(self, directory: Directory) -> None:
        stored_anew = {name for name, sealed in directory.credentials.items() if self._sealed.get(name) != sealed}
        gone = self._sealed.keys() - directory.credentials.keys()
        self._sealed = directory.credentials
        endpoints: dict[tuple[str, str], Endpoint] = {}
        of_target: dict[tuple[str, tuple[str, ...]], tuple[Endpoint, ...]] = {}
        for model in directory.models.values():
            for target in model.targets:
                config = directory.providers[target.provider]
                of_target[target.provider, target.endpoints] = tuple(
                    self._endpoint(endpoints, target.provider, config, address) for address in _addresses(target, config)
                )
        self._endpoints, self._of_target = endpoints, of_target
        if stored_anew or gone:
            for endpoint in endpoints.values():
                endpoint.identities.stored_anew(stored_anew, gone)
        self._new.set()

    def _stored(self, name: str) -> str:
        """The secret that is stored under a name. Raises NoCredential."""
        sealed = self._sealed.get(name)
        if sealed is None:
            raise credentials.NoCredential(f"No credential is stored under the name {name!r}: `narthex credentials set {name}` stores one.")
        return self.vault.open(name, sealed)

    async def _fetch(self, request: httpx.Request) -> tuple[int, bytes]:
        told = await self._send(request)
        return told.status, told.body

    def _endpoint(self, endpoints: dict[tuple[str, str], Endpoint], name: str, config: ProviderConfig, address: str) -> Endpoint:
        key = name, address
        if key not in endpoints:
            known = self._endpoints.get(key)
            if known is None or known.config != config:
                provider = catalogue.build(config.adapter, name, config.options, address)
                known = Endpoint(config, provider, address, self._stored, self._fetch)
            endpoints[key] = known
        return endpoints[key]

    def choose(self, target: Target) -> list[Endpoint]:
        """The endpoints of a target, best first: those to be left alone last, then by what this worker has in flight there."""
        endpoints = self._of_target.get((target.provider, target.endpoints), ())
        if len(endpoints) == 1:
            return list(endpoints)
        now = time.monotonic()
        return sorted(endpoints, key=lambda endpoint: (endpoint.rests(now, target.model), endpoint.in_flight))

    def in_order(self, plan: Plan) -> Iterable[tuple[Target, str]]:
        """A plan's targets, with the model that each is of: as planned, but for those whose endpoints are all to be left alone, last."""
        if len(plan.targets) == 1:
            return ((plan.targets[0], plan.names[0]),)
        now = time.monotonic()
        return sorted(zip(plan.targets, plan.names, strict=True), key=lambda each: self._rests(each[0], now))

    def _rests(self, target: Target, now: float) -> bool:
        endpoints = self._of_target.get((target.provider, target.endpoints), ())
        return all(endpoint.rests(now, target.model) for endpoint in endpoints)

    @property
    def endpoints(self) -> Collection[Endpoint]:
        return self._endpoints.values()

    def of(self, target: Target) -> Sequence[Endpoint]:
        """All endpoints of a target, in no order."""
        return self._of_target.get((target.provider, target.endpoints), ())

    def praise(self, endpoint: Endpoint) -> None:
        endpoint.faults = 0

    def blame(self, endpoint: Endpoint, error: UpstreamError) -> None:
        if not error.fault:
            endpoint.faults = 0
            return
        endpoint.faults += 1
        if endpoint.faults >= self._settings.breaker_failures:
            endpoint.shut_until = time.monotonic() + self._settings.breaker_open_s

    def start(self) -> None:
        self._probing = asyncio.create_task(self._probe_all())

    def stop(self) -> None:
        for task in (self._probing, *self._looking.values()):
            if task is not None:
                task.cancel()

    async def look_again(self, endpoint: Endpoint) -> None:
        """At all that it tells, for it was told to do something; returns when this worker knows, or after a few seconds."""
        if endpoint.config.adapter not in HABITS:
            return
        if (before := self._looking.get(endpoint)) is not None:
            await asyncio.wait((before,), timeout=_LOOK_AGAIN_S)
        endpoint.learned = None
        await asyncio.wait((self._probe(endpoint),), timeout=_LOOK_AGAIN_S)

    async def _probe_all(self) -> None:
        while True:
            self._new.clear()
            for endpoint in self._endpoints.values():
                if endpoint.config.adapter in HABITS:
                    self._probe(endpoint)
            try:
                async with asyncio.timeout(self._settings.probe_interval_s):
                    await self._new.wait()
            except TimeoutError:
                pass

    def _probe(self, endpoint: Endpoint) -> asyncio.Task[None]:
        """Each by itself, and one at a time: that one is slow is no matter of the others'."""
        task = self._looking.get(endpoint)
        if task is None:
            task = self._looking[endpoint] = asyncio.create_task(self._look_safely(endpoint))
            task.add_done_callback(lambda _: self._looking.pop(endpoint, None))
        return task

    async def _look_safely(self, endpoint: Endpoint) -> None:
        try:
            await self._look(endpoint)
        except httpx.TransportError as fault:
            if endpoint.health != "silent":
                told = endpoint.hiding.hide(repr(fault))
                log.warning("an endpoint does not answer", extra={"endpoint": endpoint.base_url, "fault": told})
            self._shut(endpoint, "silent")
        except Exception:  # whatever it answered: it is to be asked again
            told = endpoint.hiding.hide(traceback.format_exc())
            log.error("an endpoint's answer to its probe cannot be read", extra={"endpoint": endpoint.base_url, "traceback": told})

    async def _look(self, endpoint: Endpoint) -> None:
        """Which models it has, what it is, where that may have changed, and whether it lives. Raises httpx.TransportError.

        The models first: what is cheap for one engine is a generation for another, and they say whether it is still the same one.
        """
        models = await self._get(endpoint, probing.MODELS)
        if models.status in (401, 403) and endpoint.renew_credential():
            models = await self._get(endpoint, probing.MODELS)
        endpoint.answered_s = time.time()
        told = {probing.MODELS: models}
        # One that is starting, or what stands before it, says nothing about what it is.
        if models.status < 500 and self._is_to_learn(endpoint, models):
            endpoint.learn(probing.recognise(await self._told(endpoint, told)))
        found = endpoint.found
        path = probing.MODELS if found is None or found.engine is None else HABITS[found.engine].alive
        alive = told.get(path) or await self._get(endpoint, path)
        if probing.is_ready(alive):
            endpoint.health = "answers"
            endpoint.shut_until = 0.0
        else:
            self._shut(endpoint, "not_ready")

    def _is_to_learn(self, endpoint: Endpoint, models: Told) -> bool:
        """At first, after a silence or a fault, once a minute, and when its models show that it is not the one that it was."""
        if endpoint.found is None or endpoint.learned is None or endpoint.health == "silent" or endpoint.faults:
            return True
        return time.monotonic() - endpoint.learned > _ANEW_S or probing.is_other(endpoint.found, models)

    async def _told(self, endpoint: Endpoint, told: dict[str, Told]) -> Mapping[str, Told]:
        """All that recognise() wants to know."""
        while paths := [path for path in probing.paths(told) if path not in told]:
            answers = await asyncio.gather(*(self._get_if_there(endpoint, path) for path in paths))
            told.update(zip(paths, answers, strict=True))
        return told

    async def _get_if_there(self, endpoint: Endpoint, path: str) -> Told:
        try:
            return await self._get(endpoint, path)
        except httpx.TransportError:
            return Told(0, b"")

    async def _get(self, endpoint: Endpoint, path: str) -> Told:
        return await self._send(endpoint.probe(path))

    async def _send(self, request: httpx.Request) -> Told:
        response = await self.transport.handle_async_request(request)
        try:
            assert isinstance(response.stream, httpx.AsyncByteStream)
            body = b""
            async for block in response.stream:
                body += block
                if len(body) > _PROBE_BYTES:
                    return Told(response.status_code, b"")
            return Told(response.status_code, body)
        finally:
            await response.aclose()

    def _shut(self, endpoint: Endpoint, health: Health) -> None:
        endpoint.health = health
        endpoint.shut_until = time.monotonic() + max(self._settings.breaker_open_s, 2 * self._settings.probe_interval_s)


def _addresses(target: Target, config: ProviderConfig) -> tuple[str, ...]:
    if target.endpoints:
        return target.endpoints
    address = catalogue.address(config.adapter, target.provider, config.options, config.base_url)
    return (address,) if address else ()
