"""The issuer: its discovery document and keys, which are remembered for a while, and the questions that a client may send it.

Sources: OpenID Connect Core 1.0 and Discovery 1.0, https://www.rfc-editor.org/rfc/rfc6749, rfc7636 (PKCE), rfc8628 (devices), read 2026-11.
"""

import asyncio
import base64
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar
from urllib.parse import quote, urlencode

import httpx2
import msgspec
from joserfc.errors import JoseError
from joserfc.jwk import Key, import_key
from msgspec import Struct

from app.settings import Settings
from providers.canonical.credential_masking import mask_credentials
from providers.canonical.errors import InvalidRequest, InvalidUpstreamResponse, NotAllowed, OperationNotSupported, Unavailable
from providers.canonical.raw_json import DECODE_ERRORS
from providers.transport.read_body import read_body
from providers.transport.response_stream import ResponseTooLarge

log = logging.getLogger(__name__)

_T = TypeVar("_T")

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"

_DISCOVERY_KEPT_S = 600.0
_KEYS_KEPT_S = 3600.0
_MAX_KEYS = 100
_MAX_BYTES = 512 * 1024
_MAX_SHOWN_CHARACTERS = 300
_TIMEOUT = {"connect": 5.0, "first": 10.0, "read": 10.0, "write": 10.0, "pool": 5.0, "total": 10.0}
_KEY_TYPES = ("RSA", "EC", "OKP")
# Of one field of a key: RSA's modulus of 8,192 bits has 1,366. Reading a key takes time with the square of its length.
_MAX_KEY_CHARACTERS = 2_000


class Discovery(Struct, frozen=True):
    """The fields that are read from the issuer's discovery document."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None = None
    device_authorization_endpoint: str | None = None
    token_endpoint_auth_methods_supported: list[str] | None = None


class IssuedTokens(Struct, frozen=True):
    """The issuer's answer to a grant. Used at once and kept nowhere."""

    id_token: str
    access_token: str | None = None

    def __repr__(self) -> str:
        return "IssuedTokens(...)"


class DeviceCodes(Struct, frozen=True):
    """The issuer's response that begins a device sign-in (RFC 8628, section 3.2)."""

    device_code: str
    user_code: str
    verification_uri: str
    expires_in: int
    verification_uri_complete: str | None = None
    interval: int = 5


class _Refusal(Struct, frozen=True):
    error: str = ""
    error_description: str = ""


class _KeySet(Struct, frozen=True):
    keys: list[dict[str, Any]]


class Issuer:
    """The issuer of the settings. Its methods raise Unavailable if it cannot be reached, InvalidUpstreamResponse for an odd answer."""

    def __init__(self, settings: Settings, transport: httpx2.AsyncBaseTransport) -> None:
        self._settings = settings
        self._transport = transport
        self._lock = asyncio.Lock()
        self._discovery: Discovery | None = None
        self._discovery_until = 0.0
        self._keys: list[Key] = []
        self._keys_until = 0.0
        self._failure: Unavailable | InvalidUpstreamResponse | None = None
        self._failed_at = 0.0

    async def discover(self) -> Discovery:
        began = time.monotonic()
        async with self._lock:
            if self._discovery is None or time.monotonic() > self._discovery_until:
                if self._failure is not None and self._failed_at > began:
                    # It failed while this one waited: an issuer that hangs would keep each of them waiting after the other.
                    raise self._failure
                try:
                    self._discovery = await self._fetch_discovery()
                except (Unavailable, InvalidUpstreamResponse) as failure:
                    self._failure, self._failed_at = failure.with_traceback(None), time.monotonic()
                    raise
                self._discovery_until = time.monotonic() + _DISCOVERY_KEPT_S
            return self._discovery

    async def authorization_url(self, parameters: Mapping[str, str]) -> str:
        """Returns the URL that a browser opens to sign in."""
        endpoint = (await self.discover()).authorization_endpoint
        client = {"response_type": "code", "client_id": self._settings.oidc_client_id, "scope": self._settings.oidc_scopes}
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode({**client, **parameters})}"

    async def redeem_code(self, code: str, verifier: str, redirect_uri: str) -> IssuedTokens:
        """Raises InvalidRequest for a code that was used before, has expired, or is of another sign-in."""
        form = {"grant_type": "authorization_code", "code": code, "code_verifier": verifier, "redirect_uri": redirect_uri}
        answer = await self._redeem(form)
        if isinstance(answer, IssuedTokens):
            return answer
        if answer.error in ("invalid_grant", "invalid_request"):
            raise InvalidRequest(f"The issuer does not accept this sign-in, which may have been completed before: {_reason(answer)}.")
        raise self._refused(answer)

    async def begin_device_sign_in(self) -> DeviceCodes:
        """Raises OperationNotSupported if the issuer has no device flow."""
        endpoint = (await self.discover()).device_authorization_endpoint
        if endpoint is None:
            raise OperationNotSupported(
                "The issuer has no device flow (its discovery document names no device_authorization_endpoint), so the command line cannot"
                " sign in: use a token of a service account."
            )
        status, body = await self._send("POST", self._checked(endpoint), form={"scope": self._settings.oidc_scopes})
        if status != 200:
            raise self._refused(_decode(body, _Refusal, "device authorization"))
        codes = _decode(body, DeviceCodes, "device authorization")
        links = (codes.verification_uri, codes.verification_uri_complete or codes.verification_uri)
        if not all(link.startswith(("https://", "http://")) and link.isprintable() and len(link) <= 2_000 for link in links):
            raise InvalidUpstreamResponse("The issuer's address for entering the code is not one that a browser can open.")
        if not (codes.user_code.isprintable() and 0 < len(codes.user_code) <= 100 and codes.expires_in > 0):
            raise InvalidUpstreamResponse("The issuer's answer to a device sign-in is not valid.")
        return codes

    async def poll_device_sign_in(self, device_code: str) -> IssuedTokens | Literal["pending", "slow_down"]:
        """Raises NotAllowed if the person refused, InvalidRequest if the code has expired or was used."""
        answer = await self._redeem({"grant_type": DEVICE_GRANT, "device_code": device_code})
        if isinstance(answer, IssuedTokens):
            return answer
        match answer.error:
            case "authorization_pending":
                return "pending"
            case "slow_down":
                return "slow_down"
            case "access_denied":
                raise NotAllowed("The sign-in was refused at the issuer.")
            case "expired_token" | "invalid_grant":
                raise InvalidRequest("This sign-in has expired, or was completed before: begin again.")
            case _:
                raise self._refused(answer)

    async def user_info(self, access_token: str) -> Mapping[str, Any]:
        """Returns what the issuer says of a person beside the ID token; {} without a userinfo endpoint."""
        endpoint = (await self.discover()).userinfo_endpoint
        if endpoint is None:
            return {}
        status, body = await self._send("GET", self._checked(endpoint), bearer=access_token)
        if status != 200:
            raise InvalidUpstreamResponse(f"The issuer does not say who this is: its userinfo endpoint answered with status {status}.")
        return _decode(body, dict[str, Any], "userinfo")

    async def keys_for(self, id: str | None, *, older_than: Sequence[Key] | None = None) -> list[Key]:
        """The keys that may have signed a token which names this key, or none.

        `older_than` are keys that did not sign it; newer ones are fetched, unless that was done meanwhile.
        """
        url = self._checked((await self.discover()).jwks_uri)
        async with self._lock:
            is_stale = time.monotonic() > self._keys_until or (older_than is not None and all(key in self._keys for key in older_than))
            if is_stale:
                self._keys = await self._fetch_keys(url)
                self._keys_until = time.monotonic() + _KEYS_KEPT_S
            return [key for key in self._keys if id is None or key.kid in (id, None)]

    async def _fetch_discovery(self) -> Discovery:
        url = f"{self._settings.oidc_issuer.rstrip('/')}/.well-known/openid-configuration"
        status, body = await self._send("GET", url)
        if status != 200:
            raise InvalidUpstreamResponse(f"The issuer's discovery document at {url} could not be read: status {status}.")
        found = _decode(body, Discovery, "discovery")
        if found.issuer != self._settings.oidc_issuer:
            raise InvalidUpstreamResponse(
                f"The issuer at {url} names itself {mask_credentials(found.issuer)!r}. If it is yours, set NARTHEX_OIDC_ISSUER to exactly"
                " that."
            )
        for endpoint in (found.authorization_endpoint, found.token_endpoint, found.jwks_uri):
            self._checked(endpoint)
        return found

    async def _fetch_keys(self, url: str) -> list[Key]:
        status, body = await self._send("GET", url)
        if status != 200:
            raise InvalidUpstreamResponse(f"The issuer's keys at {url} could not be read: status {status}.")
        keys: list[Key] = []
        for described in _decode(body, _KeySet, "key").keys[:_MAX_KEYS]:
            # Keys for encryption, symmetric ones and those of kinds to come are of no use here, and no reason to refuse the others.
            is_short = all(len(value) <= _MAX_KEY_CHARACTERS for value in described.values() if isinstance(value, str))
            if described.get("kty") in _KEY_TYPES and described.get("use", "sig") == "sig" and is_short:
                try:
                    keys.append(import_key(described))
                except (JoseError, ValueError, TypeError, KeyError) as fault:
                    log.warning("a key of the issuer cannot be read", extra={"fault": type(fault).__name__})
        return keys

    async def _redeem(self, form: Mapping[str, str]) -> IssuedTokens | _Refusal:
        status, body = await self._send("POST", (await self.discover()).token_endpoint, form=form)
        if status == 200:
            return _decode(body, IssuedTokens, "token")
        if status >= 500:
            raise Unavailable(f"The issuer answered with status {status}: try again later.", retry_after_s=10)
        return _decode(body, _Refusal, "token")

    def _refused(self, refusal: _Refusal) -> InvalidUpstreamResponse:
        settings = "NARTHEX_OIDC_CLIENT_ID, NARTHEX_OIDC_CLIENT_SECRET and NARTHEX_OIDC_SCOPES, and what the issuer permits this client"
        return InvalidUpstreamResponse(f"The issuer refuses this gateway as a client: {_reason(refusal)}. Check {settings}.")

    async def _send(
        self, method: Literal["GET", "POST"], url: str, *, form: Mapping[str, str] | None = None, bearer: str | None = None
    ) -> tuple[int, bytes]:
        # Of a connection of its own: one that is kept may be closed by the issuer meanwhile, and a code cannot be sent twice.
        headers = {"accept": "application/json", "connection": "close", "user-agent": "narthex"}
        content = None
        if bearer is not None:
            headers["authorization"] = f"Bearer {bearer}"
        if form is not None:
            secret_fields, authorization = self._client_authentication()
            headers |= {"content-type": "application/x-www-form-urlencoded", **authorization}
            content = urlencode({**form, "client_id": self._settings.oidc_client_id, **secret_fields}).encode()
        request = httpx2.Request(method, url, headers=headers, content=content, extensions={"timeout": _TIMEOUT})
        try:
            response = await self._transport.handle_async_request(request)
            try:
                return response.status_code, await read_body(response, _MAX_BYTES)
            finally:
                await response.aclose()
        except ResponseTooLarge:
            raise InvalidUpstreamResponse(f"The issuer's answer is larger than {_MAX_BYTES:,} bytes.") from None
        except httpx2.TransportError as fault:
            log.warning("the issuer cannot be reached", extra={"fault": repr(fault)})
            # Whoever signs in learns no addresses of this network, such as a proxy's.
            raise Unavailable("The issuer cannot be reached.", retry_after_s=5) from fault

    def _client_authentication(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Fields of the form, and headers. Basic, as RFC 6749 prefers it, unless the issuer takes the secret in the form only."""
        id, secret = self._settings.oidc_client_id, self._settings.oidc_client_secret
        if not secret:
            return {}, {}
        methods = self._discovery.token_endpoint_auth_methods_supported if self._discovery is not None else None
        if methods is not None and "client_secret_basic" not in methods and "client_secret_post" in methods:
            return {"client_secret": secret}, {}
        # Both parts are encoded as in a form: RFC 6749, section 2.3.1.
        pair = f"{quote(id, safe='')}:{quote(secret, safe='')}"
        return {}, {"authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}

    def _checked(self, endpoint: str) -> str:
        """Raises InvalidUpstreamResponse for an endpoint that would be spoken to in the clear, or is no address."""
        secure = ("https://",) if self._settings.oidc_issuer.startswith("https:") else ("https://", "http://")
        try:
            is_valid = endpoint.startswith(secure) and bool(httpx2.URL(endpoint).host)
        except httpx2.InvalidURL:
            is_valid = False
        if not is_valid:
            raise InvalidUpstreamResponse("The issuer's discovery document names an endpoint that is no https address.")
        return endpoint


def _decode(body: bytes, kind: type[_T], what: str) -> _T:
    try:
        return msgspec.json.decode(body, type=kind)
    except DECODE_ERRORS:
        raise InvalidUpstreamResponse(f"The issuer's {what} answer is not what OpenID Connect specifies.") from None


def _reason(refusal: _Refusal) -> str:
    text = " ".join(f"{refusal.error} {refusal.error_description}".split())
    shown = "".join(each for each in text if each.isprintable()).rstrip(".")
    return mask_credentials(shown[:_MAX_SHOWN_CHARACTERS]) or "it gives no reason"
