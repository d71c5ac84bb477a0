"""What a target is sent for an ask, by way of the gateway's own translation."""

from collections.abc import Callable

from app.domain import Target
from app.gateway.media.fetcher import MediaFetcher
from app.gateway.request_translation.translator import RequestTranslator, TranslatedRequest
from app.settings import Settings
from providers.adapters.provider import Provider
from providers.dialect import InboundRequest
from providers.dialects.catalogue import DIALECTS
from providers.structured_output import read_constraint

# One for all: it reads the system's certificates.
MEDIA = MediaFetcher(Settings())


def drop_nothing(_: str) -> bool:
    return False


def drop_everything(_: str) -> bool:
    return True


def translate_request(
    request: InboundRequest, provider: Provider, target: Target, may_drop: Callable[[str], bool] = drop_nothing
) -> TranslatedRequest:
    """In the ask's own dialect: an edit of its bytes."""
    translated = RequestTranslator(
        request, b"", DIALECTS[request.dialect], MEDIA, may_drop, constraint=read_constraint(request.dialect, request.body)
    ).edit_request(provider, target)
    assert translated is not None
    return translated
