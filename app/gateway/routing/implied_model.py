"""The model of a request that names none, on routes whose engines need no name: the only one of its key that serves the route."""

from app.domain.callers import Caller
from app.domain.routing import Target
from app.domain.serving_models import serving_targets
from app.domain.snapshot import Snapshot
from app.gateway.fleet.fleet import Fleet
from app.gateway.routing.permissions import usable_models
from providers.adapters.provider import Provider
from providers.canonical.errors import InvalidRequest
from providers.canonical.raw_json import Body
from providers.dialect import CallerDialect
from providers.engine_routes.route import UNCERTAIN_ADAPTERS, Route

_MAX_LISTED = 50
# Looked at in the event loop, before any limit: about a millisecond.
_MAX_MODELS = 500


def find_implied_model(snapshot: Snapshot, fleet: Fleet, caller: Caller, dialect: CallerDialect, body: Body) -> str:
    """A server that is not identified counts only where no engine is known to have the route.

    Raises InvalidRequest if none of the models that the key may use serves the route, or several do: it lists them, and no others.
    """
    certain: list[str] = []
    uncertain: list[str] = []
    usable = list(usable_models(snapshot, caller))
    if len(usable) > _MAX_MODELS:
        raise InvalidRequest("`model` is missing, and this key may use too many models for one to be meant: name it.", param="model")
    for name in usable:
        providers = [
            provider
            for _, target in serving_targets(snapshot.models, name)
            for provider in _serving_providers(fleet, target, dialect, body)
        ]
        if providers:
            is_uncertain = all(provider.name in UNCERTAIN_ADAPTERS for provider in providers)
            (uncertain if is_uncertain else certain).append(name)
    names = sorted(certain or uncertain)
    if len(names) == 1:
        return names[0]
    if not names:
        raise InvalidRequest("`model` is missing, and no model that this key may use is known to serve this request.", param="model")
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    raise InvalidRequest(
        f"`model` is missing, and several models that this key may use serve this request: {', '.join(names[:_MAX_LISTED])}{more}. "
        "Name one of them.",
        param="model",
    )


def _serving_providers(fleet: Fleet, target: Target, dialect: CallerDialect, body: Body) -> list[Provider]:
    """Returns the providers of a target that serve the request in its own dialect.

    There are none if the target is pinned to another dialect.
    """
    if target.dialect not in (None, dialect.name):
        return []
    endpoints = fleet.table.endpoints_of(target)
    if isinstance(dialect, Route):
        return [endpoint.provider for endpoint in endpoints if dialect.is_served_by(endpoint.provider, body)]
    return [endpoint.provider for endpoint in endpoints if dialect.name in endpoint.dialects_for(target.model).names]
