"""The routes of signing in, as the OpenAPI document has them: routes.py beside this file serves them."""

from collections.abc import Sequence

from app.api.callers.caller_route import COUNT, TEXT, TEXT_OR_NULL, CallerRoute, object_with
from app.api.sign_in.key_routes import KeySignIn, OnceSignIn
from app.api.sign_in.routes import DeviceTokenBody

# Beside the keyed routes' errors: what can go wrong with the issuer, and too many attempts.
_ERRORS = (400, 403, 404, 429, 500, 502, 503)
_KEY_ERRORS = (400, 401, 403, 429, 500, 503)
_SIGNED_IN = object_with(name=TEXT, expires_at={"type": "string", "format": "date-time"})
DESCRIPTIONS: Sequence[CallerRoute] = (
    CallerRoute(
        method="GET",
        path="/admin/v1/sign-in",
        id="begin_sign_in",
        tag="Session",
        summary="Sign in with a browser",
        description="A page to go to, not one to fetch: the issuer shows its own pages, and sends the browser back for a session.",
        access="public",
        parameters={
            "return_to": {
                **TEXT,
                "default": "/dashboard",
                "description": "Where the browser goes then: a path here, or an address at one of the origins that CORS permits.",
            }
        },
        response=None,
        redirects="To the issuer.",
        errors=_ERRORS,
    ),
    CallerRoute(
        method="GET",
        path="/admin/v1/sign-in/callback",
        id="complete_sign_in",
        tag="Session",
        summary="Where the issuer sends the browser back to",
        description="The redirect URI to register with the issuer.",
        access="public",
        parameters={"state": TEXT, "code": TEXT, "iss": TEXT, "error": TEXT, "error_description": TEXT},
        response=None,
        redirects="To where `return_to` said, with the cookie of a session.",
        errors=_ERRORS,
    ),
    CallerRoute(
        method="POST",
        path="/admin/v1/sign-in/device",
        id="begin_device_sign_in",
        tag="Session",
        summary="Sign in with a command",
        description="Show `user_code` and `verification_uri`, where a person enters it in a browser, and poll with `device_code` meanwhile"
        " (RFC 8628, through this gateway). `narthex login` does.",
        access="public",
        response=object_with(device_code=TEXT, user_code=TEXT, verification_uri=TEXT, expires_in=COUNT, interval=COUNT),
        errors=(*_ERRORS, 413, 501),
    ),
    CallerRoute(
        method="POST",
        path="/admin/v1/sign-in/device/token",
        id="complete_device_sign_in",
        tag="Session",
        summary="Poll whether the person has signed in",
        description="The token of a session, which is shown once: it goes into `Authorization: Bearer <token>`.",
        access="public",
        body=[DeviceTokenBody],
        example={"device_code": "as /admin/v1/sign-in/device returned it"},
        response={
            "anyOf": [
                object_with(token=TEXT, name=TEXT, expires_at={"type": "string", "format": "date-time"}),
                object_with(status={"type": "string", "const": "pending"}, interval=COUNT),
            ]
        },
        also={202: "Not yet: `interval` seconds later it may be."},
        errors=(*_ERRORS, 413, 501),
    ),
    CallerRoute(
        method="GET",
        path="/admin/v1/sign-in/ways",
        id="show_sign_in_ways",
        tag="Session",
        summary="Show how a browser signs in at this address",
        access="public",
        response=object_with(issuer={"type": "boolean"}, key=TEXT_OR_NULL),
        errors=(500,),
    ),
    CallerRoute(
        method="POST",
        path="/admin/v1/sign-in/key",
        id="sign_in_with_key",
        tag="Session",
        summary="Sign in a browser with a key",
        description="The response sets the cookie of a session, which ends with the key and may do no more. Only pages of"
        " this gateway may ask for it.",
        access="public",
        body=[KeySignIn],
        example={"key": "nx-0123456789ab-…"},
        response=_SIGNED_IN,
        errors=(*_KEY_ERRORS, 413),
    ),
    CallerRoute(
        method="POST",
        path="/admin/v1/sign-in/once",
        id="sign_in_once",
        tag="Session",
        summary="Sign in a browser with a one-time link",
        description="`narthex up` prints such a link. It works once, for some minutes.",
        access="public",
        body=[OnceSignIn],
        example={"code": "as the link has it"},
        response=_SIGNED_IN,
        errors=(*_KEY_ERRORS, 413),
    ),
)
