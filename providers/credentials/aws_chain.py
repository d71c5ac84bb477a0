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

from providers.credentials.references import CredentialError
from providers.credentials.sigv4 import AwsKeys

# botocore gives none out that expires within ten minutes, and has new ones fetched a quarter of an hour before
# (botocore.credentials.RefreshableCredentials, 1.44): so what it gave out lasts for as long as we use it without asking.
_REFRESH_AFTER_S = 60.0
_USABLE_S = 300.0
# What was refused so soon after it was fetched would be the same again.
_MIN_REFETCH_S = 10.0


class Chain(Protocol):
    """Blocks: for files, programs, or who gives out credentials over the network."""

    def keys(self) -> AwsKeys:
        """Those of now. Raises NoCredential, httpx.TransportError."""
        ...


class _FrozenCredentials(Protocol):
    access_key: str
    secret_key: str
    token: str | None


class _RefreshableCredentials(Protocol):
    def get_frozen_credentials(self) -> _FrozenCredentials: ...


class BotocoreChain:
    """`profile` None: AWS_PROFILE's, or the default one."""

    def __init__(self, profile: str | None) -> None:
        self._profile = profile
        self._credentials: _RefreshableCredentials | None = None

    def keys(self) -> AwsKeys:
        try:
            if self._credentials is None:
                self._credentials = _session(self._profile).get_credentials()
            if self._credentials is None:
                raise CredentialError(f"AWS's standard chain{_profile_suffix(self._profile)} has no credentials on this machine.")
            frozen = self._credentials.get_frozen_credentials()
        except HTTPClientError as error:
            raise httpx.ConnectError(f"AWS's standard chain could not be reached: {type(error).__name__}") from None
        except ProfileNotFound as error:
            raise CredentialError(str(error)) from None
        except (BotoCoreError, OSError) as error:
            # Its words are not repeated: they may be those of a program that prints secrets.
            raise CredentialError(
                f"AWS's standard chain{_profile_suffix(self._profile)} gave no credentials: {type(error).__name__}."
            ) from None
        return AwsKeys(frozen.access_key, frozen.secret_key, frozen.token)


def region_of(profile: str | None) -> str | None:
    """The region that the environment or the profile's files say; read at once, for it is needed before the first request."""
    try:
        region = _session(profile).get_config_variable("region")
    except (BotoCoreError, OSError):
        return None
    return region if isinstance(region, str) and region else None


class KeyCache:
    """Keys of a chain, for one event loop. Fetched by one at a time, for all who wait; who leaves while waiting disturbs no other."""

    def __init__(self, open_chain: Callable[[], Chain]) -> None:
        self._open_chain = open_chain
        self._chain = open_chain()
        self._keys: AwsKeys | None = None
        self._refused: AwsKeys | None = None
        self._fetched_at = -math.inf
        self._fetch_task: asyncio.Task[AwsKeys] | None = None

    async def keys(self) -> AwsKeys:
        """Raises NoCredential, httpx.TransportError."""
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
        """After a refusal: whether the next may be others, or are so already, since another request was refused."""
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
            task.exception()  # looked at, for nobody may have waited


def _session(profile: str | None) -> Any:
    return cast(Any, Session)(profile=profile)


def _profile_suffix(profile: str | None) -> str:
    return f" of profile {profile!r}" if profile else ""
