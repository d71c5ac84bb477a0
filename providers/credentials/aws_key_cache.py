"""KeyCache: the keys of an AWS credential chain, fetched on a thread and cached."""

import asyncio
import math
import time
from collections.abc import Callable
from typing import Protocol

from providers.credentials.sigv4 import AwsKeys

# botocore returns no keys that expire within ten minutes, and refreshes them 15 minutes before they expire
# (botocore.credentials.RefreshableCredentials, 1.44), so keys stay valid for as long as we use them without a new fetch.
_REFRESH_AFTER_S = 60.0
_USABLE_S = 300.0
# Keys that are refused so soon after they were fetched would be the same again.
_MIN_REFETCH_S = 10.0


class Chain(Protocol):
    """A source of keys. Its method blocks: it reads files, runs programs or calls a credential service."""

    def keys(self) -> AwsKeys:
        """The current keys. Raises CredentialError, httpx2.TransportError."""
        ...


class KeyCache:
    """The keys of a chain, cached for one event loop. One fetch at a time serves all waiting requests; cancelling one affects no other."""

    def __init__(self, open_chain: Callable[[], Chain]) -> None:
        self._open_chain = open_chain
        self._chain = open_chain()
        self._keys: AwsKeys | None = None
        self._refused: AwsKeys | None = None
        self._fetched_at = -math.inf
        self._fetch_task: asyncio.Task[AwsKeys] | None = None

    async def keys(self) -> AwsKeys:
        """The cached keys, or newly fetched ones. Raises CredentialError, httpx2.TransportError."""
        age_s = time.monotonic() - self._fetched_at
        if self._keys is not None and age_s < _REFRESH_AFTER_S:
            return self._keys
        if self._fetch_task is None:
            self._fetch_task = asyncio.create_task(self._fetch(self._chain))
            self._fetch_task.add_done_callback(self._on_fetched)
        if self._keys is not None and age_s < _USABLE_S:
            return self._keys
        return await asyncio.shield(self._fetch_task)

    def invalidate(self) -> bool:
        """See Signer.invalidate(). The keys may already be new, if another request was refused before."""
        if time.monotonic() - self._fetched_at < _MIN_REFETCH_S:
            return self._refused is not None and self._keys != self._refused
        if self._keys is not None:
            self._refused, self._keys, self._chain, self._fetch_task = self._keys, None, self._open_chain(), None
        return True

    async def _fetch(self, chain: Chain) -> AwsKeys:
        keys = await asyncio.to_thread(chain.keys)
        if chain is self._chain:
            self._keys, self._fetched_at = keys, time.monotonic()
        return keys

    def _on_fetched(self, task: asyncio.Task[AwsKeys]) -> None:
        if self._fetch_task is task:
            self._fetch_task = None
        if not task.cancelled():
            task.exception()  # retrieved, or asyncio would log it where no request waited
