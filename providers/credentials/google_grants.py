"""Google's grants: a service account, or a user's refresh token, is exchanged for an access token at the token server.

Sources: RFC 7523 and RFC 6749; google/oauth2/service_account.py and _client.py of google-auth 2.62; read 2026-11.
"""

import asyncio
import ipaddress
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlencode

import httpx2
import msgspec
from google.auth import crypt, exceptions, jwt
from msgspec import Struct
from msgspec.structs import replace

from providers.canonical.credential_masking import mask_credentials
from providers.credentials.google_token import Token
from providers.credentials.masking import SecretMask
from providers.credentials.references import CredentialError, check_usable
from providers.credentials.secret_record import SecretRecord
from providers.credentials.signing import Fetch

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
TIMEOUT: Mapping[str, float] = {"connect": 5.0, "first": 10.0, "read": 10.0, "total": 20.0}

# The audience of every assertion, whatever token server the file names, as in google-auth.
_TOKEN_URL = "https://oauth2.googleapis.com/token"
_ASSERTION_LIFETIME_S = 3600
_RETRIED_STATUSES = frozenset({408, 429, 500, 502, 503, 504})
_RETRY_PAUSE_S = 0.5

Grant = Callable[[Fetch], Awaitable[Token]]


class _ServiceAccount(SecretRecord, frozen=True, tag_field="type", tag="service_account"):
    client_email: str
    private_key: str
    private_key_id: str | None = None
    token_uri: str = _TOKEN_URL


class _AuthorizedUser(SecretRecord, frozen=True, tag_field="type", tag="authorized_user"):
    client_id: str
    client_secret: str
    refresh_token: str
    token_uri: str = _TOKEN_URL
    quota_project_id: str | None = None


class _TokenResponse(SecretRecord, frozen=True):
    access_token: str
    expires_in: float = 3600


class _TokenError(Struct):
    error: str = ""
    error_description: str = ""


_grant_decoder: msgspec.json.Decoder[_ServiceAccount | _AuthorizedUser] = msgspec.json.Decoder(_ServiceAccount | _AuthorizedUser)
_response_decoder = msgspec.json.Decoder(_TokenResponse, strict=False)
_error_decoder = msgspec.json.Decoder(_TokenError)


def read_grant(secret: str) -> Grant:
    """The function that exchanges Google's JSON credential for a token. Raises CredentialError, whose message shows no secret of it."""
    try:
        grant = _grant_decoder.decode(secret)
    except msgspec.ValidationError as error:
        # msgspec's message contains the field and the types, or an unknown `type`, and no other value.
        raise CredentialError(
            f"The JSON is neither a Google service account nor an authorized user: {mask_credentials(str(error)):.200}."
        ) from None
    except msgspec.DecodeError:
        raise CredentialError("The credential begins with { and is not valid JSON.") from None
    _check_token_url(grant.token_uri)
    match grant:
        case _ServiceAccount():
            return lambda fetch: _with_masked_errors(_exchange_signed_assertion(grant, fetch), secret)
        case _AuthorizedUser():
            return lambda fetch: _with_masked_errors(_exchange_refresh_token(grant, fetch), secret)


async def _with_masked_errors(exchange: Awaitable["Token"], secret: str) -> "Token":
    """Masks the secret in errors: a token server may repeat what it was sent, and its message is logged and shown."""
    try:
        return await exchange
    except CredentialError as error:
        raise CredentialError(SecretMask([secret]).mask(str(error))) from None


async def _exchange_signed_assertion(account: _ServiceAccount, fetch: Fetch) -> Token:
    # Parsing a private key takes tens of milliseconds, which would block the event loop.
    assertion = await asyncio.to_thread(_sign_assertion, account)
    return await _exchange(account.token_uri, {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": assertion}, fetch)


async def _exchange_refresh_token(user: _AuthorizedUser, fetch: Fetch) -> Token:
    form = {
        "grant_type": "refresh_token",
        "client_id": user.client_id,
        "client_secret": user.client_secret,
        "refresh_token": user.refresh_token,
    }
    return replace(await _exchange(user.token_uri, form, fetch), quota_project=user.quota_project_id or None)


def _sign_assertion(account: _ServiceAccount) -> str:
    now = int(time.time())
    claims: dict[str, Any] = {
        "iss": account.client_email,
        "scope": SCOPE,
        "aud": _TOKEN_URL,
        "iat": now,
        "exp": now + _ASSERTION_LIFETIME_S,
    }
    try:
        key = crypt.RSASigner.from_string(account.private_key, account.private_key_id)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return jwt.encode(key, claims).decode("ascii")  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    except (ValueError, TypeError, exceptions.GoogleAuthError) as error:
        raise CredentialError(f"The private key of {account.client_email} cannot be used: {type(error).__name__}.") from None


async def _exchange(token_url: str, form: Mapping[str, str], fetch: Fetch) -> Token:
    request = httpx2.Request(
        "POST",
        token_url,
        headers={"content-type": "application/x-www-form-urlencoded", "accept": "application/json"},
        content=urlencode(form).encode(),
        extensions={"timeout": TIMEOUT},
    )
    status, body = await fetch(request)
    if status in _RETRIED_STATUSES:
        await asyncio.sleep(_RETRY_PAUSE_S)
        status, body = await fetch(request)
    return read_token(status, body, f"{request.url.host} returned no token")


def read_token(status: int, body: bytes, failure: str) -> Token:
    """The token in a token server's response. Raises CredentialError, whose message begins with `failure`, if there is none."""
    if status != 200:
        try:
            error = _error_decoder.decode(body)
        except msgspec.MsgspecError:
            error = _TokenError()
        reason = ": ".join(mask_credentials(each).rstrip(".") for each in (error.error, error.error_description) if each)
        raise CredentialError(f"{failure}: it responded with {status}{' ' if reason else ''}{reason:.300}.")
    try:
        response = _response_decoder.decode(body)
    except msgspec.MsgspecError:
        raise CredentialError(f"{failure}: its response is not a token.") from None
    return Token(
        check_usable(response.access_token, f"the response of {failure.partition(' ')[0]}"),
        time.monotonic() + response.expires_in,
        response.expires_in,
    )


def _check_token_url(token_url: str) -> None:
    """Raises CredentialError unless the token server is https or this machine: it is sent the secret, or a proof of it."""
    try:
        url = httpx2.URL(token_url)
    except httpx2.InvalidURL:
        url = httpx2.URL("")
    if not url.host or url.scheme not in ("https", "http") or (url.scheme == "http" and not _is_loopback(url.host)):
        raise CredentialError("token_uri must be an https URL, or one of this machine.")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
