"""Trying: each address of a provider with each of its credentials is sent one cheap request."""

import os
import time
from collections.abc import Mapping

import httpx
import msgspec
from msgspec import Struct

from app import uuid7
from app.domain import Directory, ModelConfig, Target
from app.gateway import translate
from app.gateway.asked import Asked
from app.gateway.attempt import prepare
from app.gateway.fleet import Endpoint, Fleet
from app.gateway.identity import Identity, Where
from app.gateway.media import Media
from app.local.listing import LISTS
from app.local.trying.explaining import explain_connection, explain_error
from app.local.trying.tried import Explained, Left, Tried
from app.settings import Settings
from app.store.vault import Vault
from providers.allowance import Allowance, read_allowance
from providers.credentials import NoCredential
from providers.dialect import Stamp
from providers.dialects.catalogue import DIALECTS
from providers.errors import NotOffered, Unsupported, UpstreamError
from providers.probing import MODELS
from providers.provider import versioned
from providers.transport import Transport
from providers.wire import UNREADABLE

_TIMEOUT = {"connect": 10.0, "write": 30.0, "pool": 10.0, "first": 60.0, "read": 60.0, "total": 90.0}
_MOST_BYTES = 4 * 1024 * 1024
_MOST_TOKENS = 16  # the fewest that OpenAI's Responses let one ask for
# What is asked for, in the order in which it is tried to say it to a provider.
_QUESTIONS: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "openai_chat": ("a short answer", {"messages": [{"role": "user", "content": "Say hi."}], "max_completion_tokens": _MOST_TOKENS}),
    "openai_completions": ("a short completion", {"prompt": "Hi", "max_tokens": 1}),
    "openai_embeddings": ("an embedding", {"input": "Hi"}),
}


class _Card(Struct):
    id: str


class _Listed(Struct):
    data: list[_Card]


async def try_provider(
    directory: Directory, name: str, settings: Settings, vault: Vault, *, model: str | None = None, brought: str | None = None
) -> list[Tried]:
    """`model`: one of the provider's, which is asked for an answer; None: as little as tells something. `brought`: the credential that a

    caller would bring in a header. The provider must be configured.
    """
    transport = Transport(proxy=settings.proxy, ca_bundle=settings.ca_bundle or None)
    fleet = Fleet(settings, transport, vault)
    targets = [each for each in _targets(directory, name) if each.model]
    asked_of = model or (targets[0].model if targets else None)
    target = next((each for each in targets if each.model == asked_of), Target(name, asked_of or ""))
    media = Media(settings, transport)
    try:
        fleet.swap(msgspec.structs.replace(directory, models={name: ModelConfig(tuple(targets) or (Target(name, ""),))}))
        tried: list[Tried] = []
        for endpoint in fleet.endpoints:
            tried += await _try_endpoint(endpoint, transport, media, target, brought, lists=model is None)
        nowhere = Tried("", None, "nothing", "no_address", f"{name} has no address.", "Give it a base_url.")
        return tried or [nowhere]
    finally:
        await media.aclose()


def _targets(directory: Directory, name: str) -> list[Target]:
    return [target for model in directory.models.values() for target in model.targets if target.provider == name]


async def _try_endpoint(
    endpoint: Endpoint, transport: Transport, media: Media, target: Target, brought: str | None, *, lists: bool
) -> list[Tried]:
    identities = endpoint.identities
    headers = {header.encode(): (brought or "").encode() for header in identities.wanted} if brought else {}
    try:
        able = identities.able(headers, target.model)
    except NoCredential as fault:
        return [Tried(endpoint.base_url, None, "nothing", "credential_unreadable", str(fault))]
    if not able:
        wanted = " or ".join(identities.wanted)
        why = f"Callers bring a credential of their own, in the header {wanted}."
        return [Tried(endpoint.base_url, f"header:{wanted}", "nothing", "not_brought", why, "--as-caller tries one that you give.")]
    return [await _Trial(endpoint, transport, media, target, each).run(lists) for each in able]


class _Trial:
    """One credential at one address."""

    def __init__(self, endpoint: Endpoint, transport: Transport, media: Media, target: Target, identity: Identity) -> None:
        self._endpoint = endpoint
        self._transport = transport
        self._media = media
        self._target = target
        self._identity = identity
        self._status: int | None = None
        self._latency_ms: int | None = None
        self._request_id: str | None = None
        self._models: list[str] | None = None
        self._heard: Allowance | None = None

    async def run(self, lists: bool) -> Tried:
        asked = "its models" if lists and self._endpoint.provider.name in LISTS else "a short answer"
        try:
            if asked == "its models":
                explained = await self._list()
            else:
                asked, explained = await self._ask()
        except NoCredential as fault:
            explained = Explained(
                "credential_unreadable",
                self._identity.hiding.hide(str(fault)),
                "env: is looked for in the environment of this command." if _is_unset(self._identity.reference) else None,
            )
        except httpx.TransportError as fault:
            explained = explain_connection(fault, self._endpoint.base_url)
        except UpstreamError as error:
            self._identity.hide(error)
            model = None if asked == "its models" else self._target.model
            explained = explain_error(error, credential=self._identity.reference, model=model)
        allowance = self._heard
        return Tried(
            self._endpoint.base_url,
            self._identity.reference,
            asked,
            explained.outcome,
            explained.message,
            explained.advice,
            self._status,
            self._latency_ms,
            self._models,
            [Left(room.resource, room.limit, room.remaining) for room in allowance.rooms] if allowance else (),
            self._request_id,
        )

    async def _list(self) -> Explained:
        endpoint = self._endpoint
        url = httpx.URL(versioned(endpoint.base_url) + MODELS.removeprefix("/v1"))
        body, _ = await self._send(endpoint.told(url, b"", "GET", _TIMEOUT, self._identity))
        try:
            self._models = sorted(card.id for card in msgspec.json.decode(body, type=_Listed).data)
        except UNREADABLE:
            return Explained("not_understood", "It answered, and not with a list of models.", "Are adapter and base_url right?")
        if self._target.model and self._target.model not in self._models:
            return Explained(
                "works",
                f"It works, and does not list {self._target.model!r}, which a target names.",
                f"`narthex providers test {self._target.provider} --model {self._target.model}` asks it for an answer.",
            )
        return Explained("works", "It works.")

    async def _ask(self) -> tuple[str, Explained]:
        """What was asked for, and what came of it."""
        if not self._target.model:
            return "nothing", Explained("no_model", "No target names a model of it, and one must be asked.", "Name one with --model.")
        refused: Exception | None = None
        for dialect, (asked, question) in _QUESTIONS.items():
            try:
                prepared = await prepare(self._asked(dialect, question), self._endpoint, self._target)
            except (NotOffered, Unsupported) as reason:
                refused = refused or reason
                continue
            where = Where(prepared.dialect.name, prepared.model, prepared.stream, prepared.betas)
            provider, address = self._endpoint.provider, self._endpoint.base_url
            body, headers = await self._send(await self._identity.request(provider, address, where, prepared.raw, _TIMEOUT))
            if not prepared.stream:
                translate.whole(body, DIALECTS[dialect], prepared.dialect, _stamp(self._target.model), headers)
            return asked, Explained("works", f"It works: {self._target.model} gave {asked}.")
        return "nothing", Explained("refused", f"Neither chats nor embeddings can be asked of it: {refused}")

    def _asked(self, dialect: str, question: Mapping[str, object]) -> Asked:
        raw = msgspec.json.encode({"model": self._target.model, **question})
        ask = DIALECTS[dialect].open(raw)
        return Asked(ask, raw, DIALECTS[dialect], self._media, lambda field: True)

    async def _send(self, request: httpx.Request) -> tuple[bytes, httpx.Headers]:
        """Raises UpstreamError for what the host refuses, httpx.TransportError."""
        began = time.monotonic()
        response = await self._transport.handle_async_request(request)
        try:
            assert isinstance(response.stream, httpx.AsyncByteStream)
            body = b""
            async for block in response.stream:
                body += block
                if len(body) > _MOST_BYTES:
                    break
        finally:
            await response.aclose()
        self._latency_ms = round((time.monotonic() - began) * 1000)
        self._status = response.status_code
        hide = self._identity.hiding
        self._request_id = next((hide.hide(value)[:200] for name, value in response.headers.items() if name.endswith("request-id")), None)
        self._heard = read_allowance(response.headers.raw, time.monotonic(), time.time()) or self._heard
        if not 200 <= response.status_code < 300:
            raise self._endpoint.provider.read_error(response.status_code, response.headers, hide.hide_bytes(body))
        return body, response.headers


def _is_unset(reference: str | None) -> bool:
    kind, _, place = (reference or "").partition(":")
    return kind == "env" and not os.environ.get(place)


def _stamp(model: str) -> Stamp:
    return Stamp(uuid7.mint(), uuid7.mint(), model, int(time.time()), False)
