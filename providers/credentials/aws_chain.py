"""AWS's own chain of credentials (environment, files, SSO, roles, the machine's own), as botocore walks it: on a thread, kept fresh."""

import asyncio
import math
import time
from collections.abc import Callable
from typing import Any, Protocol, cast

import httpx
from botocore.exceptions import (  # pyright: ignore[reportMissingTypeStubs]
    BotoCoreError,
    HTTPClientError,
    ProfileNotFound,
)
from botocore.session import Session  # pyright: ignore[reportMissingTypeStubs]

from providers.credentials.references import NoCredential
from providers.credentials.sigv4 import Keys

# botocore gives none out that expires within ten minutes, and has new ones fetched a quarter of an hour before
# (botocore.credentials.RefreshableCredentials, 1.44): so what it gave out lasts for as long as we use it without asking.
_FRESH_S = 60.0
_USABLE_S = 300.0
# What was refused so soon after it was fetched would be the same again.
_HOPELESS_S = 10.0


class Chain(Protocol):
    """Blocks: for files, programs, or who gives out credentials over the network."""

    def keys(self) -> Keys:
        """Those of now. Raises NoCredential, httpx.TransportError."""
        ...


class _Frozen(Protocol):
    access_key: str
    secret_key: str
    token: str | None


class _Held(Protocol):
    def get_frozen_credentials(self) -> _Frozen: ...


class BotocoreChain:
    """`profile` None: AWS_PROFILE's, or the default one."""

    def __init__(self, profile: str | None) -> None:
        self._profile = profile
        self._held: _Held | None = None

    def keys(self) -> Keys:
        try:
            if self._held is None:
                self._held = _session(self._profile).get_credentials()
            if self._held is None:
                raise NoCredential(f"AWS's standard chain{_of(self._profile)} has no credentials on this machine.")
            frozen = self._held.get_frozen_credentials()
        except HTTPClientError as fault:
            raise httpx.ConnectError(f"AWS's standard chain could not be reached: {type(fault).__name__}") from None
        except ProfileNotFound as fault:
            raise NoCredential(str(fault)) from None
        except (BotoCoreError, OSError) as fault:
            # Its words are not repeated: they may be those of a program that prints secrets.
            raise NoCredential(f"AWS's standard chain{_of(self._profile)} gave no credentials: {type(fault).__name__}.") from None
        return Keys(frozen.access_key, frozen.secret_key, frozen.token)


def region_of(profile: str | None) -> str | None:
    """The region that the environment or the profile's files say; read at once, for it is needed before the first request."""
    try:
        region = _session(profile).get_config_variable("region")
    except (BotoCoreError, OSError):
        return None
    return region if isinstance(region, str) and region else None


class Fresh:
    """Keys of a chain, for one event loop. Fetched by one at a time, for all who wait; who leaves while waiting disturbs no other."""

    def __init__(self, begin: Callable[[], Chain]) -> None:
        self._begin = begin
        self._chain = begin()
        self._keys: Keys | None = None
        self._refused: Keys | None = None
        self._fetched = -math.inf
        self._fetching: asyncio.Task[Keys] | None = None

    async def keys(self) -> Keys:
        """Raises NoCredential, httpx.TransportError."""
        age_s = time.monotonic() - self._fetched
        if self._keys is not None and age_s < _FRESH_S:
            return self._keys
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._fetch(self._chain))
            self._fetching.add_done_callback(self._done)
        if self._keys is not None and age_s < _USABLE_S:
            return self._keys
        return await asyncio.shield(self._fetching)

    def forget(self) -> bool:
        """After a refusal: whether the next may be others, or are so already, since another request was refused."""
        if time.monotonic() - self._fetched < _HOPELESS_S:
            return self._refused is not None and self._keys != self._refused
        if self._keys is not None:
            self._refused, self._keys, self._chain, self._fetching = self._keys, None, self._begin(), None
        return True

    async def _fetch(self, chain: Chain) -> Keys:
        keys = await asyncio.to_thread(chain.keys)
        if chain is self._chain:
            self._keys, self._fetched = keys, time.monotonic()
        return keys

    def _done(self, task: asyncio.Task[Keys]) -> None:
        if self._fetching is task:
            self._fetching = None
        if not task.cancelled():
            task.exception()  # looked at, for nobody may have waited


def _session(profile: str | None) -> Any:
    return cast(Any, Session)(profile=profile)


def _of(profile: str | None) -> str:
    return f" of profile {profile!r}" if profile else ""
