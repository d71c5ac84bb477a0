"""Media by URL, fetched for targets that need the bytes: within limits, and from nowhere that its caller could not reach as well.

A name is looked up once per hop, every address it has must be public (app/gateway/media/public_addresses.py), and the connection goes to an address
so checked, while Host and TLS are the name's: what the name means a moment later plays no part. No proxy is used, whatever the
environment says: behind one, addresses could not be checked.
"""

import asyncio
import re
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass

import httpx

from app.gateway.media.media_type import detect_media_type
from app.gateway.media.public_addresses import public_address
from app.settings import Settings
from providers.canonical.chat import Inline
from providers.canonical.errors import InvalidRequest, Unsupported
from providers.canonical.upstream_errors import mask_credentials
from providers.transport.resolver import Resolver
from providers.transport.transport import Transport

MAX_URLS = 100  # of one request: it must not make the gateway a way to flood others
TOTAL_BYTES_FACTOR = 2  # all media of a request may have this many times the bytes that one may have

_MAX_CONCURRENT_FETCHES = 8
_MAX_CONCURRENT_LOOKUPS = 8
_MAX_ADDRESSES = 3
# Encoded piecewise: all 20 MiB at once would hold up every other request. Divisible by 3: no piece but the last is padded.
_CHUNK_BYTES = 192 * 1024
_MAX_URL_CHARS = 200
_DEFAULT_PORTS = {"http": 80, "https": 443}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# One sentence for a forbidden address and for a name without any: it must not tell what an internal network has.
_NO_PUBLIC_ADDRESS = "its host has no public address"

ResolveHost = Callable[[str, int], Awaitable[Collection[str]]]


class MediaFetcher:
    """Fetches for one worker. `look_up`: the addresses of a host; it raises OSError or UnicodeError where there is none."""

    def __init__(
        self, settings: Settings, transport: httpx.AsyncBaseTransport | None = None, resolve_host: ResolveHost | None = None
    ) -> None:
        self._settings = settings
        self._transport = Transport() if transport is None else transport
        self._names = Resolver(_MAX_CONCURRENT_LOOKUPS)
        self._resolve_host = self._names.resolve if resolve_host is None else resolve_host

    async def fetch(self, urls: Collection[str]) -> Mapping[str, Inline]:
        """What is at each address, by address; each is asked for once. All or nothing: the rest is given up when one fails.

        Raises Malformed naming the address and why, Unsupported where fetching is switched off.
        """
        unique_urls = [*dict.fromkeys(urls)]
        if not unique_urls:
            return {}
        if self._settings.media_fetch == "off":
            raise Unsupported("The model's target needs the bytes of media, and this gateway fetches none: send them as data: URLs.")
        if len(unique_urls) > MAX_URLS:
            raise InvalidRequest(f"A request names media at {len(unique_urls)} addresses: at most {MAX_URLS} are fetched. Send data: URLs.")
        deadline = asyncio.get_running_loop().time() + self._settings.media_timeout_s
        budget = _FetchBudget(deadline, TOTAL_BYTES_FACTOR * self._settings.media_max_bytes, asyncio.Semaphore(_MAX_CONCURRENT_FETCHES))
        try:
            async with asyncio.TaskGroup() as group:
                tasks = {url: group.create_task(self._fetch(url, budget)) for url in unique_urls}
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return {url: task.result() for url, task in tasks.items()}

    async def aclose(self) -> None:
        """Closes the transport too, even one that was given."""
        self._names.close()
        await self._transport.aclose()

    async def _fetch(self, url: str, budget: "_FetchBudget") -> Inline:
        try:
            async with asyncio.timeout_at(budget.deadline), budget.slots:
                return await self._follow_redirects(url, budget)
        except TimeoutError:
            why = f"it took longer than {self._settings.media_timeout_s:g} seconds"
        except _FetchError as refused:
            why = str(refused)
        except httpx.TransportError:
            why = "the answer broke off, or is none"
        raise InvalidRequest(f"The media at {_printable_url(url)} cannot be fetched: {why}.")

    async def _follow_redirects(self, text: str, budget: "_FetchBudget") -> Inline:
        url = _parse_url(text)
        for _ in range(self._settings.media_redirects + 1):
            response = await self._get(url)
            try:
                if response.status_code not in _REDIRECTS:
                    return await self._read(response, budget)
                url = _redirect_target(url, response)
            finally:
                await response.aclose()
        raise _FetchError(f"it redirects more than {self._settings.media_redirects} times")

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
        for address in (await self._addresses(host, url.port or _DEFAULT_PORTS[url.scheme]))[:_MAX_ADDRESSES]:
            address_url = url.copy_with(host=address)
            request = httpx.Request("GET", address_url, headers=headers, stream=httpx.ByteStream(b""), extensions=extensions)
            try:
                return await self._transport.handle_async_request(request)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue
        raise _FetchError("nobody answers there, or nobody whose TLS certificate can be trusted")

    async def _addresses(self, host: str, port: int) -> list[str]:
        try:
            found = await self._resolve_host(host, port)
        except (OSError, UnicodeError):
            found = ()
        allowed = [address for each in found if (address := public_address(each, self._settings.media_networks.parsed)) is not None]
        if not allowed or len(allowed) < len(found):
            raise _FetchError(_NO_PUBLIC_ADDRESS)
        return allowed

    async def _read(self, response: httpx.Response, budget: "_FetchBudget") -> Inline:
        max_bytes = self._settings.media_max_bytes
        too_large = f"it is larger than {max_bytes} bytes"
        if response.status_code != 200:
            raise _FetchError(f"it was answered with status {response.status_code}")
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise _FetchError("it comes compressed, which was not asked for")
        declared = response.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > max_bytes:
            raise _FetchError(too_large)
        encoded: list[bytes] = []
        size_bytes = 0
        async for block in response.aiter_raw(_CHUNK_BYTES):
            size_bytes += len(block)
            if size_bytes > max_bytes:
                raise _FetchError(too_large)
            budget.consume(len(block))
            encoded.append(b64encode(block))
        data = b"".join(encoded).decode("ascii")
        if not data:
            raise _FetchError("it is empty")
        content_type = response.headers.get("content-type", "")
        media_kind = detect_media_type(content_type, b64decode(data[:32]))
        if media_kind is None:
            raise _FetchError(f"it is no image, document or audio that can be used (its type: {content_type[:80]!r})")
        return Inline(media_kind, data)


@dataclass(slots=True)
class _FetchBudget:
    """What all media of one request may take together. `ends_at`: of the loop's clock."""

    deadline: float
    remaining_bytes: int
    slots: asyncio.Semaphore

    def consume(self, size_bytes: int) -> None:
        self.remaining_bytes -= size_bytes
        if self.remaining_bytes < 0:
            raise _FetchError("all media of the request are too large together")


class _FetchError(Exception):
    """Why, in words for whoever sent the URL."""


def _parse_url(text: str) -> httpx.URL:
    """Only to ports where the web is served, or where anybody may serve: below 1024 is mail, and other things that obey lines of text."""
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, ValueError):
        raise _FetchError("it is no URL") from None
    if url.scheme not in _DEFAULT_PORTS:
        raise _FetchError("only http and https can be fetched")
    if not url.host:
        raise _FetchError("it names no host")
    if url.userinfo:
        raise _FetchError("credentials are not sent")
    if url.port is not None and url.port not in (80, 443) and not 1024 <= url.port <= 65535:
        raise _FetchError(f"media is not fetched from port {url.port}, only from 80, 443, and 1024 or above")
    return url


def _redirect_target(url: httpx.URL, response: httpx.Response) -> httpx.URL:
    """Where a redirect leads; it is checked as the first address was."""
    location = response.headers.get("location")
    if not location:
        raise _FetchError("it redirects without saying where to")
    try:
        target = _parse_url(str(url.join(location)))
    except (httpx.InvalidURL, ValueError):
        raise _FetchError("it redirects to what is no URL") from None
    if url.scheme == "https" and target.scheme == "http":
        raise _FetchError("it redirects from https to http")
    return target


def _printable_url(text: str) -> str:
    """The address without what may be secret in it."""
    try:
        shown = str(httpx.URL(text).copy_with(userinfo=b"", query=None, fragment=None))
    except (httpx.InvalidURL, ValueError):
        shown = re.sub(r"//.*@", "//", re.split(r"[?#]", text, maxsplit=1)[0], flags=re.DOTALL)
    shown = mask_credentials("".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in shown[: 2 * _MAX_URL_CHARS]))
    return shown if len(shown) <= _MAX_URL_CHARS else shown[:_MAX_URL_CHARS] + "\N{HORIZONTAL ELLIPSIS}"
