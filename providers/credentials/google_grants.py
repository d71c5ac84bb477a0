"""Google's grants: how a service account, or a user's refresh token, is exchanged for a token at Google's token server.

Sources: RFC 7523 and RFC 6749; google/oauth2/service_account.py and _client.py of google-auth 2.62; read 2026-11.
"""

import asyncio
import ipaddress
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlencode

import httpx
import msgspec
from google.auth import crypt, exceptions, jwt
from msgspec import Struct
from msgspec.structs import replace

from providers.credentials.hiding import Hiding
from providers.credentials.references import NoCredential, usable
from providers.credentials.signing import Fetch
from providers.credentials.unshown import Unshown
from providers.told import masked

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
TIMEOUT: Mapping[str, float] = {"connect": 5.0, "first": 10.0, "read": 10.0, "total": 20.0}

# The audience of every assertion, whatever a file names as its server: as google-auth has it.
_SERVER = "https://oauth2.googleapis.com/token"
_LASTS_S = 3600
_BUSY = frozenset({408, 429, 500, 502, 503, 504})
_PAUSE_S = 0.5

Grant = Callable[[Fetch], Awaitable["Token"]]


class Token(Unshown, frozen=True):
    """`expires_s`: by the monotonic clock; `lasts_s`: from when it came until then. `billed`: the project that pays for a user's asks."""

    secret: str
    expires_s: float
    lasts_s: float
    billed: str | None = None


class _ServiceAccount(Unshown, frozen=True, tag_field="type", tag="service_account"):
    client_email: str
    private_key: str
    private_key_id: str | None = None
    token_uri: str = _SERVER


class _User(Unshown, frozen=True, tag_field="type", tag="authorized_user"):
    client_id: str
    client_secret: str
    refresh_token: str
    token_uri: str = _SERVER
    quota_project_id: str | None = None


class _Answer(Unshown, frozen=True):
    access_token: str
    expires_in: float = 3600


class _Refusal(Struct):
    error: str = ""
    error_description: str = ""


_kind: msgspec.json.Decoder[_ServiceAccount | _User] = msgspec.json.Decoder(_ServiceAccount | _User)
_answer = msgspec.json.Decoder(_Answer, strict=False)
_refusal = msgspec.json.Decoder(_Refusal)


def read_grant(secret: str) -> Grant:
    """What gets a token for the JSON that Google gives out. Raises NoCredential; what is wrong is named, and nothing of it is shown."""
    try:
        kind = _kind.decode(secret)
    except msgspec.ValidationError as fault:
        # msgspec names the field, its type or the `type` that it is not: none of the others' values.
        raise NoCredential(f"The JSON is no service account and no authorized user of Google's: {masked(str(fault)):.200}.") from None
    except msgspec.DecodeError:
        raise NoCredential("The credential begins like JSON, and is none.") from None
    _check_server(kind.token_uri)
    match kind:
        case _ServiceAccount():
            return lambda fetch: _unrepeated(_exchange_assertion(kind, fetch), secret)
        case _User():
            return lambda fetch: _unrepeated(_refresh(kind, fetch), secret)


async def _unrepeated(exchange: Awaitable["Token"], secret: str) -> "Token":
    """A token server may say back what it was sent, and what it says is logged, and told."""
    try:
        return await exchange
    except NoCredential as fault:
        raise NoCredential(Hiding([secret]).hide(str(fault))) from None


async def _exchange_assertion(account: _ServiceAccount, fetch: Fetch) -> Token:
    # To read a key takes tens of milliseconds, in which others are to be served.
    assertion = await asyncio.to_thread(_sign, account)
    return await _exchange(account.token_uri, {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": assertion}, fetch)


async def _refresh(user: _User, fetch: Fetch) -> Token:
    form = {
        "grant_type": "refresh_token",
        "client_id": user.client_id,
        "client_secret": user.client_secret,
        "refresh_token": user.refresh_token,
    }
    return replace(await _exchange(user.token_uri, form, fetch), billed=user.quota_project_id or None)


def _sign(account: _ServiceAccount) -> str:
    now = int(time.time())
    claims: dict[str, Any] = {"iss": account.client_email, "scope": SCOPE, "aud": _SERVER, "iat": now, "exp": now + _LASTS_S}
    try:
        key = crypt.RSASigner.from_string(account.private_key, account.private_key_id)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return jwt.encode(key, claims).decode("ascii")  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    except (ValueError, TypeError, exceptions.GoogleAuthError) as fault:
        raise NoCredential(f"The private key of {account.client_email} cannot be used: {type(fault).__name__}.") from None


async def _exchange(server: str, form: Mapping[str, str], fetch: Fetch) -> Token:
    request = httpx.Request(
        "POST",
        server,
        headers={"content-type": "application/x-www-form-urlencoded", "accept": "application/json"},
        content=urlencode(form).encode(),
        extensions={"timeout": TIMEOUT},
    )
    status, body = await fetch(request)
    if status in _BUSY:
        await asyncio.sleep(_PAUSE_S)
        status, body = await fetch(request)
    return read_token(status, body, f"{request.url.host} gave no token")


def read_token(status: int, body: bytes, otherwise: str) -> Token:
    """Raises NoCredential, beginning with `otherwise`, for what is none."""
    if status != 200:
        try:
            told = _refusal.decode(body)
        except msgspec.MsgspecError:
            told = _Refusal()
        why = ": ".join(masked(each).rstrip(".") for each in (told.error, told.error_description) if each)
        raise NoCredential(f"{otherwise}: it answered {status}{' ' if why else ''}{why:.300}.")
    try:
        answer = _answer.decode(body)
    except msgspec.MsgspecError:
        raise NoCredential(f"{otherwise}: its answer is not what it promises.") from None
    return Token(
        usable(answer.access_token, f"what {otherwise.partition(' ')[0]} answered"), time.monotonic() + answer.expires_in, answer.expires_in
    )


def _check_server(server: str) -> None:
    """It is told what stands for the credential: over a connection that nobody else reads."""
    try:
        url = httpx.URL(server)
    except httpx.InvalidURL:
        url = httpx.URL("")
    if not url.host or url.scheme not in ("https", "http") or (url.scheme == "http" and not _is_here(url.host)):
        raise NoCredential("token_uri must be an https address, or one of this machine.")


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
