"""google:default: the credentials that Google's libraries find, in their order: a named file, gcloud's file, the metadata server.

Every request goes over the gateway's own transport, with its proxy and certificate authorities. google-auth's own client for the metadata
server is not used: it would open its own sockets.
Sources: https://cloud.google.com/docs/authentication/application-default-credentials and google/auth/_default.py of 2.62, read 2026-11.
"""

import asyncio
import datetime
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx2
import msgspec
from google.auth import aws, exceptions, external_account_authorized_user, identity_pool, impersonated_credentials, transport

from providers.canonical.credential_masking import mask_credentials
from providers.credentials.google_grants import SCOPE, TIMEOUT, read_grant, read_token
from providers.credentials.google_token import Token
from providers.credentials.references import CredentialError, check_usable
from providers.credentials.signing import Fetch

_ENV_NAME = "GOOGLE_APPLICATION_CREDENTIALS"
_METADATA_PATH = "/computeMetadata/v1/instance/service-accounts/default/token"
_GRANT_TYPES = ("service_account", "authorized_user")


async def find_token(fetch: Fetch) -> Token:
    """A new token. Raises CredentialError.

    The search is repeated each time, so that an operator's change takes effect with the next token.
    """
    found = await asyncio.to_thread(_read_file)
    if found is None:
        return await _metadata_token(fetch)
    source, secret = found
    try:
        fields = msgspec.json.decode(secret, type=dict[str, Any])
    except msgspec.MsgspecError:
        raise CredentialError(f"google:default: {source} is not a JSON object.") from None
    if fields.get("type") in _GRANT_TYPES:
        return await read_grant(secret)(fetch)
    return await asyncio.to_thread(_google_auth_token, fields, source, LoopRequest(fetch, asyncio.get_running_loop()))


def _read_file() -> tuple[str, str] | None:
    """(a description of the file, its content); None: there is no file."""
    named = os.environ.get(_ENV_NAME)
    folder = os.environ.get("CLOUDSDK_CONFIG") or Path.home() / ".config" / "gcloud"
    path = Path(named) if named else Path(folder) / "application_default_credentials.json"
    source = f"the file that {_ENV_NAME} names" if named else "gcloud's application_default_credentials.json"
    try:
        return source, path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        if named or not isinstance(error, FileNotFoundError):
            raise CredentialError(f"google:default: {source} cannot be read: {type(error).__name__}.") from None
        return None


async def _metadata_token(fetch: Fetch) -> Token:
    """A token of the machine's service account."""
    host = os.environ.get("GCE_METADATA_HOST") or "metadata.google.internal"
    headers = {"metadata-flavor": "Google", "accept": "application/json"}
    extensions = {"timeout": {**TIMEOUT, "connect": 3.0}, "unguarded": True}
    request = httpx2.Request("GET", f"http://{host}{_METADATA_PATH}", headers=headers, extensions=extensions)
    try:
        status, body = await fetch(request)
    except httpx2.TransportError:
        raise CredentialError(
            f"google:default found no credential: {_ENV_NAME} is not set, gcloud has none for this user, and no metadata server responds."
        ) from None
    return read_token(status, body, f"{host} returned no token")


class _HttpResponse(transport.Response):
    def __init__(self, status: int, data: bytes) -> None:
        self._status = status
        self._data = data

    @property
    def status(self) -> int:
        return self._status

    @property
    def headers(self) -> Mapping[str, str]:
        return {}

    @property
    def data(self) -> bytes:
        return self._data


class LoopRequest(transport.Request):
    """The requests of google-auth: called on a thread, it sends over the event loop's transport."""

    def __init__(self, fetch: Fetch, loop: asyncio.AbstractEventLoop) -> None:
        self._fetch = fetch
        self._loop = loop

    def __call__(
        self,
        url: str,
        method: str = "GET",
        body: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        **kwargs: Any,
    ) -> _HttpResponse:
        # The file is of this machine, whose metadata service it may name: https://google.aip.dev/auth/4117, read 2026-11.
        extensions = {"timeout": TIMEOUT, "unguarded": True}
        request = httpx2.Request(method, url, headers=dict(headers or {}), content=body, extensions=extensions)
        try:
            return _HttpResponse(*asyncio.run_coroutine_threadsafe(self._send(request), self._loop).result())
        except httpx2.TransportError as error:
            raise exceptions.TransportError(f"{request.url.host} cannot be reached: {type(error).__name__}") from None

    async def _send(self, request: httpx2.Request) -> tuple[int, bytes]:
        return await self._fetch(request)


def _pool_credentials(fields: dict[str, Any], **scopes: list[str]) -> Any:
    """Workload identity: an AWS identity proves itself by a signed request; others by a token from a file or a URL."""
    if fields.get("subject_token_type") == "urn:ietf:params:aws:token-type:aws4_request":
        return aws.Credentials.from_info(fields, **scopes)  # pyright: ignore[reportUnknownMemberType]
    return identity_pool.Credentials.from_info(fields, **scopes)  # pyright: ignore[reportUnknownMemberType]


_CREDENTIAL_FACTORIES: Mapping[str, Callable[..., Any]] = {  # pyright: ignore[reportUnknownVariableType]
    "external_account": _pool_credentials,
    "impersonated_service_account": impersonated_credentials.Credentials.from_impersonated_service_account_info,  # pyright: ignore[reportUnknownMemberType]
    "external_account_authorized_user": external_account_authorized_user.Credentials.from_info,  # pyright: ignore[reportUnknownMemberType]
}


def _google_auth_token(fields: dict[str, Any], source: str, request: LoopRequest) -> Token:
    """A token from google-auth, for the types that are exchanged in several steps. Blocks: called on a thread."""
    make = _CREDENTIAL_FACTORIES.get(str(fields.get("type")))
    if make is None:
        known = ", ".join([*_GRANT_TYPES, *_CREDENTIAL_FACTORIES])
        raise CredentialError(f"google:default: the type of {source} is none of these: {known}.")
    try:
        credentials = make(fields, scopes=[SCOPE])
        credentials.refresh(request)
    except (exceptions.GoogleAuthError, ValueError, TypeError, KeyError) as error:
        raise CredentialError(
            f"google:default: no token for {source}: {type(error).__name__}: {mask_credentials(str(error)):.300}"
        ) from None
    now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    lifetime_s = 3600.0 if credentials.expiry is None else (credentials.expiry - now).total_seconds()
    return Token(
        check_usable(credentials.token, source), time.monotonic() + lifetime_s, lifetime_s, getattr(credentials, "quota_project_id", None)
    )
