"""The fleet: every endpoint that a target may be served by, what it is, how loaded it is, and whether to leave it alone for now."""

import asyncio
import logging
import time
from collections.abc import Mapping

import httpx

from app.domain import Directory, ProviderConfig, Target
from app.settings import Settings
from providers import catalogue, credentials
from providers.errors import UpstreamError
from providers.h1 import Standing
from providers.provider import Provider, server_root

log = logging.getLogger(__name__)

Header = tuple[bytes, bytes]


# Requests like the last are made from it; of headers that callers choose there may be as many as callers please.
_MOST_LINES = 64


class Line:
    """Where one dialect is spoken at an endpoint, as whom, and a request of that kind to copy."""

    def __init__(self, url: httpx.URL, headers: list[Header]) -> None:
        self.standing = Standing(url, headers)
        self.like = vars(httpx.Request("POST", url, headers=headers, stream=httpx.ByteStream(b"")))


class Endpoint:
    """One address of a provider. `dialects`: those spoken there, best first. `in_flight` and the breaker are this worker's own view."""

    def __init__(self, config: ProviderConfig, provider: Provider, base_url: str) -> None:
        self.config = config
        self.provider = provider
        self.base_url = base_url
        self.dialects = provider.spoken
        self.in_flight = 0
        self.faults = 0
        self.shut_until = 0.0
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

    def told(self, url: httpx.URL, body: bytes) -> httpx.Request:
        """A request beside the dialects, by POST, for which nobody waits long. Raises credentials.NoCredential."""
        if self._headers is None:
            self._headers = self._signed()
        timeout = {"connect": 2.0, "first": 5.0, "read": 5.0, "total": 10.0}
        return httpx.Request("POST", url, headers=self._headers, content=body, extensions={"timeout": timeout})

    def renew_credential(self) -> bool:
        """After a refusal: whether another one lies now where it is kept. The next request goes with what is there."""
        refused, self._headers = self._headers, None
        self._lines.clear()
        try:
            self._headers = self._signed()
        except credentials.NoCredential:
            return False
        return self._headers != refused

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

    def learn(self, version: tuple[int, ...] | None) -> None:
        if version is not None and version != self.provider.version:
            self.provider = self.provider.at_version(version)
            self.dialects = self.provider.spoken


class Fleet:
    """Endpoints by provider and address. swap() keeps those that a new directory still has, with what is known of them."""

    def __init__(self, settings: Settings, transport: httpx.AsyncBaseTransport) -> None:
        self._settings = settings
        self._transport = transport
        self._endpoints: Mapping[tuple[str, str], Endpoint] = {}
        self._of_target: dict[tuple[str, tuple[str, ...]], tuple[Endpoint, ...]] = {}
        self._probing: asyncio.Task[None] | None = None
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
        if self._probing is not None:
            self._probing.cancel()

    async def _probe_all(self) -> None:
        while True:
            self._new.clear()
            asked = [endpoint for endpoint in self._endpoints.values() if endpoint.provider.probe_path is not None]
            await asyncio.gather(*(self._probe(endpoint) for endpoint in asked))
            try:
                async with asyncio.timeout(self._settings.probe_interval_s):
                    await self._new.wait()
            except TimeoutError:
                pass

    async def _probe(self, endpoint: Endpoint) -> None:
        """An answer closes the breaker and may tell a version; silence opens it, so that no request has to find out."""
        try:
            await self._ask(endpoint)
        except Exception:  # whatever it answered: the others are to be asked again
            log.exception("an endpoint's answer to its probe cannot be read", extra={"endpoint": endpoint.base_url})

    async def _ask(self, endpoint: Endpoint) -> None:
        path = endpoint.provider.probe_path or "/"
        request = httpx.Request(
            "GET",
            server_root(endpoint.base_url) + path,
            headers=[("user-agent", "narthex")],
            extensions={"timeout": {"connect": 2.0, "first": 5.0, "read": 5.0, "total": 10.0}},
        )
        try:
            response = await self._transport.handle_async_request(request)
            try:
                body = await response.aread()
            finally:
                await response.aclose()
        except httpx.TransportError as fault:
            if endpoint.shut_until == 0.0:
                log.warning("an endpoint does not answer", extra={"endpoint": endpoint.base_url, "fault": repr(fault)})
            endpoint.shut_until = time.monotonic() + max(self._settings.breaker_open_s, 2 * self._settings.probe_interval_s)
            return
        endpoint.shut_until = 0.0
        if response.status_code == 200:
            endpoint.learn(endpoint.provider.read_version(body))


def _addresses(target: Target, config: ProviderConfig) -> tuple[str, ...]:
    if target.endpoints:
        return target.endpoints
    default = catalogue.ADAPTERS[config.adapter].default_base_url
    address = config.base_url or default
    return (address,) if address else ()
