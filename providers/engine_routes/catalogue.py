"""The engine routes that there are."""

from collections.abc import Mapping

from providers.engine_routes.classify import Classify
from providers.engine_routes.detokenize import Detokenize
from providers.engine_routes.encode import Encode, encode_binding
from providers.engine_routes.generate import Generate
from providers.engine_routes.pooling import Pooling
from providers.engine_routes.rerank import Rerank
from providers.engine_routes.route import Route
from providers.engine_routes.route_binding import EngineRoutes
from providers.engine_routes.score import Score
from providers.engine_routes.sglang_encode import SGLangEncode
from providers.engine_routes.tokenize import Tokenize

_ROUTES: tuple[type[Route], ...] = (Tokenize, Detokenize, Encode, SGLangEncode, Rerank, Score, Pooling, Classify, Generate)


def build_routes(routes_by_adapter: Mapping[str, EngineRoutes]) -> Mapping[str, Route]:
    """Every route by its name, bound to the engines that have it. An engine that tokenizes prompts has `encode` by that."""
    complete = {adapter: _with_encode(routes) for adapter, routes in routes_by_adapter.items()}
    return {
        route.name: route({adapter: routes[route.name] for adapter, routes in complete.items() if route.name in routes})
        for route in _ROUTES
    }


def _with_encode(routes: EngineRoutes) -> EngineRoutes:
    if "encode" in routes or "tokenize" not in routes:
        return routes
    return {**routes, "encode": {"input": encode_binding(routes["tokenize"]["prompt"])}}
