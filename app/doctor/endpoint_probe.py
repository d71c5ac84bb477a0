"""One probe of an endpoint: what answers there to a request for its models, and to one for its API."""

from typing import NamedTuple

import httpx2
from msgspec import Struct

from app.domain.routing import ProviderConfig
from app.gateway.provider_check.model_listing import AUTHENTICATED_LISTINGS, read_body, read_model_ids
from providers import catalogue, credentials
from providers.adapters.options import InvalidOption
from providers.adapters.probe import MODELS_PATH, ProbeResponse
from providers.adapters.provider import Provider
from providers.adapters.urls import with_version_segment
from providers.catalogue import ENGINE_PROBES
from providers.probing import identify_engine, lacks_api, shows_no_api
from providers.transport.transport import Transport

_TIMEOUTS_S = {"connect": 2.0, "first": 4.0, "read": 4.0, "total": 5.0}


class EndpointFacts(Struct, frozen=True):
    """The response of one endpoint to GET /v1/models.

    `status` is None if there was no response, and `fault` says why. `models` is None if the response was no
    list. `loras` are the LoRA adapters in the list, or None if the engine does not list them there. `has_api`
    is False if the endpoint answered an empty request of the provider's API as something that does not have
    this API.
    """

    provider: str
    address: str
    status: int | None
    models: frozenset[str] | None = None
    fault: str | None = None
    loras: frozenset[str] | None = None
    has_api: bool = True


class EndpointProbe(NamedTuple):
    """One endpoint to probe."""

    provider: str
    config: ProviderConfig
    address: str
    secret: str | None  # None: without a credential


async def probe_endpoint(transport: Transport, probe: EndpointProbe) -> EndpointFacts:
    name, config, address, secret = probe
    try:
        provider = catalogue.build_provider(config.adapter, name, config.options, address)
        headers = [("user-agent", "narthex"), *provider.headers(secret)]
        request = httpx2.Request("GET", _url(provider, address, secret), headers=headers, extensions={"timeout": _TIMEOUTS_S})
    except (InvalidOption, credentials.CredentialError, httpx2.InvalidURL) as fault:
        return EndpointFacts(name, address, None, fault=str(fault).rstrip("."))
    try:
        response = await transport.handle_async_request(request)
        body = await read_body(response)
    except httpx2.TransportError as fault:
        return EndpointFacts(name, address, None, fault=str(fault) or type(fault).__name__)
    if not await _has_api(transport, probe, provider, ProbeResponse(response.status_code, body)):
        return EndpointFacts(name, address, response.status_code, has_api=False)
    if response.status_code in (401, 403) and config.adapter not in AUTHENTICATED_LISTINGS:
        return EndpointFacts(name, address, 404)  # a host without such a list may answer with these too
    if response.status_code != 200:
        return EndpointFacts(name, address, response.status_code)
    loras = identify_engine({MODELS_PATH: ProbeResponse(200, body)}).lora_adapters
    return EndpointFacts(name, address, 200, read_model_ids(body), loras=None if loras is None else frozenset(loras))


async def _has_api(transport: Transport, probe: EndpointProbe, provider: Provider, models: ProbeResponse) -> bool:
    """Returns whether the endpoint has the provider's API, if an operator chose its address.

    The result is False if neither the list of models nor the answer to an empty request is an API's.
    """
    is_chosen = probe.config.adapter in ENGINE_PROBES or probe.config.base_url is not None
    if not is_chosen or not shows_no_api(identify_engine({MODELS_PATH: models}), models):
        return True
    try:
        url = provider.complete_url(provider.url(probe.address, provider.spoken_dialects[0], "model"), probe.secret)
        headers = [("user-agent", "narthex"), ("content-type", "application/json"), *provider.headers(probe.secret)]
        response = await transport.handle_async_request(
            httpx2.Request("POST", url, headers=headers, content=b"{}", extensions={"timeout": _TIMEOUTS_S})
        )
        return not lacks_api(ProbeResponse(response.status_code, await read_body(response)))
    except (httpx2.TransportError, credentials.CredentialError):  # it answered before: what it is, is not known
        return True


def _url(provider: Provider, address: str, secret: str | None) -> httpx2.URL:
    """Returns the URL of the list of models, or the root of a host whose URLs contain a model, region or project.

    Raises CredentialError.
    """
    if not provider.model_in_url:
        return httpx2.URL(f"{with_version_segment(address)}/models")
    return provider.complete_url(provider.url(address, provider.spoken_dialects[0], "model"), secret).copy_with(raw_path=b"/")
