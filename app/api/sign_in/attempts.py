"""Sign-ins that have begun. The gateway keeps nothing of them, so that nobody can fill it: browsers and commands keep them, encrypted."""

import hmac
import secrets
import time
from typing import Any, TypeVar

import msgspec
from litestar import Request
from litestar.datastructures import Cookie
from msgspec import Struct

from app.api.rest.admin_authentication import cookie_name
from app.settings import PublicUrl
from app.store.postgres.vault import Vault
from providers.canonical.errors import InvalidRequest
from providers.canonical.raw_json import DECODE_ERRORS
from providers.credentials import CredentialError

_LASTS_S = 600
_MAX_AT_ONCE = 5  # in tabs of one browser
# Characters of base64 that a cookie would have to quote.
_TO_COOKIE, _FROM_COOKIE = str.maketrans("+/=", "-_~"), str.maketrans("-_~", "+/=")
_T = TypeVar("_T")


class BrowserSignIn(Struct, frozen=True):
    """A sign-in that a browser has begun."""

    state: str  # comes back with the issuer's answer
    nonce: str  # comes back in the issuer's token
    verifier: str  # proof that who redeems the code began the sign-in
    return_to: str
    expires_s: float


class DeviceSignIn(Struct, frozen=True):
    """A device sign-in as the issuer knows it."""

    device_code: str
    interval_s: int
    expires_s: float


def begin(return_to: str) -> BrowserSignIn:
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    return BrowserSignIn(state, nonce, verifier, return_to, time.time() + _LASTS_S)


class BrowserSignIns:
    """The sign-ins of browsers, each in cookies of its own, so that several tabs can sign in at once."""

    def __init__(self, vault: Vault, public_url: PublicUrl) -> None:
        self._vault = vault
        self._prefix = cookie_name(public_url, "narthex_sign_in_")
        self._is_secure = public_url.startswith("https:")

    def cookies(self, request: Request[Any, Any, Any], begun: BrowserSignIn) -> list[Cookie]:
        """Cookies that keep a sign-in, and let go of others where there are too many."""
        name = self._name(begun.state)
        others = [each for each in request.cookies if each.startswith(self._prefix) and each != name]
        forgotten = others if len(others) >= _MAX_AT_ONCE else []
        value = _encrypt(self._vault, "browser", begun).translate(_TO_COOKIE)
        return [self._cookie(name, value, _LASTS_S), *(self._expired(each) for each in forgotten)]

    def find(self, request: Request[Any, Any, Any], state: str) -> BrowserSignIn:
        """The sign-in that this browser began with a state. Raises InvalidRequest."""
        value = request.cookies.get(self._name(state), "").translate(_FROM_COOKIE)
        begun = _decrypt(self._vault, "browser", value, BrowserSignIn)
        if begun is None or not hmac.compare_digest(begun.state.encode(), state.encode()):
            raise InvalidRequest(
                "This sign-in was not begun in this browser, or was completed, or the browser keeps no cookies of this site."
            )
        if begun.expires_s < time.time():
            raise InvalidRequest("This sign-in took too long.")
        return begun

    def cookie_that_ends(self, begun: BrowserSignIn) -> Cookie:
        return self._expired(self._name(begun.state))

    def _name(self, state: str) -> str:
        return self._prefix + "".join(each for each in state[:8] if each.isascii() and (each.isalnum() or each in "-_"))

    def _expired(self, name: str) -> Cookie:
        return self._cookie(name, "", 0)

    def _cookie(self, name: str, value: str, max_age: int) -> Cookie:
        # Lax: it must come back when the issuer sends the browser here. __Host- needs the path /.
        return Cookie(key=name, value=value, path="/", max_age=max_age, httponly=True, samesite="lax", secure=self._is_secure)


def write_device_handle(vault: Vault, sign_in: DeviceSignIn) -> str:
    """Returns what a command sends to learn whether its sign-in is complete.

    Only this gateway can read or use it.
    """
    return _encrypt(vault, "device", sign_in)


def read_device_handle(vault: Vault, handle: str) -> DeviceSignIn:
    """Raises InvalidRequest."""
    sign_in = _decrypt(vault, "device", handle, DeviceSignIn)
    if sign_in is None:
        raise InvalidRequest("This is no `device_code` of this gateway: begin the sign-in again.", param="device_code")
    if sign_in.expires_s < time.time():
        raise InvalidRequest("This sign-in has expired: begin again.", param="device_code")
    return sign_in


def _encrypt(vault: Vault, kind: str, value: Struct) -> str:
    return vault.encrypt(f"sign-in {kind}", msgspec.json.encode(value).decode())


def _decrypt(vault: Vault, kind: str, encrypted: str, type: type[_T]) -> _T | None:
    try:
        return msgspec.json.decode(vault.decrypt(f"sign-in {kind}", encrypted), type=type)
    except (CredentialError, *DECODE_ERRORS):
        return None
