"""Signing in to the dashboard with a key, or with the one-time link that `narthex up` prints.

GET /admin/v1/sign-in/ways, POST /admin/v1/sign-in/key, POST /admin/v1/sign-in/once. The key is exchanged for the cookie of a session:
no script can read that, and the browser keeps no key.
"""

import logging
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, Router, get, post
from litestar.datastructures import Cookie
from litestar.exceptions.http_exceptions import RequestEntityTooLarge
from msgspec import Meta, Struct
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from app.api.callers.authentication import check_scope, identify_session
from app.api.rest.admin_authentication import page_origin, session_cookie_name
from app.api.rest.request_parsing import parse_admin_body
from app.api.server.client_ip import client_address
from app.api.server.path_segments import decode_slashes
from app.api.server.request_id import request_id_of
from app.api.server.response_headers import request_headers, to_litestar_headers
from app.api.sign_in.attempt_limit import AttemptLimit
from app.api.sign_in.pages import handle_error
from app.gateway.pipeline.gateway import Gateway
from app.gateway.routing.permissions import Address
from app.store.access.key_sessions import SignedInWithKey, create_key_session, find_one_time_code, use_one_time_code
from app.store.keys.key_format import hash_key, key_prefix
from app.store.postgres.admin_transactions import admin_transaction
from app.store.postgres.audit_log import Author
from app.store.postgres.db_errors import DB_UNAVAILABLE_ERRORS
from providers.canonical.errors import BodyTooLarge, CallerCredentialRequired, InvalidRequest, NarthexError, NotAllowed, Unavailable

log = logging.getLogger(__name__)

PATH = "/admin/v1/sign-in"
_Request = Request[Any, Any, Any]
_TRANSACTION_TIMEOUT_S = 5.0
_MAX_BODY_BYTES = 4 * 1024
_NO_COOKIES = (
    "This browser cannot be signed in from here: an operator must set NARTHEX_PUBLIC_URL to the address that browsers use. On the machine"
    " itself, http://127.0.0.1 and http://localhost work without."
)

_NO_SUCH_LINK = "This link was used already, or has expired: sign in with an admin key. `narthex up` keeps one in HOME/admin-key."


class KeySignIn(Struct, frozen=True, forbid_unknown_fields=True):
    """The key with which somebody signs in: an admin key, or a caller's, which sees what is its own."""

    key: Annotated[str, Meta(min_length=1, max_length=200)]


class OnceSignIn(Struct, frozen=True, forbid_unknown_fields=True):
    """The code of a one-time link, which is used up once it has signed somebody in."""

    code: Annotated[str, Meta(min_length=1, max_length=200)]


class SignInWays(Struct, frozen=True):
    """How a browser signs in at this address. `key` is why a key does not work here, or null if it does."""

    issuer: bool
    key: str | None


class SignedInBrowser(Struct, frozen=True):
    """The session's cookie is in the response. It ends at `expires_at`, and earlier if it is not used, or when the key is revoked."""

    name: str
    expires_at: str


class _KeySignInRoutes:
    def __init__(self, gateway: Gateway, database: AsyncEngine) -> None:
        self._settings = gateway.settings
        self._has_issuer = bool(gateway.settings.oidc_issuer and gateway.settings.oidc_client_id and gateway.fleet.vault.newest_key_id)
        self._snapshot_cache = gateway.snapshot_cache
        self._database = database
        self._limit = AttemptLimit()

    async def ways(self, request: _Request) -> Response[bytes]:
        has_issuer = self._has_issuer and bool(self._settings.public_url)
        return _respond(request, SignInWays(has_issuer, None if page_origin(request, self._settings.public_url) else _NO_COOKIES))

    async def with_key(self, request: _Request) -> Response[bytes]:
        self._check_page(request)
        key = parse_admin_body(await _read_body(request), KeySignIn).key.strip()
        async with self._limit.attempt(self._address(request)):
            prefix = key_prefix(key)
            if prefix is None:
                raise CallerCredentialRequired(
                    "This is no API key: a key begins with `nx-`. `narthex up` keeps an admin key in HOME/admin-key."
                )
            return await self._begin(request, hash_key(key), prefix)

    async def once(self, request: _Request) -> Response[bytes]:
        self._check_page(request)
        code = parse_admin_body(await _read_body(request), OnceSignIn).code
        async with self._limit.attempt(self._address(request)):
            async with self._transaction() as connection:
                found = await find_one_time_code(connection, code)
            if found is None:
                raise CallerCredentialRequired(_NO_SUCH_LINK)
            return await self._begin(request, found.hash, found.prefix, code)

    async def _begin(self, request: _Request, hash: bytes, prefix: str, code: str | None = None) -> Response[bytes]:
        """Begin a session of a key that may be used here; a one-time `code` is used up with it, and by nothing less."""
        caller = await identify_session(self._snapshot_cache, request.scope, hash, prefix)
        check_scope(self._snapshot_cache, request.scope, caller, decode_slashes(request.scope["path"]) if caller.admin else None)
        address = self._address(request)
        agent, id = request.headers.get("user-agent"), request_id_of(request.scope)
        author = Author("key", caller.prefix, caller.prefix, "sign_in", address and str(address), agent, id)
        async with self._transaction() as connection:
            if code is not None and not await use_one_time_code(connection, code):
                raise CallerCredentialRequired(_NO_SUCH_LINK)
            signed_in = await create_key_session(connection, author, lasts_s=self._settings.session_max_s)
            if signed_in is None:
                raise CallerCredentialRequired("This key is not valid: it is unknown, expired or revoked.")
        answer = SignedInBrowser(caller.prefix, signed_in.expires_at.isoformat())
        return _respond(request, answer, self._cookie(signed_in))

    def _check_page(self, request: _Request) -> None:
        """Raises InvalidRequest where cookies do not count, NotAllowed if another site's page would sign its visitor in here."""
        own = page_origin(request, self._settings.public_url)
        if own is None:
            raise InvalidRequest(_NO_COOKIES)
        origin = request.headers.get("origin")
        if origin is not None and origin.lower() != own:
            raise NotAllowed("Only a page of this gateway signs in with a key.")

    def _transaction(self) -> AbstractAsyncContextManager[AsyncConnection]:
        return admin_transaction(self._database, _TRANSACTION_TIMEOUT_S, read_only=False)

    def _cookie(self, signed_in: SignedInWithKey) -> Cookie:
        url, lasts_s = self._settings.public_url, int(self._settings.session_max_s)
        name, is_secure = session_cookie_name(url), url.startswith("https:")
        return Cookie(key=name, value=signed_in.token, path="/", max_age=lasts_s, httponly=True, samesite="lax", secure=is_secure)

    def _address(self, request: _Request) -> Address | None:
        raw_headers: list[tuple[bytes, bytes]] = request.scope["headers"]  # pyright: ignore[reportAssignmentType]
        client = request.scope["client"]
        return client_address(client[0] if client else None, raw_headers, self._settings.trusted_proxies.parsed)


def routes(gateway: Gateway, database: AsyncEngine) -> Router:
    """The routes of signing in with a key. `database` is the admin API's pool."""
    key_sign_in = _KeySignInRoutes(gateway, database)

    async def answer(serve: Callable[[_Request], Coroutine[Any, Any, Response[bytes]]], request: _Request) -> Response[bytes]:
        try:
            return await serve(request)
        except DB_UNAVAILABLE_ERRORS as fault:
            log.warning("the database is unavailable", extra={"fault": repr(fault)})
            raise Unavailable("The gateway's database is unavailable at the moment.", retry_after_s=2) from None

    @get("/ways")
    async def show_sign_in_ways(request: _Request) -> Response[bytes]:
        return await key_sign_in.ways(request)

    @post("/key", status_code=200)
    async def sign_in_with_key(request: _Request) -> Response[bytes]:
        return await answer(key_sign_in.with_key, request)

    @post("/once", status_code=200)
    async def sign_in_once(request: _Request) -> Response[bytes]:
        return await answer(key_sign_in.once, request)

    handlers = [show_sign_in_ways, sign_in_with_key, sign_in_once]
    return Router(PATH, route_handlers=handlers, exception_handlers={NarthexError: handle_error}, request_max_body_size=_MAX_BODY_BYTES)


async def _read_body(request: _Request) -> bytes:
    try:
        return await request.body()
    except RequestEntityTooLarge:
        raise BodyTooLarge(f"The body is too large: this route takes at most {_MAX_BODY_BYTES:,} bytes.") from None


def _respond(request: _Request, body: Struct, *cookies: Cookie) -> Response[bytes]:
    headers = {**to_litestar_headers(request_headers(request_id_of(request.scope))), "cache-control": "no-store"}
    content = msgspec.json.encode(body)
    return Response(content, status_code=200, media_type="application/json", headers=headers, cookies=list(cookies))
