"""AWS's own credential chain (environment, files, SSO, roles, instance metadata): read by botocore."""

from typing import Any, Protocol, cast

import httpx2
from botocore.exceptions import (  # pyright: ignore[reportMissingTypeStubs]
    BotoCoreError,
    HTTPClientError,
    ProfileNotFound,
)
from botocore.session import Session  # pyright: ignore[reportMissingTypeStubs]

from providers.credentials.references import CredentialError
from providers.credentials.sigv4 import AwsKeys


class _FrozenCredentials(Protocol):
    access_key: str
    secret_key: str
    token: str | None


class _RefreshableCredentials(Protocol):
    def get_frozen_credentials(self) -> _FrozenCredentials: ...


class BotocoreChain:
    """The chain of botocore. Where `profile` is None, it is that of AWS_PROFILE, or the default one."""

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
            raise httpx2.ConnectError(f"AWS's standard chain could not be reached: {type(error).__name__}") from None
        except ProfileNotFound as error:
            raise CredentialError(str(error)) from None
        except (BotoCoreError, OSError) as error:
            # The message is not repeated: it may be the output of a credential program, with secrets.
            raise CredentialError(
                f"AWS's standard chain{_profile_suffix(self._profile)} returned no credentials: {type(error).__name__}."
            ) from None
        return AwsKeys(frozen.access_key, frozen.secret_key, frozen.token)


def region_of(profile: str | None) -> str | None:
    """The region in the environment or the profile's files; None if there is none. Reads files, on the calling thread."""
    try:
        region = _session(profile).get_config_variable("region")
    except (BotoCoreError, OSError):
        return None
    return region if isinstance(region, str) and region else None


def _session(profile: str | None) -> Any:
    return cast(Any, Session)(profile=profile)


def _profile_suffix(profile: str | None) -> str:
    return f" of profile {profile!r}" if profile else ""
