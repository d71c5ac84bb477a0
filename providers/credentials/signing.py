"""Signing: what makes a request a credential's own, where that is not the same few headers for all requests."""

from collections.abc import Awaitable, Callable
from typing import Protocol

import httpx

from providers.credentials.secret_record import SecretRecord

Header = tuple[bytes, bytes]

# A request to whoever gives out credentials, sent as any other of the gateway's: status and body. Raises httpx.TransportError.
Fetch = Callable[[httpx.Request], Awaitable[tuple[int, bytes]]]


class UnsignedRequest(SecretRecord, frozen=True):
    """A request as it will be sent but for what signs it: these headers, `Host` and `Content-Length` beside, and this very body."""

    method: str
    url: httpx.URL
    headers: list[Header]
    body: bytes


class Signer(Protocol):
    """One credential that signs each request, or is exchanged for a token that lasts a while. One per endpoint and worker."""

    async def sign(self, request: UnsignedRequest) -> list[Header]:
        """The headers to add. Raises NoCredential if there is nothing to sign with, httpx.TransportError if it cannot be fetched."""
        ...

    def invalidate(self) -> bool:
        """After a refusal: whatever is cached is not used again. Whether there is hope that the next is another one."""
        ...
