"""Signing in with OpenID Connect: by a browser (authorization code with PKCE), and by a command through the issuer's device flow.

GET /admin/v1/sign-in, GET /admin/v1/sign-in/callback, POST /admin/v1/sign-in/device, POST /admin/v1/sign-in/device/token. They take no
key. The issuer's tokens are used once and kept nowhere; what a browser or a command keeps is a session of the gateway's own.
"""

import hashlib
import logging
import time
from base64 import urlsafe_b64encode
from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, Response, Router, get, post
from litestar.datastructures import Cookie
from litestar.exceptions.http_exceptions import RequestEntityTooLarge
from msgspec import Meta, Struct
from sqlalchemy.ext.asyncio import AsyncEngine

from app.api.rest.admin_authentication import session_cookie_name
from app.api.rest.request_parsing import parse_admin_body, parse_query
from app.api.server.client_ip import client_address
from app.api.server.request_id import request_id_of
from app.api.server.response_headers import request_headers, to_litestar_headers
from app.api.sign_in.attempt_limit import AttemptLimit
from app.api.sign_in.attempts import BrowserSignIns, DeviceSignIn, begin, read_device_handle, write_device_handle
from app.api.sign_in.id_token import identify
from app.api.sign_in.issuer import DeviceCodes, Issuer
from app.api.sign_in.pages import handle_error
from app.api.sign_in.return_to import check_return_to
from app.domain import uuid7
from app.gateway.pipeline.gateway import Gateway
from app.gateway.routing.permissions import Address
from app.store.access.sign_ins import MAX_USERS, AccountDisabled, Device, Person, SignedIn, TooManyUsers, sign_in
from app.store.access.tokens import SessionKind
from app.store.postgres.admin_transactions import admin_transaction
from app.store.postgres.db_errors import DB_UNAVAILABLE_ERRORS
from providers.canonical.credential_masking import mask_credentials
from providers.canonical.errors import BodyTooLarge, InvalidRequest, NarthexError, NotAllowed, Unavailable, UnknownRoute

log = logging.getLogger(__name__)

PATH = "/admin/v1/sign-in"
_CALLBACK = f"{PATH}/callback"
_TRANSACTION_TIMEOUT_S = 5.0
_MAX_PARAMETER_CHARACTERS = 4_000  # a code of an issuer that puts everything into it
_MAX_BODY_BYTES = 16 * 1024
_MAX_DEVICE_CODE_S = 1800
_SHOWN_REASON_CHARACTERS = 300


class SignInQuery(Struct, frozen=True, forbid_unknown_fields=True):
    return_to: str | None = None


class DeviceTokenBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The sign-in to complete. `device_code` is the one that POST /admin/v1/sign-in/device returned."""

    device_code: Annotated[str, Meta(min_length=1, max_length=8_000)]


class DeviceAuthorization(Struct, frozen=True, omit_defaults=True):
    """The codes and addresses of a device sign-in, named as in RFC 8628.

    The person opens `verification_uri` and enters `user_code`. Their command then sends `device_code` every
    `interval` seconds.
    """

    device_code: str
    user_code: str
    verification_uri: str
    expires_in: int
    interval: int
    verification_uri_complete: str | None = None


class DevicePending(Struct, frozen=True):
    """The person has not signed in yet: ask again in `interval` seconds."""

    status: Literal["pending"]
    interval: int


class DeviceSignedIn(Struct, frozen=True):
    """The completed sign-in. `token` is shown this once; send it as `Authorization: Bearer <token>`."""

    token: str
    name: str
    expires_at: str


class _SignInRoutes:
    def __init__(self, gateway: Gateway, database: AsyncEngine) -> None:
        self._settings = gateway.settings
        self._vault = gateway.fleet.vault
        self._database = database
        self._issuer = Issuer(gateway.settings, gateway.transport)
        self._limit = AttemptLimit()
        self._sign_ins = BrowserSignIns(self._vault, self._settings.public_url)
        self._redirect_uri = self._settings.public_url + _CALLBACK

    def check_configured(self, *, for_browsers: bool) -> None:
        """Raises UnknownRoute, which names the settings that are missing."""
        settings = self._settings
        needed = {
            "NARTHEX_OIDC_ISSUER": settings.oidc_issuer,
            "NARTHEX_OIDC_CLIENT_ID": settings.oidc_client_id,
            "NARTHEX_SECRET_KEY": self._vault.newest_key_id,
            "NARTHEX_PUBLIC_URL": settings.public_url,
        }
        missing = [name for name, value in needed.items() if not value]
        # Commands can sign in without NARTHEX_PUBLIC_URL; where anything else is missing, the message names it with the rest.
        if missing and (for_browsers or missing != ["NARTHEX_PUBLIC_URL"]):
            raise UnknownRoute(
                f"Nobody can sign in here: an operator must set {', '.join(missing)}. Until then, the admin API takes admin keys and tokens"
                " of service accounts."
            )

    async def begin(self, request: Request[Any, Any, Any]) -> Response[bytes]:
        self.check_configured(for_browsers=True)
        async with self._limit.attempt(self._address(request)):
            landing_page = "/dashboard" if self._settings.dashboard == "on" else "/docs"
            target = parse_query(request.scope["query_string"], SignInQuery).return_to or landing_page
            begun = begin(check_return_to(target, self._settings.public_url, self._settings.cors_origins.parsed - {"*"}))
            parameters = {
                "redirect_uri": self._redirect_uri,
                "state": begun.state,
                "nonce": begun.nonce,
                "code_challenge": urlsafe_b64encode(hashlib.sha256(begun.verifier.encode()).digest()).decode().rstrip("="),
                "code_challenge_method": "S256",
            }
            url = await self._issuer.authorization_url(parameters)
            return _redirect(url, self._sign_ins.cookies(request, begun), uuid7.mint())

    async def complete(self, request: Request[Any, Any, Any]) -> Response[bytes]:
        self.check_configured(for_browsers=True)
        async with self._limit.attempt(self._address(request)):
            begun = self._sign_ins.find(request, _parameter(request, "state") or "")
            if (error := _parameter(request, "error")) is not None:
                raise _refused_by_issuer(error, _parameter(request, "error_description"))
            if (answered_by := _parameter(request, "iss")) not in (None, self._settings.oidc_issuer):  # RFC 9207
                raise InvalidRequest(f"This answer is from another issuer: {mask_credentials(str(answered_by))!r:.200}.", param="iss")
            code = _parameter(request, "code")
            if not code:
                raise InvalidRequest("The issuer's answer has no `code`.", param="code")
            tokens = await self._issuer.redeem_code(code, begun.verifier, self._redirect_uri)
            person = await identify(self._issuer, self._settings, tokens, begun.nonce)
            id = request_id_of(request.scope)
            signed_in = await self._sign_in(request, person, "browser", id)
            return _redirect(begun.return_to, [self._session_cookie(signed_in), self._sign_ins.cookie_that_ends(begun)], id)

    async def begin_device(self, request: Request[Any, Any, Any]) -> Response[bytes]:
        self.check_configured(for_browsers=False)
        if (await _read_body(request)).strip() not in (b"", b"{}"):
            raise InvalidRequest("This route takes no body.")
        async with self._limit.attempt(self._address(request)):
            codes = await self._issuer.begin_device_sign_in()
        return _respond(self._device_authorization(codes))

    async def complete_device(self, request: Request[Any, Any, Any]) -> Response[bytes]:
        self.check_configured(for_browsers=False)
        body = parse_admin_body(await _read_body(request), DeviceTokenBody)
        async with self._limit.attempt(self._address(request)):
            begun = read_device_handle(self._vault, body.device_code)
            answer = await self._issuer.poll_device_sign_in(begun.device_code)
            match answer:
                case "pending":
                    return _respond(DevicePending("pending", begun.interval_s), 202)
                case "slow_down":
                    return _respond(DevicePending("pending", begun.interval_s + 5), 202)
                case tokens:
                    person = await identify(self._issuer, self._settings, tokens, None)
            id = request_id_of(request.scope)
            signed_in = await self._sign_in(request, person, "cli", id)
            return _respond(DeviceSignedIn(signed_in.token, signed_in.name, signed_in.expires_at.isoformat()), id=id)

    def _device_authorization(self, codes: DeviceCodes) -> DeviceAuthorization:
        lasts_s = min(codes.expires_in, _MAX_DEVICE_CODE_S)
        interval_s = min(max(codes.interval, 1), 60)
        handle = write_device_handle(self._vault, DeviceSignIn(codes.device_code, interval_s, time.time() + lasts_s))
        return DeviceAuthorization(handle, codes.user_code, codes.verification_uri, lasts_s, interval_s, codes.verification_uri_complete)

    async def _sign_in(self, request: Request[Any, Any, Any], person: Person, kind: SessionKind, id: str) -> SignedIn:
        address = self._address(request)
        device = Device(kind, None if address is None else str(address), request.headers.get("user-agent"), id)
        try:
            async with admin_transaction(self._database, _TRANSACTION_TIMEOUT_S, read_only=False) as connection:
                return await sign_in(connection, person, device, lasts_s=self._settings.session_max_s)
        except AccountDisabled:
            log.warning("a disabled user was refused", extra={"user": person.name, "request": id})
            raise NotAllowed("An administrator has disabled your account here.") from None
        except TooManyUsers:
            raise Unavailable(
                f"There are {MAX_USERS:,} users, and no more are taken: restrict at the issuer who may use this client."
            ) from None
        except DB_UNAVAILABLE_ERRORS as fault:
            log.warning("the database is unavailable", extra={"fault": repr(fault)})
            raise Unavailable("The gateway's database is unavailable at the moment.", retry_after_s=2) from None

    def _session_cookie(self, signed_in: SignedIn) -> Cookie:
        url = self._settings.public_url
        lasts_s, is_secure = int(self._settings.session_max_s), url.startswith("https:")
        name = session_cookie_name(url)
        return Cookie(key=name, value=signed_in.token, path="/", max_age=lasts_s, httponly=True, samesite="lax", secure=is_secure)

    def _address(self, request: Request[Any, Any, Any]) -> Address | None:
        raw_headers: list[tuple[bytes, bytes]] = request.scope["headers"]  # pyright: ignore[reportAssignmentType]
        client = request.scope["client"]
        return client_address(client[0] if client else None, raw_headers, self._settings.trusted_proxies.parsed)


def routes(gateway: Gateway, database: AsyncEngine) -> Router:
    """The routes of signing in with the company's identity provider, by a browser or a device. `database` is the admin API's pool."""
    sign_in_routes = _SignInRoutes(gateway, database)

    @get("/")
    async def begin_sign_in(request: Request[Any, Any, Any]) -> Response[bytes]:
        return await sign_in_routes.begin(request)

    @get("/callback")
    async def complete_sign_in(request: Request[Any, Any, Any]) -> Response[bytes]:
        return await sign_in_routes.complete(request)

    @post("/device", status_code=200)
    async def begin_device_sign_in(request: Request[Any, Any, Any]) -> Response[bytes]:
        return await sign_in_routes.begin_device(request)

    @post("/device/token", status_code=200)
    async def complete_device_sign_in(request: Request[Any, Any, Any]) -> Response[bytes]:
        return await sign_in_routes.complete_device(request)

    handlers = [begin_sign_in, complete_sign_in, begin_device_sign_in, complete_device_sign_in]
    return Router(PATH, route_handlers=handlers, exception_handlers={NarthexError: handle_error}, request_max_body_size=_MAX_BODY_BYTES)


def _parameter(request: Request[Any, Any, Any], name: str) -> str | None:
    """A parameter of the issuer's answer, which may have others that we do not know. Raises InvalidRequest."""
    values = request.query_params.getall(name, [])
    if len(values) > 1 or any(len(value) > _MAX_PARAMETER_CHARACTERS for value in values):
        raise InvalidRequest(f"`{name}` appears several times, or is too long.", param=name)
    return values[0] if values else None


def _refused_by_issuer(error: str, description: str | None) -> NarthexError:
    reason = "".join(each for each in f"{error} {description or ''}".strip() if each.isprintable())
    shown = mask_credentials(reason[:_SHOWN_REASON_CHARACTERS]).rstrip(".")
    return NotAllowed(f"The issuer did not sign you in: {shown}.")


async def _read_body(request: Request[Any, Any, Any]) -> bytes:
    try:
        return await request.body()
    except RequestEntityTooLarge:
        raise BodyTooLarge(f"The body is too large: this route takes at most {_MAX_BODY_BYTES:,} bytes.") from None


def _redirect(url: str, cookies: list[Cookie], id: str) -> Response[bytes]:
    headers = {**to_litestar_headers(request_headers(id)), "location": url, "cache-control": "no-store"}
    return Response(b"", status_code=303, media_type="text/plain", headers=headers, cookies=cookies)


def _respond(body: Struct, status: int = 200, *, id: str | None = None) -> Response[bytes]:
    headers = {**to_litestar_headers(request_headers(uuid7.mint() if id is None else id)), "cache-control": "no-store"}
    return Response(msgspec.json.encode(body), status_code=status, media_type="application/json", headers=headers)
