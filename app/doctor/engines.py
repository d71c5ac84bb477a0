"""Whether each configured endpoint answers, accepts its credential, and has the models that targets name."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from msgspec import Struct

from app.doctor.endpoint_probe import EndpointFacts, EndpointProbe, probe_endpoint
from app.doctor.findings import Finding, Findings
from app.domain.routing import ProviderConfig, Target
from app.domain.snapshot import Snapshot
from app.settings import BadSetting, Folders, Secrets, Settings
from app.store.postgres.vault import Vault
from app.supervisor.machine import secret_key
from providers import catalogue, credentials
from providers.adapters.options import InvalidOption
from providers.credentials.references import CredentialReader, SecretLookup
from providers.transport.transport import Transport

_TOTAL_TIMEOUT_S = 15.0
_MAX_CONCURRENT = 32


class EngineFacts(Struct, frozen=True):
    """The facts about engines, and about the credentials for them, that findings are made of."""

    endpoints: tuple[EndpointFacts, ...]
    unreadable_credentials: Mapping[str, str]  # by provider, why a credential cannot be read
    unprobed: int = 0  # endpoints for which no time was left
    # providers that use only the credentials that callers send, which the doctor does not have
    caller_credential_providers: frozenset[str] = frozenset()


async def collect_facts(snapshot: Snapshot, environ: Mapping[str, str], settings: Settings | None = None) -> EngineFacts:
    """Probes every endpoint, for at most 5 s each and 15 s in all. `environ` is the gateway's, where its credentials are."""
    settings = settings or Settings()
    reader = CredentialReader(
        _stored_secrets(snapshot, _gateway_vault(environ, settings)), _gateway_folders(environ, settings), {**os.environ, **environ}
    )
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
                read.append(reader.read(reference))
            except credentials.CredentialError as fault:
                unreadable_credentials[name] = f"{unreadable_credentials[name]} {fault}" if name in unreadable_credentials else str(fault)
        secrets[name] = next(iter(read), None)
    semaphore, deadline = asyncio.Semaphore(_MAX_CONCURRENT), asyncio.get_running_loop().time() + _TOTAL_TIMEOUT_S
    transport = Transport(proxy=settings.proxy, guard=settings.address_guard, ca_bundle=settings.ca_bundle or None)
    try:
        probes = [
            EndpointProbe(name, snapshot.providers[name], each, secrets.get(name)) for name, each in sorted(_served_endpoints(snapshot))
        ]
        endpoints = await asyncio.gather(*(_probe_in_time(transport, semaphore, deadline, each) for each in probes))
    finally:
        await transport.aclose()
    answered = tuple(each for each in endpoints if each is not None)
    return EngineFacts(answered, unreadable_credentials, len(endpoints) - len(answered), frozenset(caller_credential_providers))


def diagnose(facts: EngineFacts, snapshot: Snapshot) -> list[Finding]:
    findings = Findings("engines")
    for name, reason in facts.unreadable_credentials.items():
        findings.add_error(f"Provider {name}: {reason}", "Put it there; a variable must be set in the environment of the gateway.")
    for each in facts.endpoints:
        _diagnose_endpoint(each, facts, findings)
    _diagnose_models(facts, snapshot, findings)
    if facts.unprobed:
        findings.add_warning(
            f"There was no time to probe {facts.unprobed} endpoint(s): too many others are slow.", "Fix those first, and run it again."
        )
    if not snapshot.providers:
        findings.add_warning("No provider is configured.", "`narthex apply` takes a file that names some.")
    elif not snapshot.models:
        findings.add_warning(
            "No model is configured, so callers cannot send requests.", "Add [models.NAME] to a file and `narthex apply` it."
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
        if served and all((target.provider, address) in silent for target, address in served):
            unserved.append(f"{name} (falls back to {', '.join(model.fallbacks)})" if model.fallbacks else name)
        for target, address in served:
            listed_models = listed.get((target.provider, address))
            if listed_models is not None and target.model not in listed_models:
                findings.add_warning(
                    f"Model {name}: {target.provider} on {address} does not list {target.model!r} among its models"
                    f" ({', '.join(sorted(listed_models)[:5]) or 'none'}{' ...' if len(listed_models) > 5 else ''}).",
                    "Name a model that it has, unless it serves some that it does not list.",
                )
            adapters = loras.get((target.provider, address))
            if target.lora is not None and adapters is not None and target.lora not in adapters:
                findings.add_warning(
                    f"Model {name}: {target.provider} on {address} has no LoRA adapter {target.lora!r}: callers of it are refused (404)."
                    f" It has: {', '.join(sorted(adapters)[:5]) or 'none'}{' ...' if len(adapters) > 5 else ''}.",
                    f"Load it (`narthex engines run {name} load_lora`, where the engine supports that), or name one that is loaded.",
                )
    if unserved:
        findings.add_error(
            f"No target of {'model' if len(unserved) == 1 else 'models'} {', '.join(unserved)} answers.",
            "Start the engines that serve them, or give them other targets.",
        )


def _diagnose_endpoint(endpoint: EndpointFacts, facts: EngineFacts, findings: Findings) -> None:
    subject = f"Provider {endpoint.provider} on {endpoint.address}"
    if endpoint.status is None:
        remote_advice = f"Can this machine reach it? `narthex providers test {endpoint.provider}` says more; HTTPS_PROXY names a proxy."
        local_advice = "Is it running, and can this machine reach it?"
        findings.add_error(
            f"{subject} does not answer: {endpoint.fault}.", remote_advice if endpoint.address.startswith("https:") else local_advice
        )
    elif not endpoint.has_api:
        findings.add_error(
            f"{subject} has no such API: something answers there (status {endpoint.status}), but not as an engine does.",
            "Correct the provider's base_url, or the endpoint of the target: the address before /v1.",
        )
    elif (
        endpoint.status in (401, 403, 407)
        and endpoint.provider not in facts.unreadable_credentials
        and endpoint.provider not in facts.caller_credential_providers
    ):
        findings.add_error(
            f"{subject} refuses our credential, or requires one (status {endpoint.status}).",
            "Put a valid one where the provider's `credential` says.",
        )
    elif endpoint.status >= 500:
        findings.add_warning(f"{subject} answers with status {endpoint.status}.", "See the engine's own log.")


def target_addresses(target: Target, config: ProviderConfig) -> tuple[str, ...]:
    """The addresses that serve a target; empty if none is known."""
    try:
        address = catalogue.provider_url(config.adapter, target.provider, config.options, config.base_url)
    except InvalidOption:
        address = config.base_url
    return target.endpoints or ((address,) if address else ())


def _served_endpoints(snapshot: Snapshot) -> set[tuple[str, str]]:
    """Provider and address of every endpoint that some model uses; a provider that no target names is not probed."""
    return {
        (target.provider, address)
        for model in snapshot.models.values()
        for target in model.targets
        for address in target_addresses(target, snapshot.providers[target.provider])
    }


async def _probe_in_time(transport: Transport, semaphore: asyncio.Semaphore, deadline: float, probe: EndpointProbe) -> EndpointFacts | None:
    try:
        async with asyncio.timeout_at(deadline), semaphore:
            return await probe_endpoint(transport, probe)
    except TimeoutError:
        return None


def _stored_secrets(snapshot: Snapshot, vault: Vault) -> SecretLookup:
    def read(name: str) -> str:
        if name not in snapshot.credentials:
            raise credentials.CredentialError(f"Nothing is stored under the name {name!r}: `narthex credentials set {name}` stores it.")
        return vault.decrypt(name, snapshot.credentials[name])

    return read


def _gateway_vault(environ: Mapping[str, str], settings: Settings) -> Vault:
    """A vault with the gateway's keys, from its environment or its home. If this user may not read them, it decrypts nothing."""
    try:
        return secret_key.open_vault(secret_key.resolve(replace(settings, secret_key=Secrets(environ.get("NARTHEX_SECRET_KEY", "")))))
    except (OSError, BadSetting):
        return Vault(())


def _gateway_folders(environ: Mapping[str, str], settings: Settings) -> Sequence[Path]:
    """The folders of `file:` credentials by the gateway's environment."""
    try:
        folders = Folders(environ.get("NARTHEX_CREDENTIAL_FOLDERS", ""))
    except ValueError:
        folders = Folders()
    return replace(settings, credential_folders=folders if folders else settings.credential_folders).folders_of_credentials


def process_environment(pid: int | None) -> Mapping[str, str]:
    """The process's environment; ours if `pid` is None or this user may not read it."""
    if pid is not None:
        try:
            lines = Path(f"/proc/{pid}/environ").read_bytes().decode("utf-8", "surrogateescape").split("\0")
            return dict(line.split("=", 1) for line in lines if "=" in line)
        except OSError:
            pass
    return os.environ
