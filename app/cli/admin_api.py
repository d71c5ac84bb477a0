"""Requests of commands to the admin API: with the admin key of this home or, where there is none, the session of `narthex login`."""

from collections.abc import Mapping
from typing import Any, NoReturn

import httpx
import msgspec
from msgspec import Struct

from app.cli.errors import CommandError
from app.cli.session_file import load_session
from app.settings import Settings
from app.supervisor.machine.errors import OperatorError
from app.supervisor.machine.gateway_url import reachable_admin_url, tls_verification
from providers.canonical.raw_json import DECODE_ERRORS

_CONNECT_S = 5.0


class AdminAccess(Struct, frozen=True):
    """`url`: without /admin/v1. `token`: what is sent as a bearer; empty: nothing is. `is_session`: it is that of `narthex login`."""

    url: str
    token: str
    is_session: bool = False


class AdminResponse(Struct, frozen=True):
    status: int
    document: Mapping[str, Any]


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


def send(
    settings: Settings, access: AdminAccess, method: str, path: str, body: bytes | None = None, *, timeout_s: float = 30.0
) -> AdminResponse:
    """The response, whatever its status. Raises CommandError if there is none, or it is not a gateway's."""
    headers = {"authorization": f"Bearer {access.token}"} if access.token else {}
    try:
        with _client(settings, access.url, timeout_s) as client:
            response = client.request(method, access.url + path, content=body, headers=headers)
    except (httpx.HTTPError, httpx.InvalidURL) as fault:
        raise CommandError(f"The gateway on {access.url} is not reachable: {fault}. `narthex doctor` finds out what is wrong.") from fault
    try:
        return AdminResponse(response.status_code, msgspec.json.decode(response.content, type=dict[str, Any]))
    except DECODE_ERRORS:
        raise _not_a_gateway(access, response.status_code) from None


def raise_error(access: AdminAccess, response: AdminResponse) -> NoReturn:
    """Raises CommandError with the gateway's message."""
    if response.status == 401 and access.is_session:
        raise CommandError(f"Your session at {access.url} has ended: `narthex login {access.url}` begins a new one.", status=401)
    try:
        message = str(response.document["error"]["message"])
    except (KeyError, TypeError):
        raise _not_a_gateway(access, response.status) from None
    raise CommandError(message, status=response.status)


def _not_a_gateway(access: AdminAccess, status: int) -> CommandError:
    return CommandError(f"{access.url} answered with status {status}, but not as a gateway does.")


def _client(settings: Settings, url: str, timeout_s: float) -> httpx.Client:
    timeout, target, proxy = httpx.Timeout(timeout_s, connect=_CONNECT_S), httpx.URL(url), settings.proxy
    verification = tls_verification(settings, url)
    if verification is False:
        return httpx.Client(timeout=timeout, trust_env=False, verify=False)
    is_proxied = proxy is not None and proxy.is_for(target.host, target.port or 443)
    through = str(settings.https_proxy) if is_proxied else None
    return httpx.Client(timeout=timeout, trust_env=False, verify=verification, proxy=through)
