"""The upstream request for a caller's request, made by the gateway's own translation."""

import asyncio
import json
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

from app.domain.routing import Target
from app.gateway.fleet.endpoint import Endpoint
from app.gateway.media.fetcher import FetchesMedia, MediaFetcher
from app.gateway.request_translation import translate_request as translation
from app.gateway.request_translation.edit_request import edit_request
from app.gateway.request_translation.recipient import Recipient
from app.gateway.request_translation.source_request import CallerTerms, SourceRequest
from app.gateway.request_translation.translated_request import TranslatedRequest
from app.settings import Settings
from providers.adapters.provider import Provider
from providers.catalogue import DIALECTS
from providers.dialect import CallerDialect, InboundRequest
from providers.dialect_rule import ModelDialects
from providers.structured_output import Constraint, read_constraint

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


def make_source(
    request: InboundRequest,
    raw: bytes,
    dialect: CallerDialect,
    media: FetchesMedia,
    may_drop: Callable[[str], bool],
    *,
    constraint: Constraint | None = None,
    inference_id: str = "",
    **terms: Any,
) -> SourceRequest:
    """The request of a caller on these terms: fields of CallerTerms."""
    return SourceRequest(CallerTerms(dialect, media, may_drop, **terms), request, raw, constraint, inference_id)


def translate_request(
    request: InboundRequest, provider: Provider, target: Target, may_drop: Callable[[str], bool] = drop_nothing
) -> TranslatedRequest:
    """The request in the caller's own dialect: an edit of its bytes."""
    constraint = read_constraint(request.dialect, request.body)
    source = make_source(request, b"", DIALECTS[request.dialect], MEDIA, may_drop, constraint=constraint)
    translated = edit_request(source, Recipient(provider, target))
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
    source = make_source(request, raw, dialect, MEDIA, may_drop, constraint=read_constraint(caller, request.body))
    target = target or Target(provider.configured_as, model)
    return asyncio.run(translation.translate_request(source, endpoint_of(provider), target))
