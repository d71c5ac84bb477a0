"""The ASGI layers around an application: path segments, request ids, the access log, CORS and security headers, from the outside in."""

from typing import cast

from litestar import Litestar
from litestar.types import ASGIApp

from app.api.server.access_log import AccessLog, AccessLogApp
from app.api.server.anonymous_requests import AnonymousRequests
from app.api.server.cors import Cors, CorsApp
from app.api.server.path_segments import SegmentedPaths
from app.api.server.request_id import RequestIdApp
from app.api.server.security_headers import SecurityHeaders
from app.settings import Settings


def with_layers(application: Litestar, settings: Settings, access_log: AccessLog | None) -> ASGIApp:
    secured = SecurityHeaders(cast(ASGIApp, application))
    with_cors = CorsApp(secured, Cors(settings.cors_origins)) if settings.cors_origins else secured
    in_turns = AnonymousRequests(with_cors)
    return SegmentedPaths(RequestIdApp(in_turns if access_log is None else AccessLogApp(in_turns, access_log)))
