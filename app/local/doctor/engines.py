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

from app.domain import Directory, ProviderConfig, Target
from app.local import secret_key
from app.local.doctor.finding import Finding, Findings
from app.local.listing import LISTS
from app.settings import BadSetting, Secrets, Settings
from app.store.vault import Vault
from providers import catalogue, credentials
from providers.credentials.references import Stored, usable
from providers.probing import MODELS, Told, recognise
from providers.provider import BadOption, Provider, versioned
from providers.transport import Transport
from providers.wire import UNREADABLE

_TIMEOUT_S = {"connect": 2.0, "first": 4.0, "read": 4.0, "total": 5.0}
_TOGETHER_S = 15.0
_AT_ONCE = 32
_MOST_BYTES = 4 * 1024 * 1024


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
    unreadable: Mapping[str, str]
    unasked: int = 0
    brought: frozenset[str] = frozenset()


class _Question(NamedTuple):
    """What is asked of whom, and as whom."""

    provider: str
    config: ProviderConfig
    address: str
    secret: str | None


class _Card(Struct):
    id: str


class _Listed(Struct):
    data: list[_Card]


async def look(directory: Directory, environ: Mapping[str, str], settings: Settings | None = None) -> EngineFacts:
    """`environ`: the gateway's, for that is where it looks for credentials. 5 s for each endpoint, 15 s for all."""
    settings = settings or Settings()
    stored = _stored(directory, _vault(environ, settings))
    unreadable: dict[str, str] = {}
    secrets: dict[str, str | None] = {}
    brought: set[str] = set()
    for name, config in directory.providers.items():
        kept = [each for each in config.credentials if credentials.header_of(each) is None]
        if config.credentials and not kept:
            brought.add(name)
        read: list[str | None] = []
        for reference in kept:
            try:
                read.append(_secret(reference, environ, stored))
            except credentials.NoCredential as fault:
                unreadable[name] = f"{unreadable[name]} {fault}" if name in unreadable else str(fault)
        secrets[name] = next(iter(read), None)
    turns, until = asyncio.Semaphore(_AT_ONCE), asyncio.get_running_loop().time() + _TOGETHER_S
    transport = Transport(proxy=settings.proxy, ca_bundle=settings.ca_bundle or None)
    try:
        questions = [_Question(name, directory.providers[name], each, secrets.get(name)) for name, each in sorted(_addresses(directory))]
        endpoints = await asyncio.gather(*(_ask_in_time(transport, turns, until, each) for each in questions))
    finally:
        await transport.aclose()
    answered = tuple(each for each in endpoints if each is not None)
    return EngineFacts(answered, unreadable, len(endpoints) - len(answered), frozenset(brought))


def judge(facts: EngineFacts, directory: Directory) -> list[Finding]:
    found = Findings("engines")
    for name, why in facts.unreadable.items():
        found.wrong(f"Provider {name}: {why}", "Put it there; a variable must be in the environment in which the gateway is started.")
    for each in facts.endpoints:
        _judge_endpoint(each, facts, found)
    _judge_models(facts, directory, found)
    if facts.unasked:
        found.warn(f"There was no time to ask {facts.unasked} endpoint(s): too many others are slow.", "Mend those first, and look again.")
    if not directory.providers:
        found.warn("No provider is configured, so there is nothing to ask.", "`narthex apply` takes a file that names some.")
    elif not directory.models:
        found.warn("No model is configured: callers have no name to ask for.", "Add [models.NAME] to a file and `narthex apply` it.")
    number = len(facts.endpoints)
    return found.all(
        f"{'The one endpoint answers' if number == 1 else f'All {number} endpoints answer'}, and every model has a target that does."
    )


def _judge_models(facts: EngineFacts, directory: Directory, found: Findings) -> None:
    silent = {(each.provider, each.address) for each in facts.endpoints if each.status is None}
    listed = {(each.provider, each.address): each.models for each in facts.endpoints if each.models is not None}
    loras = {(each.provider, each.address): each.loras for each in facts.endpoints if each.loras is not None}
    unserved: list[str] = []
    for name, model in directory.models.items():
        served = [(each, place) for each in model.targets for place in addresses(each, directory.providers[each.provider])]
        if served and all((target.provider, place) in silent for target, place in served):
            unserved.append(f"{name} (falls back to {', '.join(model.fallbacks)})" if model.fallbacks else name)
        for target, place in served:
            has = listed.get((target.provider, place))
            if has is not None and target.model not in has:
                found.warn(
                    f"Model {name}: {target.provider} on {place} does not list {target.model!r} among its models"
                    f" ({', '.join(sorted(has)[:5]) or 'none'}{' ...' if len(has) > 5 else ''}).",
                    "Name a model that it has, unless it serves some that it does not list.",
                )
            adapters = loras.get((target.provider, place))
            if target.lora is not None and adapters is not None and target.lora not in adapters:
                found.warn(
                    f"Model {name}: {target.provider} on {place} has no LoRA adapter {target.lora!r}: callers of it are refused (404)."
                    f" It has: {', '.join(sorted(adapters)[:5]) or 'none'}{' ...' if len(adapters) > 5 else ''}.",
                    f"Load it (`narthex engines run {name} load_lora`, where the engine takes that), or name one that is there.",
                )
    if unserved:
        found.wrong(
            f"No target answers of {'model' if len(unserved) == 1 else 'models'} {', '.join(unserved)}.",
            "Start the engines that serve them, or give them other targets.",
        )


def _judge_endpoint(each: EndpointFacts, facts: EngineFacts, found: Findings) -> None:
    who = f"Provider {each.provider} on {each.address}"
    if each.status is None:
        far = f"May this machine reach it? `narthex providers test {each.provider}` says more; a proxy is named by HTTPS_PROXY."
        near = "Is it running, and may this machine reach it?"
        found.wrong(f"{who} does not answer: {each.fault}.", far if each.address.startswith("https:") else near)
    elif each.status in (401, 403, 407) and each.provider not in facts.unreadable and each.provider not in facts.brought:
        found.wrong(
            f"{who} refuses our credential, or the want of one (status {each.status}).",
            "Put a good one where the provider's `credential` says.",
        )
    elif each.status >= 500:
        found.warn(f"{who} answers with status {each.status}.", "See the engine's own log.")


def addresses(target: Target, config: ProviderConfig) -> tuple[str, ...]:
    """Where a target is served."""
    try:
        address = catalogue.address(config.adapter, target.provider, config.options, config.base_url)
    except BadOption:
        address = config.base_url
    return target.endpoints or ((address,) if address else ())


def _addresses(directory: Directory) -> set[tuple[str, str]]:
    """Those that some model is served by: a provider that nothing names is not asked."""
    return {
        (target.provider, address)
        for model in directory.models.values()
        for target in model.targets
        for address in addresses(target, directory.providers[target.provider])
    }


async def _ask_in_time(transport: Transport, turns: asyncio.Semaphore, until: float, question: _Question) -> EndpointFacts | None:
    try:
        async with asyncio.timeout_at(until), turns:
            return await _ask(transport, question)
    except TimeoutError:
        return None


async def _ask(transport: Transport, question: _Question) -> EndpointFacts:
    name, config, address, secret = question
    try:
        provider = catalogue.build(config.adapter, name, config.options, address)
        headers = [("user-agent", "narthex"), *provider.headers(secret)]
        request = httpx.Request("GET", _url(provider, address, secret), headers=headers, extensions={"timeout": _TIMEOUT_S})
    except (BadOption, credentials.NoCredential, httpx.InvalidURL) as fault:
        return EndpointFacts(name, address, None, fault=str(fault).rstrip("."))
    try:
        response = await transport.handle_async_request(request)
        try:
            body = await _read(response)
        finally:
            await response.aclose()
    except httpx.TransportError as fault:
        return EndpointFacts(name, address, None, fault=str(fault) or type(fault).__name__)
    if response.status_code in (401, 403) and config.adapter not in LISTS:
        return EndpointFacts(name, address, 404)  # it has no such list, and may say so to nobody
    if response.status_code != 200:
        return EndpointFacts(name, address, response.status_code)
    loras = recognise({MODELS: Told(200, body)}).loras
    return EndpointFacts(name, address, 200, _models(body), loras=None if loras is None else frozenset(loras))


def _url(provider: Provider, address: str, secret: str | None) -> httpx.URL:
    """Where it lists its models; of a host that is found by model, region or project, where it answers at all. Raises NoCredential."""
    if not provider.addresses_models:
        return httpx.URL(f"{versioned(address)}/models")
    return provider.located(provider.url(address, provider.spoken[0], "model"), secret).copy_with(raw_path=b"/")


async def _read(response: httpx.Response) -> bytes:
    assert isinstance(response.stream, httpx.AsyncByteStream)
    body = b""
    async for block in response.stream:
        body += block
        if len(body) > _MOST_BYTES:
            break
    return body


def _models(body: bytes) -> frozenset[str] | None:
    try:
        return frozenset(card.id for card in msgspec.json.decode(body, type=_Listed).data)
    except UNREADABLE:
        return None


def _secret(reference: str, environ: Mapping[str, str], stored: Stored) -> str | None:
    """Raises credentials.NoCredential."""
    kind, _, place = reference.partition(":")
    if kind == "env" and environ.get(place):
        return usable(environ[place], f"the environment variable {place}")
    return credentials.read(reference, stored)


def _stored(directory: Directory, vault: Vault) -> Stored:
    def read(name: str) -> str:
        if name not in directory.credentials:
            raise credentials.NoCredential(f"Nothing is stored under the name {name!r}: `narthex credentials set {name}` stores it.")
        return vault.open(name, directory.credentials[name])

    return read


def _vault(environ: Mapping[str, str], settings: Settings) -> Vault:
    """With the keys of the gateway: those of its environment, or of its home. None that this user may read: it opens nothing."""
    try:
        return secret_key.vault(secret_key.found(replace(settings, secret_key=Secrets(environ.get("NARTHEX_SECRET_KEY", "")))))
    except (OSError, BadSetting):
        return Vault(())


def environment_of(pid: int | None) -> Mapping[str, str]:
    """A process's environment; this one's where it may not be read, or there is none."""
    if pid is not None:
        try:
            lines = Path(f"/proc/{pid}/environ").read_bytes().decode("utf-8", "surrogateescape").split("\0")
            return dict(line.split("=", 1) for line in lines if "=" in line)
        except OSError:
            pass
    return os.environ
