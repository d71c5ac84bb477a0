"""Validation of what a key may be used for, and for how long two of them overlap."""

from collections.abc import Sequence
from datetime import timedelta
from ipaddress import ip_network

from app.domain.errors import InvalidKeyField
from app.store.postgres.names import MAX_NAME_CHARACTERS
from providers.engine_routes.paths import ROUTE_BY_PATH

# The routes that take a key; a key restricted to others could never be used, so it is refused.
ROUTES = (
    *("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/responses/*", "/v1/embeddings"),
    *("/v1/messages", "/v1/messages/count_tokens", "/inference/v1/generate", *ROUTE_BY_PATH),
    *("/inference", "/feedback", "/openai/v1/chat/completions", "/openai/v1/embeddings"),
    *("/v1/models", "/v1/models/*", "/v1/limits", "/v1/limits/preview", "/v1/usage", "/v1/inferences/*"),
    "/metrics",
)
MAX_LIST_ENTRIES = 1000

_ADMIN_ROUTES = "/admin"
_MAX_OVERLAP_S = 10 * 366 * 86400


def check_models(models: Sequence[str] | None) -> list[str] | None:
    """Validate names of models. They need not be configured: a key may be created before its model."""
    for model in _check_list("models", models):
        if not model or model != model.strip() or not model.isprintable() or "*" in model[:-1] or len(model) > MAX_NAME_CHARACTERS:
            raise InvalidKeyField("models", f"{model!r:.60} is not a model's name. A * is allowed at its end, for anything that follows.")
    return _deduplicated(models)


def check_routes(routes: Sequence[str] | None) -> list[str] | None:
    for route in _check_list("routes", routes):
        if route.startswith(_ADMIN_ROUTES):
            raise InvalidKeyField(
                "routes", f"{route!r:.60} is of the admin API, which no `routes` open: it is for admin keys (`admin`) and for roles."
            )
        if "*" in route[:-1] or not any(_patterns_overlap(route, known) for known in ROUTES):
            raise InvalidKeyField(
                "routes", f"{route!r:.60} is not a route. The routes are: {', '.join(ROUTES)}. A * is allowed at the end."
            )
    return _deduplicated(routes)


def check_networks(networks: Sequence[str] | None) -> list[str] | None:
    for network in _check_list("networks", networks):
        try:
            ip_network(network)
        except ValueError as fault:
            raise InvalidKeyField("networks", f"{network!r:.60} is not a network such as 10.0.0.0/8 or 2001:db8::/32: {fault}.") from None
    return _deduplicated(networks)


def check_overlap(overlap_s: float) -> timedelta:
    if 0 <= overlap_s <= _MAX_OVERLAP_S:
        return timedelta(seconds=overlap_s)
    raise InvalidKeyField("overlap_s", f"An overlap must be from 0 to {_MAX_OVERLAP_S} seconds (ten years), not {overlap_s}.")


def _check_list(field: str, values: Sequence[str] | None) -> Sequence[str]:
    if values is None:
        return ()
    if not values or isinstance(values, str):
        raise InvalidKeyField(field, f"`{field}` is empty, so the key could not be used; leave it out for a key without that restriction.")
    if len(values) > MAX_LIST_ENTRIES:
        raise InvalidKeyField(
            field, f"`{field}` has {len(values)} entries; at most {MAX_LIST_ENTRIES} are allowed, as each request is checked against them."
        )
    return values


def _deduplicated(values: Sequence[str] | None) -> list[str] | None:
    return None if values is None else list(dict.fromkeys(values))


def _patterns_overlap(pattern: str, known: str) -> bool:
    """Whether some path matches both patterns."""
    one, other = pattern.removesuffix("*"), known.removesuffix("*")
    if pattern.endswith("*") and known.endswith("*"):
        return one.startswith(other) or other.startswith(one)
    if pattern.endswith("*"):
        return other.startswith(one)
    return one.startswith(other) and len(one) > len(other) if known.endswith("*") else one == other
