"""Whether each configured endpoint answers, with the credential that is named, and has the models that targets name."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import httpx
import msgspec
from msgspec import Struct

from app.doctor.findings import Finding, Findings
from app.doctor.model_listing import AUTHENTICATED_LISTINGS
from app.domain import ProviderConfig, Snapshot, Target
from app.settings import BadSetting, Secrets, Settings
from app.store.vault import Vault
from app.supervisor import secret_key
from providers import catalogue, credentials
from providers.adapters.probing import MODELS_PATH, ProbeResponse, identify_engine
from providers.adapters.provider import InvalidOption, Provider, with_version_segment
from providers.canonical.raw_json import DECODE_ERRORS
from providers.credentials.references import SecretLookup, check_usable
from providers.transport.transport import Transport

_TIMEOUTS_S = {"connect": 2.0, "first": 4.0, "read": 4.0, "total": 5.0}
_TOTAL_TIMEOUT_S = 15.0
_MAX_CONCURRENT = 32
_MAX_BODY_BYTES = 4 * 1024 * 1024


class EndpointFacts(Struct, frozen=True):
    """What GET /v1/models of one endpoint gave. `status` None: no answer, and `fault` says why. `models` None: it did not list them.

    `loras`: the LoRA adapters among them; None: it does not tell them there.
    """

    provider: str
    address: str
    status: int | None
    models: frozenset[str] | None = None
    fault: str | None = None
    loras: frozenset[str] | None = None


class EngineFacts(Struct, frozen=True):
    """`unreadable`: by provider, why a credential of its cannot be read. `unasked`: endpoints for which no time was left.

    `brought`: providers that are asked with credentials of callers alone, which are not here.
    """

    endpoints: tuple[EndpointFacts, ...]
    unreadable_credentials: Mapping[str, str]
    unprobed: int = 0
    caller_credential_providers: frozenset[str] = frozenset()


class _EndpointProbe(NamedTuple):
    """What is asked of whom, and as whom."""

    provider: str
    config: ProviderConfig
    address: str
    secret: str | None


class _ModelEntry(Struct):
    id: str


class _ModelList(Struct):
    data: list[_ModelEntry]


async def collect_facts(snapshot: Snapshot, environ: Mapping[str, str], settings: Settings | None = None) -> EngineFacts:
    """`environ`: the gateway's, for that is where it looks for credentials. 5 s for each endpoint, 15 s for all."""
    settings = settings or Settings()
    stored = _stored_secrets(snapshot, _gateway_vault(environ, settings))
    unreadable_credentials: dict[str, str] = {}
    secrets: dict[str, str | None] = {}
    caller_credential_providers: set[str] = set()
    for name, config in snapshot.providers.items():
        references = [each for each in config.credentials if credentials.header_of(each) is None]
        if config.credentials and not references:
            caller_credential_providers.add(name)
        read: list[str | None] = []
        for reference in references:
            try:
                read.append(_read_secret(reference, environ, stored))
            except credentials.CredentialError as fault:
                unreadable_credentials[name] = f"{unreadable_credentials[name]} {fault}" if name in unreadable_credentials else str(fault)
        secrets[name] = next(iter(read), None)
    semaphore, deadline = asyncio.Semaphore(_MAX_CONCURRENT), asyncio.get_running_loop().time() + _TOTAL_TIMEOUT_S
    transport = Transport(proxy=settings.proxy, ca_bundle=settings.ca_bundle or None)
    try:
        probes = [
            _EndpointProbe(name, snapshot.providers[name], each, secrets.get(name)) for name, each in sorted(_served_endpoints(snapshot))
        ]
        endpoints = await asyncio.gather(*(_probe_in_time(transport, semaphore, deadline, each) for each in probes))
    finally:
        await transport.aclose()
    answered = tuple(each for each in endpoints if each is not None)
    return EngineFacts(answered, unreadable_credentials, len(endpoints) - len(answered), frozenset(caller_credential_providers))


def diagnose(facts: EngineFacts, snapshot: Snapshot) -> list[Finding]:
    findings = Findings("engines")
    for name, reason in facts.unreadable_credentials.items():
        findings.add_error(
            f"Provider {name}: {reason}", "Put it there; a variable must be in the environment in which the gateway is started."
        )
    for each in facts.endpoints:
        _diagnose_endpoint(each, facts, findings)
    _diagnose_models(facts, snapshot, findings)
    if facts.unprobed:
        findings.add_warning(
            f"There was no time to ask {facts.unprobed} endpoint(s): too many others are slow.", "Mend those first, and look again."
        )
    if not snapshot.providers:
        findings.add_warning("No provider is configured, so there is nothing to ask.", "`narthex apply` takes a file that names some.")
    elif not snapshot.models:
        findings.add_warning(
            "No model is configured: callers have no name to ask for.", "Add [models.NAME] to a file and `narthex apply` it."
        )
    number = len(facts.endpoints)
    return findings.finish(
        f"{'The one endpoint answers' if number == 1 else f'All {number} endpoints answer'}, and every model has a target that does."
    )


def _diagnose_models(facts: EngineFacts, snapshot: Snapshot, findings: Findings) -> None:
    silent = {(each.provider, each.address) for each in facts.endpoints if each.status is None}
    listed = {(each.provider, each.address): each.models for each in facts.endpoints if each.models is not None}
    loras = {(each.provider, each.address): each.loras for each in facts.endpoints if each.loras is not None}
    unserved: list[str] = []
    for name, model in snapshot.models.items():
        served = [(each, address) for each in model.targets for address in target_addresses(each, snapshot.providers[each.provider])]
        if served and all((target.provider, place) in silent for target, place in served):
            unserved.append(f"{name} (falls back to {', '.join(model.fallbacks)})" if model.fallbacks else name)
        for target, place in served:
            listed_models = listed.get((target.provider, place))
            if listed_models is not None and target.model not in listed_models:
                findings.add_warning(
                    f"Model {name}: {target.provider} on {place} does not list {target.model!r} among its models"
                    f" ({', '.join(sorted(listed_models)[:5]) or 'none'}{' ...' if len(listed_models) > 5 else ''}).",
                    "Name a model that it has, unless it serves some that it does not list.",
                )
            adapters = loras.get((target.provider, place))
            if target.lora is not None and adapters is not None and target.lora not in adapters:
                findings.add_warning(
                    f"Model {name}: {target.provider} on {place} has no LoRA adapter {target.lora!r}: callers of it are refused (404)."
                    f" It has: {', '.join(sorted(adapters)[:5]) or 'none'}{' ...' if len(adapters) > 5 else ''}.",
                    f"Load it (`narthex engines run {name} load_lora`, where the engine takes that), or name one that is there.",
                )
    if unserved:
        findings.add_error(
            f"No target answers of {'model' if len(unserved) == 1 else 'models'} {', '.join(unserved)}.",
            "Start the engines that serve them, or give them other targets.",
        )


def _diagnose_endpoint(endpoint: EndpointFacts, facts: EngineFacts, findings: Findings) -> None:
    subject = f"Provider {endpoint.provider} on {endpoint.address}"
    if endpoint.status is None:
        remote_advice = (
            f"May this machine reach it? `narthex providers test {endpoint.provider}` says more; a proxy is named by HTTPS_PROXY."
        )
        local_advice = "Is it running, and may this machine reach it?"
        findings.add_error(
            f"{subject} does not answer: {endpoint.fault}.", remote_advice if endpoint.address.startswith("https:") else local_advice
        )
    elif (
        endpoint.status in (401, 403, 407)
        and endpoint.provider not in facts.unreadable_credentials
        and endpoint.provider not in facts.caller_credential_providers
    ):
        findings.add_error(
            f"{subject} refuses our credential, or the want of one (status {endpoint.status}).",
            "Put a good one where the provider's `credential` says.",
        )
    elif endpoint.status >= 500:
        findings.add_warning(f"{subject} answers with status {endpoint.status}.", "See the engine's own log.")


def target_addresses(target: Target, config: ProviderConfig) -> tuple[str, ...]:
    """Where a target is served."""
    try:
        address = catalogue.provider_url(config.adapter, target.provider, config.options, config.base_url)
    except InvalidOption:
        address = config.base_url
    return target.endpoints or ((address,) if address else ())


def _served_endpoints(snapshot: Snapshot) -> set[tuple[str, str]]:
    """Those that some model is served by: a provider that nothing names is not asked."""
    return {
        (target.provider, address)
        for model in snapshot.models.values()
        for target in model.targets
        for address in target_addresses(target, snapshot.providers[target.provider])
    }


async def _probe_in_time(
    transport: Transport, semaphore: asyncio.Semaphore, deadline: float, probe: _EndpointProbe
) -> EndpointFacts | None:
    try:
        async with asyncio.timeout_at(deadline), semaphore:
            return await _probe_endpoint(transport, probe)
    except TimeoutError:
        return None


async def _probe_endpoint(transport: Transport, probe: _EndpointProbe) -> EndpointFacts:
    name, config, address, secret = probe
    try:
        provider = catalogue.build_provider(config.adapter, name, config.options, address)
        headers = [("user-agent", "narthex"), *provider.headers(secret)]
        request = httpx.Request("GET", _url(provider, address, secret), headers=headers, extensions={"timeout": _TIMEOUTS_S})
    except (InvalidOption, credentials.CredentialError, httpx.InvalidURL) as fault:
        return EndpointFacts(name, address, None, fault=str(fault).rstrip("."))
    try:
        response = await transport.handle_async_request(request)
        try:
            body = await _read_body(response)
        finally:
            await response.aclose()
    except httpx.TransportError as fault:
        return EndpointFacts(name, address, None, fault=str(fault) or type(fault).__name__)
    if response.status_code in (401, 403) and config.adapter not in AUTHENTICATED_LISTINGS:
        return EndpointFacts(name, address, 404)  # it has no such list, and may say so to nobody
    if response.status_code != 200:
        return EndpointFacts(name, address, response.status_code)
    loras = identify_engine({MODELS_PATH: ProbeResponse(200, body)}).lora_adapters
    return EndpointFacts(name, address, 200, _read_model_ids(body), loras=None if loras is None else frozenset(loras))


def _url(provider: Provider, address: str, secret: str | None) -> httpx.URL:
    """Where it lists its models; of a host that is found by model, region or project, where it answers at all. Raises NoCredential."""
    if not provider.model_in_url:
        return httpx.URL(f"{with_version_segment(address)}/models")
    return provider.complete_url(provider.url(address, provider.spoken_dialects[0], "model"), secret).copy_with(raw_path=b"/")


async def _read_body(response: httpx.Response) -> bytes:
    assert isinstance(response.stream, httpx.AsyncByteStream)
    body = b""
    async for block in response.stream:
        body += block
        if len(body) > _MAX_BODY_BYTES:
            break
    return body


def _read_model_ids(body: bytes) -> frozenset[str] | None:
    try:
        return frozenset(card.id for card in msgspec.json.decode(body, type=_ModelList).data)
    except DECODE_ERRORS:
        return None


def _read_secret(reference: str, environ: Mapping[str, str], stored: SecretLookup) -> str | None:
    """Raises credentials.NoCredential."""
    kind, _, name = reference.partition(":")
    if kind == "env" and environ.get(name):
        return check_usable(environ[name], f"the environment variable {name}")
    return credentials.read(reference, stored)


def _stored_secrets(snapshot: Snapshot, vault: Vault) -> SecretLookup:
    def read(name: str) -> str:
        if name not in snapshot.credentials:
            raise credentials.CredentialError(f"Nothing is stored under the name {name!r}: `narthex credentials set {name}` stores it.")
        return vault.decrypt(name, snapshot.credentials[name])

    return read


def _gateway_vault(environ: Mapping[str, str], settings: Settings) -> Vault:
    """With the keys of the gateway: those of its environment, or of its home. None that this user may read: it opens nothing."""
    try:
        return secret_key.open_vault(secret_key.resolve(replace(settings, secret_key=Secrets(environ.get("NARTHEX_SECRET_KEY", "")))))
    except (OSError, BadSetting):
        return Vault(())


def process_environment(pid: int | None) -> Mapping[str, str]:
    """A process's environment; this one's where it may not be read, or there is none."""
    if pid is not None:
        try:
            lines = Path(f"/proc/{pid}/environ").read_bytes().decode("utf-8", "surrogateescape").split("\0")
            return dict(line.split("=", 1) for line in lines if "=" in line)
        except OSError:
            pass
    return os.environ
