"""The fleet: every endpoint that a target may be served by, what it is, how loaded it is, and whether to leave it alone for now."""

import asyncio
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import httpx

from app.domain import Directory, ProviderConfig, Target
from app.settings import Settings
from providers import catalogue, credentials, probing
from providers.engines.versions import read_numbers
from providers.errors import UpstreamError
from providers.h1 import Standing
from providers.probing import HABITS, Found, Told
from providers.provider import BadOption, Provider, server_root

log = logging.getLogger(__name__)

Header = tuple[bytes, bytes]


Health = Literal["unknown", "answers", "not_ready", "silent", "not_asked"]

_PROBE_TIMEOUT = {"connect": 2.0, "first": 5.0, "read": 5.0, "total": 10.0}
_PROBE_BYTES = 4 * 1024 * 1024
# Who is replaced without a pause, by another with the same models, is found out after so long.
_ANEW_S = 60.0
# For what was just told to an engine to show.
_LOOK_AGAIN_S = 3.0

# Requests like the last are made from it; of headers that callers choose there may be as many as callers please.
_MOST_LINES = 64


class Line:
    """Where one dialect is spoken at an endpoint, as whom, and a request of that kind to copy."""

    def __init__(self, url: httpx.URL, headers: list[Header]) -> None:
        self.standing = Standing(url, headers)
        self.like = vars(httpx.Request("POST", url, headers=headers, stream=httpx.ByteStream(b"")))


class Endpoint:
    """One address of a provider. `dialects`: those spoken there, best first. `in_flight` and the breaker are this worker's own view.

    `found`: what probing found there; None: nothing yet. `learned`: when that was, by the monotonic clock; None: to be found anew.
    `answered_s`: when it last answered a probe, in Unix time.
    """

    def __init__(self, config: ProviderConfig, provider: Provider, base_url: str) -> None:
        self.config = config
        self.provider = provider
        self.base_url = base_url
        self.dialects = provider.spoken
        self.in_flight = 0
        self.faults = 0
        self.shut_until = 0.0
        self.found: Found | None = None
        self.learned: float | None = None
        self.answered_s: float | None = None
        self.health: Health = "unknown" if config.adapter in HABITS else "not_asked"
        self._headers: list[Header] | None = None
        self._lines: dict[tuple[str, bytes], Line] = {}

    def request(self, dialect: str, body: bytes, timeout: Mapping[str, float], betas: bytes = b"") -> httpx.Request:
        """A request with this body. `betas`: the caller's own `anthropic-beta`.

        Raises credentials.NoCredential if the one that is configured is not there.
        """
        line = self._lines.get((dialect, betas))
        if line is None:
            line = self._line(dialect, betas)
        # As one that was made already, but for the body: to make it anew, its URL and headers parsed again, would take three times as long.
        request = object.__new__(httpx.Request)
        request.__dict__.update(line.like)
        request.stream = httpx.ByteStream(body)
        request.extensions = {"standing": line.standing, "timeout": timeout}
        return request

    def told(self, url: httpx.URL, body: bytes, method: str = "POST", timeout: Mapping[str, float] = _PROBE_TIMEOUT) -> httpx.Request:
        """A request beside the dialects, for which nobody waits long unless `timeout` says so. Raises credentials.NoCredential."""
        if self._headers is None:
            self._headers = self._signed()
        return httpx.Request(method, url, headers=self._headers, content=body, extensions={"timeout": timeout})

    def probe(self, path: str) -> httpx.Request:
        """With the credential, if it can be read: some engines tell of their models to those alone who may use them."""
        url = httpx.URL(server_root(self.base_url) + path)
        try:
            return self.told(url, b"", "GET")
        except credentials.NoCredential:
            return httpx.Request("GET", url, headers=[("user-agent", "narthex")], extensions={"timeout": _PROBE_TIMEOUT})

    def renew_credential(self) -> bool:
        """After a refusal: whether another one lies now where it is kept, with which the next request goes.

        If none does, what is under way can still be stopped with the one that it went with.
        """
        try:
            headers = self._signed()
        except credentials.NoCredential:
            return False
        if headers == self._headers:
            return False
        self._headers = headers
        self._lines.clear()
        return True

    def _line(self, dialect: str, betas: bytes) -> Line:
        if self._headers is None:
            self._headers = self._signed()
        if len(self._lines) >= _MOST_LINES:
            self._lines.clear()
        headers = [*self._headers, (b"anthropic-beta", betas)] if betas else self._headers
        line = self._lines[dialect, betas] = Line(self.provider.url(self.base_url, dialect), headers)
        return line

    def _signed(self) -> list[Header]:
        secret = credentials.read(self.config.credential)
        ours = {"content-type": "application/json", "accept": "application/json, text/event-stream", "user-agent": "narthex"}
        return [(name.encode("ascii"), value.encode("ascii")) for name, value in [*ours.items(), *self.provider.headers(secret)]]

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
            self._lines.clear()

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

    def __init__(self, settings: Settings, transport: httpx.AsyncBaseTransport) -> None:
        self._settings = settings
        self.transport = transport
        self._endpoints: Mapping[tuple[str, str], Endpoint] = {}
        self._of_target: dict[tuple[str, tuple[str, ...]], tuple[Endpoint, ...]] = {}
        self._probing: asyncio.Task[None] | None = None
        self._looking: dict[Endpoint, asyncio.Task[None]] = {}
        self._new = asyncio.Event()

    def swap(self, directory: Directory) -> None:
        endpoints: dict[tuple[str, str], Endpoint] = {}
        of_target: dict[tuple[str, tuple[str, ...]], tuple[Endpoint, ...]] = {}
        for model in directory.models.values():
            for target in model.targets:
                config = directory.providers[target.provider]
                of_target[target.provider, target.endpoints] = tuple(
                    self._endpoint(endpoints, target.provider, config, address) for address in _addresses(target, config)
                )
        self._endpoints, self._of_target = endpoints, of_target
        self._new.set()

    def _endpoint(self, endpoints: dict[tuple[str, str], Endpoint], name: str, config: ProviderConfig, address: str) -> Endpoint:
        key = name, address
        if key not in endpoints:
            known = self._endpoints.get(key)
            if known is None or known.config != config:
                known = Endpoint(config, catalogue.build(config.adapter, name, config.options, address), address)
            endpoints[key] = known
        return endpoints[key]

    def choose(self, target: Target) -> list[Endpoint]:
        """The endpoints of a target, best first: open breakers last, then by what this worker has in flight there."""
        endpoints = self._of_target.get((target.provider, target.endpoints), ())
        if len(endpoints) == 1:
            return list(endpoints)
        now = time.monotonic()
        return sorted(endpoints, key=lambda endpoint: (endpoint.shut_until > now, endpoint.in_flight))

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
                log.warning("an endpoint does not answer", extra={"endpoint": endpoint.base_url, "fault": repr(fault)})
            self._shut(endpoint, "silent")
        except Exception:  # whatever it answered: it is to be asked again
            log.exception("an endpoint's answer to its probe cannot be read", extra={"endpoint": endpoint.base_url})

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
        response = await self.transport.handle_async_request(endpoint.probe(path))
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
    default = catalogue.ADAPTERS[config.adapter].default_base_url
    address = config.base_url or default
    return (address,) if address else ()
