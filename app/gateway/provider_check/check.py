"""The check: one cheap request to each address of a provider, with each of its credentials."""

import os
import time
from collections.abc import Mapping

import httpx2
import msgspec

from app.domain import uuid7
from app.domain.routing import ModelConfig, Target
from app.domain.snapshot import Snapshot
from app.gateway.credentials.client import CredentialClient
from app.gateway.credentials.request_template import RequestTemplateKey
from app.gateway.fleet.endpoint import Endpoint
from app.gateway.fleet.fleet import Fleet
from app.gateway.media.fetcher import MediaFetcher
from app.gateway.provider_check.explain import explain_connection_error, explain_upstream_error
from app.gateway.provider_check.model_listing import AUTHENTICATED_LISTINGS, read_body, read_model_ids
from app.gateway.provider_check.result import CheckResult, Explanation, RemainingRateLimit
from app.gateway.request_translation.source_request import CallerTerms, SourceRequest
from app.gateway.request_translation.translate_request import translate_request
from app.gateway.response_translation import translate
from app.process.thread_steps import run_in_steps
from app.settings import Settings
from app.store.postgres.vault import Vault
from providers.adapters.probe import MODELS_PATH
from providers.adapters.urls import with_version_segment
from providers.canonical.errors import OperationNotSupported, Unsupported, UpstreamError
from providers.canonical.rate_limit_headers import RateLimits, read_rate_limits
from providers.catalogue import DIALECTS
from providers.credentials import CredentialError
from providers.dialect import ResponseMeta
from providers.transport.transport import Transport

_TIMEOUTS_S = {"connect": 10.0, "write": 30.0, "pool": 10.0, "first": 60.0, "read": 60.0, "total": 90.0}
_MAX_OUTPUT_TOKENS = 16  # the lowest maximum that OpenAI's Responses API accepts
# By the caller's dialect, what is requested, in the order in which translations for the provider are tried.
_CHECK_REQUESTS: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "openai_chat": ("a short answer", {"messages": [{"role": "user", "content": "Say hi."}], "max_completion_tokens": _MAX_OUTPUT_TOKENS}),
    "openai_completions": ("a short completion", {"prompt": "Hi", "max_tokens": 1}),
    "openai_embeddings": ("an embedding", {"input": "Hi"}),
}


async def check_provider(
    snapshot: Snapshot, name: str, settings: Settings, vault: Vault, *, model: str | None = None, caller_credential: str | None = None
) -> list[CheckResult]:
    """One result for each address and credential of the provider, which must be configured.

    `model` is one of the provider's, sent a short request; None means the cheapest request that shows whether the credential works.
    `caller_credential` is the credential that a caller would send in a header.
    """
    transport = Transport(proxy=settings.proxy, guard=settings.address_guard, ca_bundle=settings.ca_bundle or None)
    fleet = Fleet(settings, transport, vault)
    targets = [each for each in _provider_targets(snapshot, name) if each.model]
    model_name = model or (targets[0].model if targets else None)
    target = next((each for each in targets if each.model == model_name), Target(name, model_name or ""))
    media = MediaFetcher(settings, transport)
    try:
        checked = msgspec.structs.replace(snapshot, models={name: ModelConfig(tuple(targets) or (Target(name, ""),))})
        fleet.swap(await run_in_steps(lambda: fleet.prepare(checked)))
        results: list[CheckResult] = []
        for endpoint in fleet.endpoints:
            results += await _check_endpoint(endpoint, transport, media, target, caller_credential, list_models=model is None)
        no_address = CheckResult("", None, "nothing", "no_address", f"{name} has no address.", "Give it a base_url.")
        return results or [no_address]
    finally:
        await media.aclose()


def _provider_targets(snapshot: Snapshot, name: str) -> list[Target]:
    return [target for model in snapshot.models.values() for target in model.targets if target.provider == name]


async def _check_endpoint(
    endpoint: Endpoint, transport: Transport, media: MediaFetcher, target: Target, caller_credential: str | None, *, list_models: bool
) -> list[CheckResult]:
    credential_pool = endpoint.credential_pool
    headers = (
        {header.encode(): (caller_credential or "").encode() for header in credential_pool.caller_header_names} if caller_credential else {}
    )
    try:
        usable = credential_pool.candidates(headers, target.model)
    except CredentialError as fault:
        return [CheckResult(endpoint.base_url, None, "nothing", "credential_unreadable", str(fault))]
    if not usable:
        header_names = " or ".join(credential_pool.caller_header_names)
        message = f"Callers send a credential of their own, in the header {header_names}."
        advice = "To check it takes such a credential."
        return [CheckResult(endpoint.base_url, f"header:{header_names}", "nothing", "caller_credential_missing", message, advice)]
    return [await _CredentialCheck(endpoint, transport, media, target, each).run(list_models) for each in usable]


class _CredentialCheck:
    """One credential at one address."""

    def __init__(
        self, endpoint: Endpoint, transport: Transport, media: MediaFetcher, target: Target, credential_client: CredentialClient
    ) -> None:
        self._endpoint = endpoint
        self._transport = transport
        self._media = media
        self._target = target
        self._credential_client = credential_client
        self._status: int | None = None
        self._latency_ms: int | None = None
        self._request_id: str | None = None
        self._models: list[str] | None = None
        self._rate_limits: RateLimits | None = None

    async def run(self, list_models: bool) -> CheckResult:
        requested = "its models" if list_models and self._endpoint.provider.name in AUTHENTICATED_LISTINGS else "a short answer"
        try:
            if requested == "its models":
                explanation = await self._list_models()
            else:
                requested, explanation = await self._request_inference()
        except CredentialError as fault:
            explanation = Explanation(
                "credential_unreadable",
                self._credential_client.secret_mask.mask(str(fault)),
                "env: is read from the environment of the process that checks." if _is_unset(self._credential_client.reference) else None,
            )
        except httpx2.TransportError as fault:
            explanation = explain_connection_error(fault, self._endpoint.base_url)
        except UpstreamError as error:
            self._credential_client.mask_error(error)
            model = None if requested == "its models" else self._target.model
            explanation = explain_upstream_error(error, credential=self._credential_client.reference, model=model)
        rate_limits = self._rate_limits
        return CheckResult(
            self._endpoint.base_url,
            self._credential_client.reference,
            requested,
            explanation.outcome,
            explanation.message,
            explanation.advice,
            self._status,
            self._latency_ms,
            self._models,
            [RemainingRateLimit(rate_limit.resource, rate_limit.limit, rate_limit.remaining) for rate_limit in rate_limits.limits]
            if rate_limits
            else (),
            self._request_id,
        )

    async def _list_models(self) -> Explanation:
        endpoint = self._endpoint
        url = httpx2.URL(with_version_segment(endpoint.base_url) + MODELS_PATH.removeprefix("/v1"))
        body, _ = await self._send(endpoint.build_request(url, b"", "GET", _TIMEOUTS_S, self._credential_client))
        model_ids = read_model_ids(body)
        if model_ids is None:
            return Explanation("invalid_response", "It answered, but not with a list of models.", "Are adapter and base_url right?")
        self._models = sorted(model_ids)
        if self._target.model and self._target.model not in self._models:
            return Explanation(
                "works",
                f"It works, but does not list {self._target.model!r}, which a target names.",
                f"Check it with the model {self._target.model!r} to see whether that answers.",
            )
        return Explanation("works", "It works.")

    async def _request_inference(self) -> tuple[str, Explanation]:
        """Returns a name of what was requested, and the result. Raises what _send() raises."""
        if not self._target.model:
            return "nothing", Explanation("no_model", "No target names a model of it, and the check needs one.", "Name one to check.")
        first_error: Exception | None = None
        for dialect, (requested, payload) in _CHECK_REQUESTS.items():
            try:
                translated = await translate_request(self._build_request(dialect, payload), self._endpoint, self._target)
            except (OperationNotSupported, Unsupported) as reason:
                first_error = first_error or reason
                continue
            where = RequestTemplateKey(translated.dialect.name, translated.model, translated.stream, translated.betas)
            provider, address = self._endpoint.provider, self._endpoint.base_url
            body, headers = await self._send(
                await self._credential_client.build_request(provider, address, where, translated.raw, _TIMEOUTS_S)
            )
            if not translated.stream:
                translate.translate_response(body, DIALECTS[dialect], translated.dialect, _response_meta(self._target.model), headers)
            return requested, Explanation("works", f"It works: {self._target.model} gave {requested}.")
        return "nothing", Explanation("refused", f"It can be sent neither chats nor embeddings: {first_error}")

    def _build_request(self, dialect: str, payload: Mapping[str, object]) -> SourceRequest:
        raw = msgspec.json.encode({"model": self._target.model, **payload})
        request = DIALECTS[dialect].parse_request(raw)
        return SourceRequest(CallerTerms(DIALECTS[dialect], self._media, lambda field: True), request, raw)

    async def _send(self, request: httpx2.Request) -> tuple[bytes, httpx2.Headers]:
        """The response's body and headers. Raises UpstreamError for an error status, httpx2.TransportError."""
        started_at = time.monotonic()
        response = await self._transport.handle_async_request(request)
        body = await read_body(response)
        self._latency_ms = round((time.monotonic() - started_at) * 1000)
        self._status = response.status_code
        mask = self._credential_client.secret_mask
        self._request_id = next((mask.mask(value)[:200] for name, value in response.headers.items() if name.endswith("request-id")), None)
        self._rate_limits = read_rate_limits(response.headers.raw, time.monotonic(), time.time()) or self._rate_limits
        if not 200 <= response.status_code < 300:
            raise self._endpoint.provider.read_error(response.status_code, response.headers, mask.mask_bytes(body))
        return body, response.headers


def _is_unset(reference: str | None) -> bool:
    kind, _, variable = (reference or "").partition(":")
    return kind == "env" and not os.environ.get(variable)


def _response_meta(model: str) -> ResponseMeta:
    return ResponseMeta(uuid7.mint(), uuid7.mint(), model, int(time.time()), False)
