"""What a target is sent for an ask, by way of the gateway's own translation."""

from collections.abc import Callable

from app.domain import Target
from app.gateway.asked import Asked, Prepared
from app.gateway.media import Media
from app.settings import Settings
from providers.dialect import Ask
from providers.dialects.catalogue import DIALECTS
from providers.guided import read_constraint
from providers.provider import Provider

# One for all: it reads the system's certificates.
MEDIA = Media(Settings())


def nothing(_: str) -> bool:
    return False


def everything(_: str) -> bool:
    return True


def sent(ask: Ask, provider: Provider, target: Target, may_drop: Callable[[str], bool] = nothing) -> Prepared:
    """In the ask's own dialect: an edit of its bytes."""
    prepared = Asked(ask, b"", DIALECTS[ask.dialect], MEDIA, may_drop, constraint=read_constraint(ask.dialect, ask.body)).edited(
        provider, target
    )
    assert prepared is not None
    return prepared
