"""Media by URL, fetched for targets that need the bytes: within limits, and from nowhere that its caller could not reach as well.

A name is looked up once per hop, every address it has must be public (app/gateway/public.py), and the connection goes to an address
so checked, while Host and TLS are the name's: what the name means a moment later plays no part. No proxy is used, whatever the
environment says: behind one, addresses could not be checked.
"""

import asyncio
import re
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass

import httpx

from app.gateway.media_type import media_type
from app.gateway.public import reachable
from app.settings import Settings
from providers.chat import Inline
from providers.errors import Malformed, Unsupported
from providers.told import masked
from providers.transport import Transport
from providers.transport_names import Names

MOST_URLS = 100  # of one request: it must not make the gateway a way to flood others
TOGETHER = 2  # all media of a request may have this many times the bytes that one may have

_AT_ONCE = 8
_LOOKUPS_AT_ONCE = 8
_ADDRESSES_TRIED = 3
# Encoded piecewise: all 20 MiB at once would hold up every other request. Divisible by 3: no piece but the last is padded.
_PIECE_BYTES = 192 * 1024
_LONGEST_TOLD = 200
_DEFAULT_PORTS = {"http": 80, "https": 443}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# One sentence for a forbidden address and for a name without any: it must not tell what an internal network has.
_NO_PUBLIC_ADDRESS = "its host has no public address"

LookUp = Callable[[str, int], Awaitable[Collection[str]]]


class Media:
    """Fetches for one worker. `look_up`: the addresses of a host; it raises OSError or UnicodeError where there is none."""

    def __init__(self, settings: Settings, transport: httpx.AsyncBaseTransport | None = None, look_up: LookUp | None = None) -> None:
        self._settings = settings
        self._transport = Transport() if transport is None else transport
        self._names = Names(_LOOKUPS_AT_ONCE)
        self._look_up = self._names.addresses if look_up is None else look_up

    async def fetch(self, urls: Collection[str]) -> Mapping[str, Inline]:
        """What is at each address, by address; each is asked for once. All or nothing: the rest is given up when one fails.

        Raises Malformed naming the address and why, Unsupported where fetching is switched off.
        """
        wanted = [*dict.fromkeys(urls)]
        if not wanted:
            return {}
        if self._settings.media_fetch == "off":
            raise Unsupported("The model's target needs the bytes of media, and this gateway fetches none: send them as data: URLs.")
        if len(wanted) > MOST_URLS:
            raise Malformed(f"A request names media at {len(wanted)} addresses: at most {MOST_URLS} are fetched. Send data: URLs.")
        ends_at = asyncio.get_running_loop().time() + self._settings.media_timeout_s
        allowance = _Allowance(ends_at, TOGETHER * self._settings.media_max_bytes, asyncio.Semaphore(_AT_ONCE))
        try:
            async with asyncio.TaskGroup() as group:
                fetching = {url: group.create_task(self._fetch(url, allowance)) for url in wanted}
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return {url: task.result() for url, task in fetching.items()}

    async def aclose(self) -> None:
        """Closes the transport too, even one that was given."""
        self._names.close()
        await self._transport.aclose()

    async def _fetch(self, url: str, allowance: "_Allowance") -> Inline:
        try:
            async with asyncio.timeout_at(allowance.ends_at), allowance.places:
                return await self._follow(url, allowance)
        except TimeoutError:
            why = f"it took longer than {self._settings.media_timeout_s:g} seconds"
        except _CannotFetch as refused:
            why = str(refused)
        except httpx.TransportError:
            why = "the answer broke off, or is none"
        raise Malformed(f"The media at {_told(url)} cannot be fetched: {why}.")

    async def _follow(self, text: str, allowance: "_Allowance") -> Inline:
        url = _read_url(text)
        for _ in range(self._settings.media_redirects + 1):
            response = await self._get(url)
            try:
                if response.status_code not in _REDIRECTS:
                    return await self._read(response, allowance)
                url = _next(url, response)
            finally:
                await response.aclose()
        raise _CannotFetch(f"it redirects more than {self._settings.media_redirects} times")

    async def _get(self, url: httpx.URL) -> httpx.Response:
        """One hop. The transport is given the address, never the name."""
        host = url.raw_host.decode("ascii")
        headers = [
            (b"Host", url.netloc),
            (b"User-Agent", b"narthex"),
            (b"Accept", b"*/*"),
            (b"Accept-Encoding", b"identity"),
            (b"Connection", b"close"),
        ]
        # A certificate and SNI have no dot at the end, be the name written with one or not.
        extensions = {"sni_hostname": host.removesuffix("."), "timeout": {"connect": self._settings.connect_timeout_s}}
        for address in (await self._addresses(host, url.port or _DEFAULT_PORTS[url.scheme]))[:_ADDRESSES_TRIED]:
            there = url.copy_with(host=address)
            request = httpx.Request("GET", there, headers=headers, stream=httpx.ByteStream(b""), extensions=extensions)
            try:
                return await self._transport.handle_async_request(request)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue
        raise _CannotFetch("nobody answers there, or nobody whose TLS certificate can be trusted")

    async def _addresses(self, host: str, port: int) -> list[str]:
        try:
            found = await self._look_up(host, port)
        except (OSError, UnicodeError):
            found = ()
        allowed = [address for each in found if (address := reachable(each, self._settings.media_networks.parsed)) is not None]
        if not allowed or len(allowed) < len(found):
            raise _CannotFetch(_NO_PUBLIC_ADDRESS)
        return allowed

    async def _read(self, response: httpx.Response, allowance: "_Allowance") -> Inline:
        most_bytes = self._settings.media_max_bytes
        too_large = f"it is larger than {most_bytes} bytes"
        if response.status_code != 200:
            raise _CannotFetch(f"it was answered with status {response.status_code}")
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise _CannotFetch("it comes compressed, which was not asked for")
        declared = response.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > most_bytes:
            raise _CannotFetch(too_large)
        encoded: list[bytes] = []
        size_bytes = 0
        async for block in response.aiter_raw(_PIECE_BYTES):
            size_bytes += len(block)
            if size_bytes > most_bytes:
                raise _CannotFetch(too_large)
            allowance.take(len(block))
            encoded.append(b64encode(block))
        data = b"".join(encoded).decode("ascii")
        if not data:
            raise _CannotFetch("it is empty")
        said = response.headers.get("content-type", "")
        kind = media_type(said, b64decode(data[:32]))
        if kind is None:
            raise _CannotFetch(f"it is no image, document or audio that can be used (its type: {said[:80]!r})")
        return Inline(kind, data)


@dataclass(slots=True)
class _Allowance:
    """What all media of one request may take together. `ends_at`: of the loop's clock."""

    ends_at: float
    left_bytes: int
    places: asyncio.Semaphore

    def take(self, size_bytes: int) -> None:
        self.left_bytes -= size_bytes
        if self.left_bytes < 0:
            raise _CannotFetch("all media of the request are too large together")


class _CannotFetch(Exception):
    """Why, in words for whoever sent the URL."""


def _read_url(text: str) -> httpx.URL:
    """Only to ports where the web is served, or where anybody may serve: below 1024 is mail, and other things that obey lines of text."""
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, ValueError):
        raise _CannotFetch("it is no URL") from None
    if url.scheme not in _DEFAULT_PORTS:
        raise _CannotFetch("only http and https can be fetched")
    if not url.host:
        raise _CannotFetch("it names no host")
    if url.userinfo:
        raise _CannotFetch("credentials are not sent")
    if url.port is not None and url.port not in (80, 443) and not 1024 <= url.port <= 65535:
        raise _CannotFetch(f"media is not fetched from port {url.port}, only from 80, 443, and 1024 or above")
    return url


def _next(url: httpx.URL, response: httpx.Response) -> httpx.URL:
    """Where a redirect leads; it is checked as the first address was."""
    location = response.headers.get("location")
    if not location:
        raise _CannotFetch("it redirects without saying where to")
    try:
        there = _read_url(str(url.join(location)))
    except (httpx.InvalidURL, ValueError):
        raise _CannotFetch("it redirects to what is no URL") from None
    if url.scheme == "https" and there.scheme == "http":
        raise _CannotFetch("it redirects from https to http")
    return there


def _told(text: str) -> str:
    """The address without what may be secret in it."""
    try:
        shown = str(httpx.URL(text).copy_with(userinfo=b"", query=None, fragment=None))
    except (httpx.InvalidURL, ValueError):
        shown = re.sub(r"//.*@", "//", re.split(r"[?#]", text, maxsplit=1)[0], flags=re.DOTALL)
    shown = masked("".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in shown[: 2 * _LONGEST_TOLD]))
    return shown if len(shown) <= _LONGEST_TOLD else shown[:_LONGEST_TOLD] + "\N{HORIZONTAL ELLIPSIS}"
