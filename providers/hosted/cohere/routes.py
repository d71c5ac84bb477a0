"""Cohere's /v2/rerank, in the common shape. Source: https://docs.cohere.com/reference/rerank, read 2026-11."""

from providers.engine_routes.rerank import GATEWAY_FIELDS, TEXTS_ONLY
from providers.engine_routes.route_binding import EngineRoutes, RouteBinding

COHERE_ROUTES: EngineRoutes = {
    "rerank": {
        "documents": RouteBinding(
            name="/v2/rerank",
            field_names={field: field for field in ("query", "documents", "max_tokens_per_doc", "priority")},
            value_checks=TEXTS_ONLY,
            gateway_fields=GATEWAY_FIELDS,
        )
    }
}
