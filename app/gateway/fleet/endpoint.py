"""Endpoint: one address of a provider, and what this worker knows of it."""

import logging
import time
from collections.abc import Mapping
from typing import Literal

import httpx2

from app.domain.routing import ProviderConfig
from app.gateway.credentials.client import CredentialClient
from app.gateway.credentials.pool import CredentialPool
from app.gateway.fleet.breaker import Breaker
from app.gateway.fleet.busy_times import BusyTimes
from app.gateway.fleet.endpoint_load import EndpointLoad
from providers import catalogue, credentials
from providers.adapters.options import InvalidOption
from providers.adapters.probe import ProbeResult
from providers.adapters.provider import Provider
from providers.adapters.urls import server_root
from providers.catalogue import ENGINE_PROBES
from providers.credentials import Fetch
from providers.credentials.masking import SecretMask
from providers.credentials.references import CredentialReader
from providers.dialect_rule import ModelDialects
from providers.engines.versions import parse_version

log = logging.getLogger(__name__)

Health = Literal["unknown", "ready", "not_ready", "refused", "no_api", "unreachable", "not_probed"]
"""unknown: not probed yet. not_ready: it responds, but is loading, asleep or unhealthy. refused: it does not accept our credential, or
requires one. no_api: something responds, but has no such API. not_probed: a hosted provider."""

PROBE_TIMEOUT = {"connect": 2.0, "first": 5.0, "read": 5.0, "total": 10.0}


class Endpoint:
    """One address of a provider. `load`, `breaker` and `busy_times` are this worker's own view; other workers have theirs."""

    def __init__(
        self, config: ProviderConfig, provider: Provider, base_url: str, reader: CredentialReader, fetch: Fetch, slot: int = 0
    ) -> None:
        self.config = config
        self.slot = slot  # a small number that no other endpoint of this worker has now; its bit stands for the endpoint in sets
        self.credential_pool = CredentialPool(config.credentials, reader, fetch)
        self.provider = provider
        self.base_url = base_url
        self.dialects = provider.spoken_dialects  # spoken there, best first
        self._dialects_by_model: dict[str, ModelDialects] = {}
        self.load = EndpointLoad()
        self.breaker = Breaker()
        self.busy_times = BusyTimes()
        self.probe_result: ProbeResult | None = None  # what the last recognition found; None: nothing yet
        self.learned_at: float | None = None  # when it was recognised, by the monotonic clock; None: recognise it at the next probe
        self.metrics_missing_at: float | None = 0.0  # the same, of the recognition since which it has shown no metrics of its load
        self.answered_s: float | None = None  # when it last responded to a probe, in Unix time; None: never
        self.health: Health = "unknown" if self.is_probed else "not_probed"

    @property
    def is_probed(self) -> bool:
        """Whether the endpoint is probed, which only self-hosted engines are."""
        return self.config.adapter in ENGINE_PROBES

    @property
    def gets_trace(self) -> bool:
        """Whether requests to it carry `traceparent`: by its configuration, else if it is self-hosted."""
        if self.config.trace is not None:
            return self.config.trace
        return self.provider.is_self_hosted if self.provider.gets_trace is None else self.provider.gets_trace

    def dialects_for(self, model: str) -> ModelDialects:
        """Provider.spoken_dialects_for(model) and dialect_rule_for(model), cached: every request needs them."""
        cached = self._dialects_by_model.get(model)
        if cached is None:
            dialects = ModelDialects(self.provider.spoken_dialects_for(model), self.provider.dialect_rule_for(model))
            cached = self._dialects_by_model[model] = dialects
        return cached

    def in_cooldown(self, now: float, model: str, team_id: str | None = None) -> bool:
        """Whether to try it last: its breaker is open, it is busy, or no credential of ours has capacity for this model of the host.

        `team_id`: for whose request; None: for anybody's.
        """
        if self.breaker.is_open(now) or self.credential_pool.in_cooldown(now, model):
            return True
        return self.busy_times.left_s(model, now, team_id) > 0

    # Requests that are not inferences: probes, operations, aborts

    def build_request(
        self,
        url: httpx2.URL,
        body: bytes,
        method: str = "POST",
        timeout: Mapping[str, float] = PROBE_TIMEOUT,
        credential_client: CredentialClient | None = None,
    ) -> httpx2.Request:
        """A request that is not an inference (a probe, an operation, an abort). Raises credentials.CredentialError.

        Where `credential_client` is None, it is the first of the gateway's own credentials.
        """
        sender = credential_client or self._gateway_credential
        headers = sender.headers(self.provider) if sender else []
        return httpx2.Request(method, url, headers=headers, content=body, extensions={"timeout": timeout})

    def probe_request(self, path: str) -> httpx2.Request:
        """A GET with the credential, or without if it cannot be read: some engines list models only to those who may use them."""
        url = httpx2.URL(server_root(self.base_url) + path)
        try:
            return self.build_request(url, b"", "GET")
        except credentials.CredentialError:
            return httpx2.Request(
                "GET", url, headers=[("accept-encoding", "identity"), ("user-agent", "narthex")], extensions={"timeout": PROBE_TIMEOUT}
            )

    def empty_request(self) -> httpx2.Request:
        """A request of the API that the provider speaks there, without any content: whoever has that API refuses it in its own words."""
        url = self.provider.url(self.base_url, self.dialects[0], "", False)
        try:
            return self.build_request(httpx2.URL(url), b"{}")
        except credentials.CredentialError:
            headers = [("content-type", "application/json"), ("accept-encoding", "identity"), ("user-agent", "narthex")]
            return httpx2.Request("POST", url, headers=headers, content=b"{}", extensions={"timeout": PROBE_TIMEOUT})

    @property
    def is_for_callers_credentials(self) -> bool:
        """Whether only callers have a credential for it: what it answers to us then says nothing."""
        return not self.credential_pool.gateway_clients

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
    def has_own_credential(self) -> bool:
        """Whether requests that are not inferences carry a credential of the operator's."""
        return self._gateway_credential is not None and self._gateway_credential.reference is not None

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
        provider.lora_adapters, provider.image_support = probe_result.lora_adapters, probe_result.image_support
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
            provider = catalogue.build_provider(adapter, name, options, self.base_url)
        except InvalidOption as fault:
            log_fields = {"endpoint": self.base_url, "provider": name, "fault": str(fault)}
            log.warning("an endpoint cannot be served as the engine that was found", extra=log_fields)
            provider = catalogue.build_provider(self.config.adapter, name, self.config.options, self.base_url)
        provider.learned_rules = self.provider.learned_rules
        return provider
