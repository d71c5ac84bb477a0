"""Recipient: whom a request is translated for."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from app.domain.routing import Capability, Target
from providers.adapters.provider import Provider
from providers.request_overrides.overrides import Scope


class TargetTerms(Struct, frozen=True):
    """The configuration of one target, beyond what its provider is."""

    # Whom an override of the caller has to name for it to be applied.
    scope: Scope = Scope()
    # Those that the configuration states of the model; empty: none are stated.
    capabilities: Sequence[Capability] = ()
    # Whether the caller or the operator allows a field to be dropped. None: the operator allows nothing besides.
    may_drop: Callable[[str], bool] | None = None


USUAL_TERMS = TargetTerms()


class Recipient(Struct, frozen=True, eq=False):
    """One target, and the adapter of the endpoint at which it is tried."""

    provider: Provider
    target: Target
    terms: TargetTerms = USUAL_TERMS
