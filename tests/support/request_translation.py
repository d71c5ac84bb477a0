"""The upstream request for a caller's request, made by the gateway's own translation."""

import asyncio
import json
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

from app.domain.routing import Target
from app.gateway.fleet.endpoint import Endpoint
from app.gateway.media.fetcher import MediaFetcher
from app.gateway.request_translation import choose_dialect
from app.gateway.request_translation.translated_request import TranslatedRequest
from app.gateway.request_translation.translator import RequestTranslator
from app.settings import Settings
from providers.adapters.provider import Provider
from providers.catalogue import DIALECTS
from providers.dialect import InboundRequest
from providers.dialect_rule import ModelDialects
from providers.structured_output import read_constraint

# One for all tests, because it loads the system's certificates.
MEDIA = MediaFetcher(Settings())


def drop_nothing(_: str) -> bool:
    return False


def drop_everything(_: str) -> bool:
    return True


def endpoint_of(provider: Provider) -> Endpoint:
    """Returns as much of an endpoint of this provider as a translation needs."""

    def dialects_for(model: str) -> ModelDialects:
        return ModelDialects(provider.spoken_dialects_for(model), provider.dialect_rule_for(model))

    return cast(Endpoint, SimpleNamespace(provider=provider, dialects_for=dialects_for))


def translate_request(
    request: InboundRequest, provider: Provider, target: Target, may_drop: Callable[[str], bool] = drop_nothing
) -> TranslatedRequest:
    """The request in the caller's own dialect: an edit of its bytes."""
    translated = RequestTranslator(
        request, b"", DIALECTS[request.dialect], MEDIA, may_drop, constraint=read_constraint(request.dialect, request.body)
    ).edit_request(provider, target)
    assert translated is not None
    return translated


def send_to(
    provider: Provider,
    caller: str,
    fields: Mapping[str, Any],
    model: str,
    may_drop: Callable[[str], bool] = drop_nothing,
    target: Target | None = None,
) -> TranslatedRequest:
    """The request as an endpoint of this provider gets it, in whichever of its dialects the gateway chooses."""
    dialect, raw = DIALECTS[caller], json.dumps({"model": "m", **fields}).encode()
    request = dialect.parse_request(raw)
    translator = RequestTranslator(request, raw, dialect, MEDIA, may_drop, constraint=read_constraint(caller, request.body))
    target = target or Target(provider.configured_as, model)
    return asyncio.run(choose_dialect.translate_request(translator, endpoint_of(provider), target))
