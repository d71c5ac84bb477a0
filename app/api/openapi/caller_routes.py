"""Every route of callers, nodes and operators, as it is described where it is declared."""

from collections.abc import Sequence

from app.api import health, metrics
from app.api.callers import described_inferences, feedback, inferences, limits, models, nodes, responses, usage
from app.api.callers.caller_route import OBJECT, TEXT, CallerRoute, object_with
from app.api.clouds import described_routes as clouds
from app.api.google import described_routes as google_inferences
from app.api.google import models as google_models
from app.api.own import routes as own
from app.api.sign_in import described_routes as sign_in

_DOCUMENTATION: Sequence[CallerRoute] = (
    CallerRoute(
        method="GET",
        path="/",
        id="get_start",
        tag="Operation",
        summary="What there is at this address; browsers are sent to the dashboard",
        access="public",
        response=object_with(service=TEXT, version=TEXT, paths=OBJECT),
        redirects="To the dashboard, or to /docs where there is none, for clients whose `Accept` names `text/html`.",
    ),
    CallerRoute(
        method="GET",
        path="/docs",
        id="get_documentation",
        tag="Operation",
        summary="This document as a page to search and try, with the guide",
        access="public",
        cached=True,
        response=TEXT,
        response_media_type="text/html",
    ),
    CallerRoute(
        method="GET",
        path="/docs/static/{name}",
        id="get_documentation_file",
        tag="Operation",
        summary="Scripts, styles and the font of that page",
        access="public",
        cached=True,
        response=TEXT,
        response_media_type="text/javascript",
        errors=(404,),
    ),
    CallerRoute(
        method="GET",
        path="/dashboard",
        id="get_dashboard",
        tag="Operation",
        summary="The dashboard, a page for browsers",
        access="public",
        cached=True,
        response=TEXT,
        response_media_type="text/html",
    ),
    CallerRoute(
        method="GET",
        path="/dashboard/{name}",
        id="get_dashboard_file",
        tag="Operation",
        summary="The same page for every address below, and its scripts and styles below static/",
        access="public",
        cached=True,
        response=TEXT,
        response_media_type="text/html",
        errors=(404,),
    ),
    CallerRoute(
        method="GET",
        path="/openapi.json",
        id="get_openapi_document",
        tag="Operation",
        summary="This document",
        access="public",
        cached=True,
        response=object_with(openapi=TEXT, info=OBJECT, paths=OBJECT),
    ),
)

CALLER_ROUTES: Sequence[CallerRoute] = (
    *described_inferences.DESCRIPTIONS,
    *google_inferences.DESCRIPTIONS,
    *clouds.DESCRIPTIONS,
    *google_models.DESCRIPTIONS,
    *responses.DESCRIPTIONS,
    *models.DESCRIPTIONS,
    *inferences.DESCRIPTIONS,
    *own.DESCRIPTIONS,
    *limits.DESCRIPTIONS,
    *feedback.DESCRIPTIONS,
    *usage.DESCRIPTIONS,
    *nodes.DESCRIPTIONS,
    *health.DESCRIPTIONS,
    *metrics.DESCRIPTIONS,
    *_DOCUMENTATION,
    *sign_in.DESCRIPTIONS,
)
