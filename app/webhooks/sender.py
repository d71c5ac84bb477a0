"""Sends one webhook: to public addresses, or those that the operator allows, without following redirects, within bounds.

As in app/gateway/media/fetcher.py, a name is resolved once, every address that it has must be allowed, and the connection goes to an
address that was checked. What the configured proxy is for goes through it, by name: it decides what it reaches.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection
from ipaddress import ip_address

import httpx2
from msgspec import Struct

from app.gateway.media.public_addresses import public_address
from app.settings import Settings
from app.store.postgres.vault import Vault
from app.store.webhooks.webhook_events import DueDelivery
from app.store.webhooks.webhooks import vault_name
from app.webhooks.signature import Header, signature_headers
from providers.credentials import CredentialError
from providers.transport.address_guard import AddressRefused
from providers.transport.read_body import read_body
from providers.transport.resolver import Resolver
from providers.transport.response_stream import ResponseTooLarge
from providers.transport.transport import Transport

ResolveHost = Callable[[str, int], Awaitable[Collection[str]]]

_MAX_CONCURRENT_LOOKUPS = 4
_MAX_ADDRESSES = 3
_MAX_RESPONSE_BYTES = 16 * 1024
_PORTS = {"https": 443, "http": 80}


class Sent(Struct, frozen=True):
    """The result of an attempt. Errors quote nothing that the receiver sent.

    `error` is None if the receiver accepted the event with a status of 2xx.
    """

    status: int | None
    error: str | None


class _NotSent(Exception):
    """The message says why."""


class WebhookSender:
    """Sends events to webhooks. `resolve_host` gives the addresses of a host; it raises OSError or UnicodeError if there is none."""

    def __init__(self, settings: Settings, vault: Vault, transport: Transport, resolve_host: ResolveHost | None = None) -> None:
        self._settings = settings
        self._guard = settings.address_guard
        self._vault = vault
        self._transport = transport
        self._names = Resolver(_MAX_CONCURRENT_LOOKUPS)
        self._resolve_host = self._names.resolve if resolve_host is None else resolve_host

    async def send(self, due: DueDelivery) -> Sent:
        """Sends an event. It never raises: whatever went wrong is the result."""
        try:
            async with asyncio.timeout(self._settings.webhook_timeout_s):
                status = await self._post(due)
        except TimeoutError:
            return Sent(None, f"no response within {self._settings.webhook_timeout_s:g} s")
        except _NotSent as fault:
            return Sent(None, str(fault))
        except CredentialError:
            return Sent(None, "its secret cannot be decrypted here: NARTHEX_SECRET_KEY of the writer lacks the key that encrypted it")
        except httpx2.TransportError as fault:
            return Sent(None, f"no response: {type(fault).__name__}")
        if 200 <= status < 300:
            return Sent(status, None)
        return Sent(status, f"the response has status {status}" + (", and redirects are not followed" if 300 <= status < 400 else ""))

    async def aclose(self) -> None:
        self._names.close()
        await self._transport.aclose()

    async def _post(self, due: DueDelivery) -> int:
        url, body = httpx2.URL(due.url), due.body.encode()
        host, port = url.raw_host.decode("ascii"), url.port or _PORTS[url.scheme]
        try:
            self._guard.check_host(host, port)  # the addresses that it has are looked at by the transport
        except AddressRefused as refused:
            raise _NotSent(str(refused)) from None
        secret = self._vault.decrypt(vault_name(due.webhook_id), due.encrypted)
        headers = [
            (b"Host", url.netloc),
            (b"User-Agent", b"narthex"),
            (b"Content-Type", b"application/json"),
            (b"Content-Length", b"%d" % len(body)),
            (b"Connection", b"close"),
            *signature_headers(secret, due.event_id, int(time.time()), body),
        ]
        proxy = self._settings.proxy
        if url.scheme == "https" and proxy is not None and proxy.is_for(host, port):
            return await self._post_to(url, host, headers, body)
        last: httpx2.TransportError | None = None
        for address in (await self._addresses(url.scheme, host, port))[:_MAX_ADDRESSES]:
            try:
                return await self._post_to(url.copy_with(host=address), host, headers, body)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as fault:
                if isinstance(fault.__cause__, AddressRefused):
                    raise _NotSent(str(fault.__cause__)) from None
                last = fault
        raise _NotSent("no server responds there, or its TLS certificate is not trusted") from last

    async def _addresses(self, scheme: str, host: str, port: int) -> list[str]:
        """Returns the addresses to try. Raises _NotSent unless all addresses of the host are allowed."""
        try:
            found = await self._resolve_host(host, port)
        except (OSError, UnicodeError):
            found = ()
        networks = self._settings.webhook_networks.parsed
        allowed = [address for each in found if (address := public_address(each, networks)) is not None]
        if not allowed or len(allowed) < len(found):
            raise _NotSent("its host has no public address, nor one in NARTHEX_WEBHOOK_NETWORKS")
        if scheme == "http" and not all(any(ip_address(each) in network for network in networks) for each in allowed):
            raise _NotSent("http is only for hosts in NARTHEX_WEBHOOK_NETWORKS")
        return allowed

    async def _post_to(self, url: httpx2.URL, host: str, headers: list[Header], body: bytes) -> int:
        timeout = {"connect": self._settings.connect_timeout_s, "first": self._settings.webhook_timeout_s}
        extensions = {"sni_hostname": host.removesuffix("."), "timeout": timeout}
        request = httpx2.Request("POST", url, headers=headers, stream=httpx2.ByteStream(body), extensions=extensions)
        response = await self._transport.handle_async_request(request)
        try:
            with contextlib.suppress(ResponseTooLarge, httpx2.TransportError):  # its status is all that counts
                await read_body(response, _MAX_RESPONSE_BYTES)
            return response.status_code
        finally:
            await response.aclose()
