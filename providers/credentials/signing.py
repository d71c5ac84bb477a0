"""Signer: authenticates each request, for credentials that need more than the same headers on every request."""

from collections.abc import Awaitable, Callable
from typing import Protocol

import httpx2

from providers.credentials.secret_record import SecretRecord

Header = tuple[bytes, bytes]

# Sends a request to a credential service over the gateway's own transport: status and body. Raises httpx2.TransportError.
Fetch = Callable[[httpx2.Request], Awaitable[tuple[int, bytes]]]


class UnsignedRequest(SecretRecord, frozen=True):
    """A request to sign. It is sent with this exact body, these headers, those of the signer, `Host` and `Content-Length`."""

    method: str
    url: httpx2.URL
    headers: list[Header]
    body: bytes


class Signer(Protocol):
    """A credential that signs each request, or is exchanged for a temporary token. One per endpoint and worker."""

    async def sign(self, request: UnsignedRequest) -> list[Header]:
        """The headers to add. Raises CredentialError without a usable credential, httpx2.TransportError if it cannot be fetched."""
        ...

    def invalidate(self) -> bool:
        """Discards cached keys or tokens, after the host refused them. Returns whether the next ones may be different."""
        ...
