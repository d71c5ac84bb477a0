"""GET /dashboard and any address below it: the page. GET /dashboard/static/NAME: its scripts, styles and font."""

from typing import Any

from litestar import Request, Response, Router, get

from app.api.dashboard.file_responses import PAGE_HEADERS, STATIC_HEADERS, respond_file
from app.api.dashboard.static_files import StaticFiles
from providers.canonical.errors import UnknownRoute

PATH = "/dashboard"
_INDEX = "index.html"


def routes(static_files: StaticFiles) -> Router:
    @get("/")
    async def get_dashboard(request: Request[Any, Any, Any]) -> Response[bytes]:
        return respond_file(request, (await static_files.all())[_INDEX], PAGE_HEADERS)

    @get("/{name:path}")
    async def get_dashboard_file(request: Request[Any, Any, Any], name: str) -> Response[bytes]:
        path = name.strip("/")
        if not path.startswith("static/"):
            return respond_file(request, (await static_files.all())[_INDEX], PAGE_HEADERS)
        file = (await static_files.all()).get(path.removeprefix("static/"))
        if file is None or path == f"static/{_INDEX}":
            raise UnknownRoute(f"The dashboard has no file {path.removeprefix('static/')!r:.100}: it is of another version. Load it again.")
        return respond_file(request, file, STATIC_HEADERS)

    return Router(PATH, route_handlers=[get_dashboard, get_dashboard_file])
