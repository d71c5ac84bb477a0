"""Who uses the admin API: by a key, a service account's token, a session of the command line, or a browser's cookie.

A key that is no admin key may use what its caller may do elsewhere: its own requests, limits and usage, and the playground.

A browser sends the cookie with requests that another site's page makes, too. So with a cookie a change is served only if the browser says
that the page is of this origin, or of one in NARTHEX_CORS_ORIGINS. Without NARTHEX_PUBLIC_URL, the origin is the one of this request, if
it is an address of this machine alone: any other name may be somebody else's, who has it resolve to here.
"""

import logging
import re
from collections.abc import Collection
from typing import Any, NamedTuple

from litestar import Request

from app.api.callers.authentication import (
    ADMIN_KEY_NEEDED,
    check_key_headers,
    check_scope,
    identify_scope,
    identify_session,
    read_key,
)
from app.api.server.path_segments import decode_slashes
from app.domain.callers import Caller
from app.settings import PublicUrl
from app.store.access.key_sessions import KeySession
from app.store.access.roles import Grant, Principal
from app.store.access.token_lookups import TokenLookups, TooManyLookups
from app.store.access.tokens import PREFIXES
from app.store.configuration.snapshot_cache import SnapshotCache
from app.store.postgres.db_errors import DB_UNAVAILABLE_ERRORS
from providers.canonical.errors import CallerCredentialRequired, InvalidRequest, NotAllowed, Unavailable

log = logging.getLogger(__name__)

_TOKEN_PREFIXES = (PREFIXES["service_account"], PREFIXES["cli"])
_LOOPBACK_HOST = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?")
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
# One message for all reasons: it does not reveal which tokens exist.
_INVALID = "This token is not valid: it is unknown, expired or revoked, or its holder is disabled."
_SIGNED_OUT = "You are not signed in, or your session has ended: sign in again at /admin/v1/sign-in, or at /dashboard."


class Holder(NamedTuple):
    """Who sends a request. `caller`: of the key that it was sent with, or that its session began with; None: it has no key."""

    principal: Principal
    caller: Caller | None


class AdminAuthentication:
    """Finds out who sends a request to the admin API, by a key, a token or a session's cookie.

    The pages have the origin of `public_url`; if that is empty, nobody can sign in with a browser. `origins` are those of other permitted
    pages.
    """

    def __init__(self, snapshot_cache: SnapshotCache, tokens: TokenLookups, public_url: PublicUrl, origins: Collection[str]) -> None:
        self._snapshot_cache = snapshot_cache
        self._tokens = tokens
        self._public_url = public_url
        self._origins = frozenset((public_url.origin, *origins)) if public_url else frozenset(origins)

    async def authenticate_principal(self, request: Request[Any, Any, Any], caller_route: str | None = None) -> Principal:
        """Raises CallerCredentialRequired; NotAllowed; Unavailable if it cannot be checked now.

        `caller_route`: see Operation.
        """
        return (await self.authenticate_holder(request, caller_route)).principal

    async def authenticate_holder(self, request: Request[Any, Any, Any], caller_route: str | None) -> Holder:
        """The principal, and the caller of the key that the request or its session has. Raises as authenticate_principal does.

        Such a key counts as if the request carried it.
        """
        headers = dict(check_key_headers(request.scope))
        if b"authorization" not in headers and b"x-api-key" not in headers and (cookie := self._read_cookie(request)) is not None:
            self._check_origin(request)
            found = await self._find(cookie, _SIGNED_OUT)
            if isinstance(found, Principal):
                return Holder(found, None)
            caller = await identify_session(self._snapshot_cache, request.scope, found.hash, found.prefix)
            return self._holder_of_key(request, caller, found.id, caller_route)
        key = read_key(headers)
        if key.startswith(_TOKEN_PREFIXES):
            found = await self._find(key, _INVALID)
            assert isinstance(found, Principal), "sessions of keys are in cookies alone"
            return Holder(found, None)
        caller = await identify_scope(self._snapshot_cache, request.scope)
        return self._holder_of_key(request, caller, None, caller_route)

    def check_key(self, request: Request[Any, Any, Any], caller: Caller, path: str | None) -> None:
        """Raises what a request with this key at this path would raise if it came from where this one does."""
        check_scope(self._snapshot_cache, request.scope, caller, path)

    def _holder_of_key(self, request: Request[Any, Any, Any], caller: Caller, session_id: str | None, caller_route: str | None) -> Holder:
        if caller.admin:
            self.check_key(request, caller, decode_slashes(request.scope["path"]))
            return Holder(Principal("key", caller.prefix, caller.prefix, (Grant("owner"),), session_id), caller)
        if caller_route is None:
            self.check_key(request, caller, decode_slashes(request.scope["path"]))
            raise NotAllowed(ADMIN_KEY_NEEDED)
        self.check_key(request, caller, caller_route or None)
        return Holder(Principal("caller", caller.prefix, caller.prefix, (), session_id), caller)

    async def _find(self, token: str, invalid: str) -> Principal | KeySession:
        try:
            principal = await self._tokens.find(token)
        except TooManyLookups:
            raise Unavailable(
                "The token cannot be checked at the moment: too many unknown tokens are being tried.", retry_after_s=1
            ) from None
        except Exception as fault:  # a library's error over a lost connection may be of any kind, and the token is neither good nor bad
            if not isinstance(fault, DB_UNAVAILABLE_ERRORS):
                log.exception("a token could not be looked up")
            raise Unavailable(
                "The token cannot be checked at the moment: the gateway's database is unavailable.", retry_after_s=2
            ) from None
        if principal is None:
            raise CallerCredentialRequired(invalid)
        return principal

    def _read_cookie(self, request: Request[Any, Any, Any]) -> str | None:
        value = request.cookies.get(session_cookie_name(self._public_url)) if page_origin(request, self._public_url) else None
        return value if value is not None and value.startswith(PREFIXES["browser"]) else None

    def _check_origin(self, request: Request[Any, Any, Any]) -> None:
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
        if len(request.headers.getall("origin", [])) > 1:
            raise InvalidRequest("The header Origin was sent several times.")
        if origin is not None:
            is_permitted = origin.lower() in self._origins or origin.lower() == page_origin(request, self._public_url)
        else:
            is_permitted = request.method in _SAFE_METHODS or site == "same-origin"
        if not is_permitted:
            raise NotAllowed(
                "This request comes from a page of another origin, or its browser does not say from which. Pages of NARTHEX_PUBLIC_URL and"
                " NARTHEX_CORS_ORIGINS may use a session; programs send a token as `Authorization: Bearer <token>`."
            )


def page_origin(request: Request[Any, Any, Any], public_url: PublicUrl) -> str | None:
    """The origin of this gateway's own pages, as browsers write it. None: it has none for this request, and cookies do not count."""
    if public_url:
        return public_url.origin
    host = request.headers.get("host", "").lower()
    return f"{request.scope['scheme']}://{host}" if _LOOPBACK_HOST.fullmatch(host) else None


def session_cookie_name(public_url: PublicUrl) -> str:
    """Returns the cookie's name. Over https it begins with __Host-.

    Browsers accept such a cookie over https only, and only from this host.
    """
    return cookie_name(public_url, "narthex_session")


def cookie_name(public_url: PublicUrl, name: str) -> str:
    return f"__Host-{name}" if public_url.startswith("https:") else name
