"""Fetches media by URL for targets that need the bytes: within limits, and only from public addresses (no SSRF).

A name is resolved once per hop, every address it has must be public (public_addresses.py), and the connection goes to an address that
was checked, with the name in Host and TLS: a later change of the DNS record (DNS rebinding) has no effect. Proxies configured in the
environment are not used: behind one, addresses could not be checked.
"""

import asyncio
import re
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

import httpx2

from app.gateway.media.media_type import detect_media_type
from app.gateway.media.public_addresses import public_address
from app.settings import Settings
from providers.canonical.chat import Inline
from providers.canonical.credential_masking import mask_credentials
from providers.canonical.errors import InvalidRequest, Unsupported
from providers.transport.read_body import limit_blocks
from providers.transport.resolver import Resolver
from providers.transport.response_stream import ResponseTooLarge
from providers.transport.transport import Transport

MAX_URLS = 100  # of one request, so that the gateway cannot be used to flood others
TOTAL_BYTES_FACTOR = 2  # the limit for all media of a request, as a multiple of the limit for one

_MAX_CONCURRENT_FETCHES = 8
_MAX_CONCURRENT_LOOKUPS = 8
_MAX_ADDRESSES = 3
# Encoded in pieces, as all 20 MiB at once would block the event loop. Divisible by 3, so that only the last piece is padded.
_CHUNK_BYTES = 192 * 1024
_MAX_URL_CHARS = 200
_DEFAULT_PORTS = {"http": 80, "https": 443}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# The same message for a forbidden address and for a name without one, so that it reveals nothing about internal networks.
_NO_PUBLIC_ADDRESS = "its host has no public address"

ResolveHost = Callable[[str, int], Awaitable[Collection[str]]]
ClaimBytes = Callable[[int], None]


def claim_nothing(size_bytes: int) -> None:
    """Claims no memory. It is for fetches whose memory nobody bounds."""


class FetchesMedia(Protocol):
    async def fetch(self, urls: Collection[str], claim_bytes: ClaimBytes = claim_nothing) -> Mapping[str, Inline]: ...


class MediaFetcher:
    """Fetches media for one worker. `resolve_host` gives the addresses of a host; it raises OSError or UnicodeError if there is none."""

    def __init__(
        self, settings: Settings, transport: httpx2.AsyncBaseTransport | None = None, resolve_host: ResolveHost | None = None
    ) -> None:
        self._settings = settings
        self._transport = Transport() if transport is None else transport
        self._names = Resolver(_MAX_CONCURRENT_LOOKUPS)
        self._resolve_host = self._names.resolve if resolve_host is None else resolve_host

    async def fetch(self, urls: Collection[str], claim_bytes: ClaimBytes = claim_nothing) -> Mapping[str, Inline]:
        """The media at each URL, fetched once each. If one fails, the others are cancelled.

        `claim_bytes` takes the memory for more bytes, before they are kept; what it raises ends the fetching. Raises InvalidRequest naming
        the URL and the reason, Unsupported where fetching is switched off.
        """
        unique_urls = [*dict.fromkeys(urls)]
        if not unique_urls:
            return {}
        if self._settings.media_fetch == "off":
            raise Unsupported("The model's target needs the bytes of media, and this gateway fetches none: send them as data: URLs.")
        if len(unique_urls) > MAX_URLS:
            raise InvalidRequest(f"The request names media at {len(unique_urls)} URLs: at most {MAX_URLS} are fetched. Send data: URLs.")
        deadline = asyncio.get_running_loop().time() + self._settings.media_timeout_s
        slots = asyncio.Semaphore(_MAX_CONCURRENT_FETCHES)
        budget = _FetchBudget(deadline, TOTAL_BYTES_FACTOR * self._settings.media_max_bytes, slots, claim_bytes)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = {url: group.create_task(self._fetch(url, budget)) for url in unique_urls}
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return {url: task.result() for url, task in tasks.items()}

    async def aclose(self) -> None:
        """Closes the transport too, even one passed to the constructor."""
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
        except httpx2.TransportError:
            why = "the response ended early, or is not HTTP"
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

    async def _get(self, url: httpx2.URL) -> httpx2.Response:
        """The response of one hop. The transport connects to the checked address, never to the name."""
        host = url.raw_host.decode("ascii")
        headers = [
            (b"Host", url.netloc),
            (b"User-Agent", b"narthex"),
            (b"Accept", b"*/*"),
            (b"Accept-Encoding", b"identity"),
            (b"Connection", b"close"),
        ]
        # Certificates and SNI hold names without a trailing dot.
        extensions = {"sni_hostname": host.removesuffix("."), "timeout": {"connect": self._settings.connect_timeout_s}}
        for address in (await self._addresses(host, url.port or _DEFAULT_PORTS[url.scheme]))[:_MAX_ADDRESSES]:
            address_url = url.copy_with(host=address)
            request = httpx2.Request("GET", address_url, headers=headers, stream=httpx2.ByteStream(b""), extensions=extensions)
            try:
                return await self._transport.handle_async_request(request)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                continue
        raise _FetchError("no server responds there, or its TLS certificate is not trusted")

    async def _addresses(self, host: str, port: int) -> list[str]:
        try:
            found = await self._resolve_host(host, port)
        except (OSError, UnicodeError):
            found = ()
        allowed = [address for each in found if (address := public_address(each, self._settings.media_networks.parsed)) is not None]
        if not allowed or len(allowed) < len(found):
            raise _FetchError(_NO_PUBLIC_ADDRESS)
        return allowed

    async def _read(self, response: httpx2.Response, budget: "_FetchBudget") -> Inline:
        max_bytes = self._settings.media_max_bytes
        too_large = f"it is larger than {max_bytes} bytes"
        if response.status_code != 200:
            raise _FetchError(f"the response has status {response.status_code}")
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise _FetchError("the response is compressed, which was not requested")
        declared = response.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > max_bytes:
            raise _FetchError(too_large)
        encoded: list[bytes] = []
        try:
            async for block in limit_blocks(response.aiter_raw(_CHUNK_BYTES), max_bytes):
                budget.consume(len(block))
                encoded.append(b64encode(block))
                budget.claim_bytes(len(encoded[-1]))
        except ResponseTooLarge:
            raise _FetchError(too_large) from None
        data = b"".join(encoded).decode("ascii")
        if not data:
            raise _FetchError("it is empty")
        content_type = response.headers.get("content-type", "")
        media_kind = detect_media_type(content_type, b64decode(data[:32]))
        if media_kind is None:
            raise _FetchError(f"it is not an image, document or audio that can be used (its type: {content_type[:80]!r})")
        return Inline(media_kind, data)


@dataclass(slots=True)
class _FetchBudget:
    """The limits that all media of one request share.

    `deadline` is by the event loop's clock. For `claim_bytes` see MediaFetcher.fetch().
    """

    deadline: float
    remaining_bytes: int
    slots: asyncio.Semaphore
    claim_bytes: ClaimBytes

    def consume(self, size_bytes: int) -> None:
        self.remaining_bytes -= size_bytes
        if self.remaining_bytes < 0:
            raise _FetchError("all media of the request are too large together")


class _FetchError(Exception):
    """Why a URL cannot be fetched, as the caller reads it."""


def _parse_url(text: str) -> httpx2.URL:
    """Raises _FetchError for URLs that are not fetched. Ports below 1024 other than 80 and 443 serve mail and other line protocols."""
    try:
        url = httpx2.URL(text)
    except (httpx2.InvalidURL, ValueError):
        raise _FetchError("it is not a valid URL") from None
    if url.scheme not in _DEFAULT_PORTS:
        raise _FetchError("only http and https can be fetched")
    if not url.host:
        raise _FetchError("it names no host")
    if url.userinfo:
        raise _FetchError("credentials are not sent")
    if url.port is not None and url.port not in (80, 443) and not 1024 <= url.port <= 65535:
        raise _FetchError(f"media is not fetched from port {url.port}, only from 80, 443, and 1024 or above")
    return url


def _redirect_target(url: httpx2.URL, response: httpx2.Response) -> httpx2.URL:
    """The URL to which a response redirects, checked like the first one."""
    location = response.headers.get("location")
    if not location:
        raise _FetchError("it redirects without a location")
    try:
        target = _parse_url(str(url.join(location)))
    except (httpx2.InvalidURL, ValueError):
        raise _FetchError("it redirects to an invalid URL") from None
    if url.scheme == "https" and target.scheme == "http":
        raise _FetchError("it redirects from https to http")
    return target


def _printable_url(text: str) -> str:
    """The URL without what may be secret in it: user, query, fragment, credentials."""
    try:
        shown = str(httpx2.URL(text).copy_with(userinfo=b"", query=None, fragment=None))
    except (httpx2.InvalidURL, ValueError):
        shown = re.sub(r"//.*@", "//", re.split(r"[?#]", text, maxsplit=1)[0], flags=re.DOTALL)
    shown = mask_credentials("".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in shown[: 2 * _MAX_URL_CHARS]))
    return shown if len(shown) <= _MAX_URL_CHARS else shown[:_MAX_URL_CHARS] + "\N{HORIZONTAL ELLIPSIS}"
