"""Endpoint: one address of a provider, and what this worker knows of it."""

import logging
import time
from collections.abc import Mapping
from typing import Literal

import httpx

from app.domain import ProviderConfig
from app.gateway.credentials.client import CredentialClient
from app.gateway.credentials.pool import CredentialPool
from app.gateway.fleet.breaker import Breaker
from app.gateway.fleet.endpoint_load import EndpointLoad
from providers import catalogue, credentials
from providers.adapters.probe import ProbeResult
from providers.adapters.provider import InvalidOption, Provider
from providers.adapters.urls import server_root
from providers.catalogue import ENGINE_PROBES
from providers.credentials import Fetch
from providers.credentials.masking import SecretMask
from providers.credentials.references import CredentialReader
from providers.engines.versions import parse_version

log = logging.getLogger(__name__)

Health = Literal["unknown", "ready", "not_ready", "unreachable", "not_probed"]
"""unknown: not probed yet. not_ready: it responds, but is loading, asleep or unhealthy. not_probed: a hosted provider."""

PROBE_TIMEOUT = {"connect": 2.0, "first": 5.0, "read": 5.0, "total": 10.0}


class Endpoint:
    """One address of a provider. `load` and `breaker` are this worker's own view; other workers have theirs.

    `slot`: a small number that no other endpoint of this worker has now; its bit stands for the endpoint in sets.
    `dialects`: spoken there, best first. `probe_result`: what the last recognition found; None: nothing yet.
    `learned_at`: when it was recognised, by the monotonic clock; None: recognise it at the next probe. `metrics_missing_at`: the same, of
    the recognition since which it has shown no metrics of its load.
    `answered_s`: when it last responded to a probe, in Unix time; None: never.
    """

    def __init__(
        self, config: ProviderConfig, provider: Provider, base_url: str, reader: CredentialReader, fetch: Fetch, slot: int = 0
    ) -> None:
        self.config = config
        self.slot = slot
        self.credential_pool = CredentialPool(config.credentials, reader, fetch)
        self.provider = provider
        self.base_url = base_url
        self.dialects = provider.spoken_dialects
        self._dialects_by_model: dict[str, tuple[str, ...]] = {}
        self.load = EndpointLoad()
        self.breaker = Breaker()
        self.probe_result: ProbeResult | None = None
        self.learned_at: float | None = None
        self.metrics_missing_at: float | None = 0.0
        self.answered_s: float | None = None
        self.health: Health = "unknown" if self.is_probed else "not_probed"

    @property
    def is_probed(self) -> bool:
        """Only self-hosted engines are probed."""
        return self.config.adapter in ENGINE_PROBES

    @property
    def gets_trace(self) -> bool:
        """Whether requests to it carry `traceparent`: by its configuration, else if it is self-hosted."""
        if self.config.trace is not None:
            return self.config.trace
        return self.provider.is_self_hosted if self.provider.gets_trace is None else self.provider.gets_trace

    def dialects_for(self, model: str) -> tuple[str, ...]:
        """Provider.spoken_dialects_for(model), cached: every request needs it."""
        cached = self._dialects_by_model.get(model)
        if cached is None:
            cached = self._dialects_by_model[model] = self.provider.spoken_dialects_for(model)
        return cached

    def in_cooldown(self, now: float, model: str) -> bool:
        """Whether to try it last: its breaker is open, or no credential of the gateway has capacity for this model of the host."""
        return self.breaker.is_open(now) or self.credential_pool.in_cooldown(now, model)

    # Requests that are not inferences: probes, operations, aborts

    def build_request(
        self,
        url: httpx.URL,
        body: bytes,
        method: str = "POST",
        timeout: Mapping[str, float] = PROBE_TIMEOUT,
        credential_client: CredentialClient | None = None,
    ) -> httpx.Request:
        """A request that is not an inference (a probe, an operation, an abort). Raises credentials.CredentialError.

        `credential_client` None: the first of the gateway's own credentials.
        """
        sender = credential_client or self._gateway_credential
        headers = sender.headers(self.provider) if sender else []
        return httpx.Request(method, url, headers=headers, content=body, extensions={"timeout": timeout})

    def probe_request(self, path: str) -> httpx.Request:
        """A GET with the credential, or without if it cannot be read: some engines list models only to those who may use them."""
        url = httpx.URL(server_root(self.base_url) + path)
        try:
            return self.build_request(url, b"", "GET")
        except credentials.CredentialError:
            return httpx.Request(
                "GET", url, headers=[("accept-encoding", "identity"), ("user-agent", "narthex")], extensions={"timeout": PROBE_TIMEOUT}
            )

    def reload_credential(self) -> bool:
        """Reads the credential again after it was refused. See CredentialClient.reload."""
        return self._gateway_credential is not None and self._gateway_credential.reload()

    def discard_templates(self) -> None:
        """Forgets prepared requests: another engine runs here now, or a credential changed."""
        for credential_client in self.credential_pool.gateway_clients:
            credential_client.discard_templates()

    @property
    def secret_mask(self) -> SecretMask:
        """Masks the secrets of requests that are not inferences."""
        return self._gateway_credential.secret_mask if self._gateway_credential else SecretMask(())

    @property
    def _gateway_credential(self) -> CredentialClient | None:
        """The credential for requests that are not inferences; None: callers bring theirs."""
        return self.credential_pool.gateway_clients[0] if self.credential_pool.gateway_clients else None

    # What probing found

    def apply_probe_result(self, probe_result: ProbeResult) -> None:
        """Serves the endpoint as the engine that was found, even if the configuration names another."""
        self.probe_result = probe_result
        self.learned_at = time.monotonic()
        version = parse_version(probe_result.version or "")
        adapter = probe_result.engine or self.config.adapter
        if adapter == "auto":  # it responded as no engine that we know, so it stays a plain OpenAI-compatible one
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
            # A configured version is that of the configured engine, which is not the one found.
            options = {key: value for key, value in options.items() if key in known and key != "version"}
            if self.config.adapter != "auto":
                log_fields = {"endpoint": self.base_url, "provider": name, "configured": self.config.adapter, "found": adapter}
                log.warning("an endpoint runs another engine than configured, and is served as the one found", extra=log_fields)
        try:
            return catalogue.build_provider(adapter, name, options, self.base_url)
        except InvalidOption as fault:
            log_fields = {"endpoint": self.base_url, "provider": name, "fault": str(fault)}
            log.warning("an endpoint cannot be served as the engine that was found", extra=log_fields)
            return catalogue.build_provider(self.config.adapter, name, self.config.options, self.base_url)
