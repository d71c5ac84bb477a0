"""Identity: as whom an endpoint is spoken to, and the requests that go as it."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Mapping

import httpx
from msgspec import Struct

from app.gateway.cooldown import Cooldown
from providers import credentials
from providers.credentials import Fetch, Header, NoCredential, Signer, Unsigned
from providers.credentials.hiding import Hiding
from providers.credentials.references import Stored
from providers.errors import CredentialRefused, UpstreamError
from providers.h1 import Standing
from providers.provider import Provider

# Requests like the last are made from it; of headers that callers choose, and of models, there may be as many as callers please.
_MOST_LINES = 64
# Of those that it was exchanged for, the last.
_MOST_TOKENS = 4
# Of a token that is fetched: more than that no caller waits.
_LONGEST_FETCH_S = 30.0
_TOKENS = (b"authorization", b"x-amz-security-token")
# Not a token, but made of one, and another for each request.
_SIGNATURE = b"AWS4-"

_OURS = {"content-type": "application/json", "accept": "application/json, text/event-stream", "user-agent": "narthex"}


class Where(Struct, frozen=True):
    """What an address is made of. `model` is empty where no address names it; `stream` where it makes no difference."""

    dialect: str
    model: str = ""
    stream: bool = False
    betas: bytes = b""


class _Line:
    """Where one dialect is spoken at an endpoint, as whom, and a request of that kind to copy."""

    def __init__(self, url: httpx.URL, headers: list[Header]) -> None:
        self.url = url
        self.headers = headers
        self.standing = Standing(url, headers)
        self.like = vars(httpx.Request("POST", url, headers=headers, stream=httpx.ByteStream(b"")))


class Identity:
    """One credential at one endpoint, or none. `reference`: where it is; None: there is none. `secret`: of the caller's own, which has no

    other place. `turn`: grows with each other credential that is found where it is kept.
    """

    def __init__(self, reference: str | None, stored: Stored, fetch: Fetch, secret: str | None = None) -> None:
        self.reference = reference
        self.cooldown = Cooldown()
        self.turn = 0
        self._tokens: deque[str] = deque(maxlen=_MOST_TOKENS)
        self._stored = stored
        self._fetch = fetch
        self._own = secret
        self._secret: str | None = None
        # What is under way still went with those.
        self._before: deque[str] = deque(maxlen=2)
        self._read = False
        self._lines: dict[Where, _Line] = {}
        self._signer: Signer | None = None

    @property
    def is_callers(self) -> bool:
        return self._own is not None

    async def request(self, provider: Provider, base_url: str, where: Where, body: bytes, timeout: Mapping[str, float]) -> httpx.Request:
        """A request with this body. Raises NoCredential if the credential is not there, httpx.TransportError if it cannot be fetched."""
        line = self._lines.get(where) or self._line(provider, base_url, where)
        if self._signer is not None:
            added = await _in_time(self._signer.sign(Unsigned("POST", line.url, line.headers, body)), timeout)
            self._remember(added)
            return httpx.Request("POST", line.url, headers=[*line.headers, *added], content=body, extensions={"timeout": timeout})
        return _like(line, body, timeout)

    def ready(self, where: Where, body: bytes, timeout: Mapping[str, float]) -> httpx.Request | None:
        """See request(); None: what it takes is not known yet, or it is to be signed. Most wait for nobody."""
        line = self._lines.get(where)
        return None if line is None or self._signer is not None else _like(line, body, timeout)

    def headers(self, provider: Provider, dialect: str = "") -> list[Header]:
        """Those of every request. Raises NoCredential."""
        secret = self._own if self._own is not None else self._found()
        ours = {**_OURS, **{name.lower(): value for name, value in provider.headers(secret, dialect)}}
        if not all(value.isascii() and value.isprintable() for value in ours.values()):
            raise NoCredential(
                f"The credential {self.reference} is not of the kind that {provider.configured_as} takes: no header can hold it."
            )
        return [(name.encode("ascii"), value.encode("ascii")) for name, value in ours.items()]

    @property
    def hiding(self) -> Hiding:
        """Of all that went with requests as it: its secret, and tokens that it was exchanged for."""
        return Hiding(each for each in (self._own, self._secret, *self._before, *self._tokens) if each)

    def hide(self, error: UpstreamError) -> None:
        """What a host said, without any secret that it was sent."""
        hide = self.hiding.hide
        error.message = hide(error.message)
        error.args = (error.message,)
        error.said_code = error.said_code and hide(error.said_code)
        error.param = error.param and hide(error.param)
        if isinstance(error, CredentialRefused):
            error.reason = hide(error.reason)

    def renew(self) -> bool:
        """After a refusal: whether another credential lies now where it is kept, with which the next request goes.

        If none does, what is under way can still be stopped with the one that it went with.
        """
        if self._own is not None:
            return False
        try:
            secret = credentials.read(self.reference, self._stored)
        except NoCredential:
            return False
        if secret == self._secret and self._read:
            hopes = self._signer is not None and self._signer.forget()
            self.turn += hopes
            return hopes
        self._take(secret)
        return True

    def lose(self) -> None:
        """What was read is used no more: it may be gone from where it is kept, or be another."""
        if self._read:
            self._take(None)
            self._read = False

    def forget(self) -> None:
        """Whatever was made of how the endpoint was spoken to."""
        self._lines.clear()
        self._signer = None

    def _take(self, secret: str | None) -> None:
        if self._secret is not None:
            self._before.append(self._secret)
        self.forget()
        self._secret, self._read = secret, True
        self.turn += 1
        self.cooldown.clear()

    def _remember(self, added: list[Header]) -> None:
        """Tokens that a signer was given, so that no host says them back to anybody."""
        for name, value in added:
            if name.lower() not in _TOKENS or value.startswith(_SIGNATURE):
                continue
            token = value.decode("latin-1").rpartition(" ")[2]
            if token not in self._tokens:
                self._tokens.append(token)

    def _found(self) -> str | None:
        if not self._read:
            self._secret, self._read = credentials.read(self.reference, self._stored), True
        return self._secret

    def _line(self, provider: Provider, base_url: str, where: Where) -> _Line:
        if len(self._lines) >= _MOST_LINES:
            self._lines.clear()
        headers = self.headers(provider, where.dialect)
        if self._signer is None:
            self._signer = provider.signer(self._own if self._own is not None else self._found(), self._fetch)
        if where.betas:
            known = {name: value for name, value in headers if name == b"anthropic-beta"}
            headers = [each for each in headers if each[0] not in known]
            headers.append((b"anthropic-beta", b",".join([*known.values(), where.betas])))
        url = provider.url(base_url, where.dialect, where.model, where.stream)
        line = self._lines[where] = _Line(provider.located(url, self._own if self._own is not None else self._found()), headers)
        return line


def _like(line: _Line, body: bytes, timeout: Mapping[str, float]) -> httpx.Request:
    """As one that was made already, but for the body: to make it anew, its URL and headers parsed again, would take three times as long."""
    request = object.__new__(httpx.Request)
    request.__dict__.update(line.like)
    request.stream = httpx.ByteStream(body)
    request.extensions = {"standing": line.standing, "timeout": timeout}
    return request


async def _in_time(signing: Awaitable[list[Header]], timeout: Mapping[str, float]) -> list[Header]:
    """Raises httpx.ReadTimeout."""
    try:
        async with asyncio.timeout(min(_LONGEST_FETCH_S, timeout.get("total", _LONGEST_FETCH_S))):
            return await signing
    except TimeoutError:
        raise httpx.ReadTimeout("No token in time") from None
