"""GET /: leads browsers to the dashboard, and says to programs what there is."""

import importlib.metadata
from typing import Any

from litestar import HttpMethod, Request, Response, Router, route

from app.api.server.response_headers import new_request_headers
from app.settings import Settings


def routes(settings: Settings, *, for_callers: bool, for_admins: bool) -> Router:
    """Makes the route. `for_callers` and `for_admins` say whose other routes are at this address."""
    paths = {
        **({"api": "/v1", "models": "/v1/models"} if for_callers else {}),
        **({"admin_api": "/admin/v1"} if for_admins else {}),
        **({"dashboard": "/dashboard"} if for_admins and settings.dashboard == "on" else {}),
        **({"documentation": "/docs", "openapi": "/openapi.json"} if for_admins else {}),
        "health": "/health/ready",
    }
    start = {"service": "narthex", "version": importlib.metadata.version("narthex"), "paths": paths}
    page = paths.get("dashboard", paths.get("documentation"))

    # Some clients and load balancers send HEAD.
    @route("/", http_method=[HttpMethod.GET, HttpMethod.HEAD])
    async def get_root(request: Request[Any, Any, Any]) -> Response[Any]:
        headers = {**new_request_headers(), "vary": "accept", "cache-control": "no-cache"}
        if page is not None and _wants_page(request.headers.get("accept", "")):
            return Response(b"", status_code=303, headers={**headers, "location": page}, media_type="text/plain")
        return Response(start, headers=headers)

    return Router("/", route_handlers=[get_root])


def _wants_page(accept: str) -> bool:
    """Whether the client names HTML, as browsers do; a program that takes anything gets JSON."""
    return any(each.partition(";")[0].strip() in ("text/html", "application/xhtml+xml") for each in accept.lower().split(","))
