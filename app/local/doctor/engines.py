"""Whether each configured endpoint answers, with the credential that is named, and has the models that targets name."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import httpx
import msgspec
from msgspec import Struct

from app.domain import Directory, ProviderConfig
from app.local.doctor.finding import Finding, Findings
from providers import catalogue, credentials
from providers.probing import MODELS, Told, recognise
from providers.provider import BadOption, versioned
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
    """`unreadable`: by provider, why its credential cannot be read. `unasked`: endpoints for which no time was left."""

    endpoints: tuple[EndpointFacts, ...]
    unreadable: Mapping[str, str]
    unasked: int = 0


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


async def look(directory: Directory, environ: Mapping[str, str]) -> EngineFacts:
    """`environ`: the gateway's, for that is where it looks for credentials. 5 s for each endpoint, 15 s for all."""
    unreadable: dict[str, str] = {}
    secrets: dict[str, str | None] = {}
    for name, config in directory.providers.items():
        try:
            secrets[name] = _secret(config.credential, environ)
        except credentials.NoCredential as fault:
            unreadable[name] = str(fault)
    turns, until = asyncio.Semaphore(_AT_ONCE), asyncio.get_running_loop().time() + _TOGETHER_S
    transport = Transport()
    try:
        questions = [_Question(name, directory.providers[name], each, secrets.get(name)) for name, each in sorted(_addresses(directory))]
        endpoints = await asyncio.gather(*(_ask_in_time(transport, turns, until, each) for each in questions))
    finally:
        await transport.aclose()
    answered = tuple(each for each in endpoints if each is not None)
    return EngineFacts(answered, unreadable, len(endpoints) - len(answered))


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
        served = [(each, place) for each in model.targets for place in addresses(each.endpoints, directory.providers[each.provider])]
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
        found.wrong(f"{who} does not answer: {each.fault}.", "Is it running, and may this machine reach it?")
    elif each.status in (401, 403, 407) and each.provider not in facts.unreadable:
        found.wrong(
            f"{who} refuses our credential, or the want of one (status {each.status}).",
            "Put a good one where the provider's `credential` says.",
        )
    elif each.status >= 500:
        found.warn(f"{who} answers with status {each.status}.", "See the engine's own log.")


def addresses(endpoints: tuple[str, ...], config: ProviderConfig) -> tuple[str, ...]:
    """Where a target with these endpoints is served."""
    kind = catalogue.ADAPTERS.get(config.adapter)
    address = config.base_url or (kind.default_base_url if kind else None)
    return endpoints or ((address,) if address else ())


def _addresses(directory: Directory) -> set[tuple[str, str]]:
    """Those that some model is served by: a provider that nothing names is not asked."""
    return {
        (target.provider, address)
        for model in directory.models.values()
        for target in model.targets
        for address in addresses(target.endpoints, directory.providers[target.provider])
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
        headers = [("user-agent", "narthex"), *catalogue.build(config.adapter, name, config.options).headers(secret)]
        request = httpx.Request("GET", f"{versioned(address)}/models", headers=headers, extensions={"timeout": _TIMEOUT_S})
    except (BadOption, httpx.InvalidURL) as fault:
        return EndpointFacts(name, address, None, fault=str(fault))
    try:
        response = await transport.handle_async_request(request)
        try:
            body = await _read(response)
        finally:
            await response.aclose()
    except httpx.TransportError as fault:
        return EndpointFacts(name, address, None, fault=str(fault) or type(fault).__name__)
    if response.status_code != 200:
        return EndpointFacts(name, address, response.status_code)
    loras = recognise({MODELS: Told(200, body)}).loras
    return EndpointFacts(name, address, 200, _models(body), loras=None if loras is None else frozenset(loras))


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


def _secret(reference: str | None, environ: Mapping[str, str]) -> str | None:
    """Raises credentials.NoCredential."""
    kind, _, place = (reference or "").partition(":")
    secret = environ.get(place, "").strip()
    return secret if kind == "env" and secret.isascii() and secret.isprintable() and secret else credentials.read(reference)


def environment_of(pid: int | None) -> Mapping[str, str]:
    """A process's environment; this one's where it may not be read, or there is none."""
    if pid is not None:
        try:
            lines = Path(f"/proc/{pid}/environ").read_bytes().decode("utf-8", "surrogateescape").split("\0")
            return dict(line.split("=", 1) for line in lines if "=" in line)
        except OSError:
            pass
    return os.environ
