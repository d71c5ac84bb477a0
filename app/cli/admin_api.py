"""Requests of commands to the admin API: with the admin key of this home or, where there is none, the session of `narthex login`."""

import http.client
import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, NoReturn
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from app.cli.errors import CommandError
from app.cli.gateway_connection import open_connection, origin_of
from app.cli.session_file import load_session
from app.settings import Settings
from app.supervisor.machine.errors import OperatorError
from app.supervisor.machine.gateway_url import is_of_this_machine, reachable_admin_url, tls_verification
from providers.canonical.raw_json import DECODE_ERRORS

_BLOCK_BYTES = 65536


class AdminAccess(Struct, frozen=True):
    """An address of the admin API, and what opens it."""

    url: str  # without /admin/v1
    token: str  # what is sent as a bearer; empty: nothing is
    is_session: bool = False  # whether it is that of `narthex login`


class AdminResponse(Struct, frozen=True):
    status: int
    document: Mapping[str, Any]
    headers: Mapping[str, str] = {}


def find_access(settings: Settings) -> AdminAccess:
    """Raises OperatorError if there is neither a key nor a session."""
    path = settings.home.absolute() / "admin-key"
    try:
        return AdminAccess(reachable_admin_url(settings), path.read_text().strip())
    except FileNotFoundError:
        session = load_session()
    if session is None:
        raise OperatorError(
            f"There is no admin key in {path}, and you are not signed in: set NARTHEX_HOME to the folder in which Narthex runs, or sign in"
            " with `narthex login`."
        )
    return AdminAccess(session.url, session.token, is_session=True)


def named_access(url: str) -> AdminAccess:
    """Access to the gateway at `url`, by the token in NARTHEX_ADMIN_KEY or the session there.

    Raises OperatorError if there is neither, or if the token is for another gateway than this one.
    """
    url = url.rstrip("/")
    if token := os.environ.get("NARTHEX_ADMIN_KEY", "").strip():
        _check_is_for(url)
        return AdminAccess(url, token)
    session = load_session()
    if session is None or session.url != url:
        raise OperatorError(
            f"You are not signed in to {url}: sign in with `narthex login {url}`, or put an admin key or a token of a service account into"
            " NARTHEX_ADMIN_KEY."
        )
    return AdminAccess(session.url, session.token, is_session=True)


def _check_is_for(url: str) -> None:
    """Raises OperatorError unless NARTHEX_ADMIN_KEY may be sent to `url`: one that somebody else has named would get it otherwise."""
    gateway = os.environ.get("NARTHEX_ADMIN_URL", "").strip()
    if gateway:
        if _origin(gateway) != _origin(url):
            raise OperatorError(
                f"The key in NARTHEX_ADMIN_KEY is for the gateway at {gateway}, as NARTHEX_ADMIN_URL says, and is not sent to {url}: set"
                " both for that gateway, or unset both and sign in to it with `narthex login`."
            )
    elif _origin(url)[0] != "https" and not is_of_this_machine(_origin(url)[1]):
        raise OperatorError(
            f"The key in NARTHEX_ADMIN_KEY is not sent to {url}: without TLS whoever is on the way can read it. Use https, or set"
            f" NARTHEX_ADMIN_URL={url} if that network is yours alone."
        )


def _origin(url: str) -> tuple[str, str, int | None]:
    try:
        return origin_of(url)
    except ValueError as fault:
        raise OperatorError(f"{url} is no address: {fault}.") from None


def send(
    settings: Settings,
    access: AdminAccess,
    method: str,
    path: str,
    body: bytes | None = None,
    *,
    timeout_s: float = 30.0,
    headers: Mapping[str, str] = {},
) -> AdminResponse:
    """The response, whatever its status. Raises CommandError if there is none, or it is not a gateway's."""
    with _exchange(settings, access, method, path, body, headers, timeout_s) as response:
        return _read_response(access, response)


def stream(settings: Settings, access: AdminAccess, path: str) -> Iterator[bytes]:
    """The blocks of a text, for as long as the gateway takes to send it. Raises CommandError."""
    with _exchange(settings, access, "GET", path, None, {}, settings.total_timeout_s) as response:
        if response.status != 200:
            raise_error(access, _read_response(access, response))
        while block := response.read(_BLOCK_BYTES):
            yield block
        if response.length:  # it had said how long it is, and ended before
            raise http.client.IncompleteRead(b"", response.length)


def raise_error(access: AdminAccess, response: AdminResponse) -> NoReturn:
    """Raises CommandError with the gateway's message."""
    if response.status == 401 and access.is_session:
        raise CommandError(f"Your session at {access.url} has ended: `narthex login {access.url}` begins a new one.", status=401)
    try:
        message = str(response.document["error"]["message"])
    except (KeyError, TypeError):
        raise _not_a_gateway(access, response.status) from None
    raise CommandError(message, status=response.status)


def _authorization(access: AdminAccess) -> Mapping[str, str]:
    return {"authorization": f"Bearer {access.token}"} if access.token else {}


def _read_response(access: AdminAccess, response: http.client.HTTPResponse) -> AdminResponse:
    headers = {name.lower(): value for name, value in response.getheaders()}
    try:
        return AdminResponse(response.status, msgspec.json.decode(response.read(), type=dict[str, Any]), headers)
    except DECODE_ERRORS:
        raise _not_a_gateway(access, response.status) from None


def _not_a_gateway(access: AdminAccess, status: int) -> CommandError:
    return CommandError(f"{access.url} answered with status {status}, but not as a gateway does.")


@contextmanager
def _exchange(
    settings: Settings, access: AdminAccess, method: str, path: str, body: bytes | None, headers: Mapping[str, str], timeout_s: float
) -> Generator[http.client.HTTPResponse]:
    """A request and its response, whose body is read while this is entered. Raises CommandError if the gateway is not reached."""
    try:
        with open_connection(access.url, tls_verification(settings, access.url), settings.proxy, timeout_s) as connection:
            target = urlsplit(access.url).path + path
            connection.request(method, target, body, {"user-agent": "narthex", **_authorization(access), **headers})
            with closing(connection.getresponse()) as response:
                yield response
    except (OSError, http.client.HTTPException, ValueError) as fault:
        text = f"The gateway on {access.url} is not reachable: {fault}. `narthex doctor` finds out what is wrong."
        raise CommandError(text) from fault
