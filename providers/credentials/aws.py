"""AWS credentials: given as JSON, or found by AWS's own chain; each request is signed with them anew."""

import re
import time

import msgspec

from providers.credentials.aws_chain import BotocoreChain, Fresh, region_of
from providers.credentials.references import NoCredential
from providers.credentials.signing import Header, Unsigned
from providers.credentials.sigv4 import Keys, Pen
from providers.credentials.unshown import Unshown
from providers.wire import UNREADABLE

# It becomes a part of a host's name.
_REGION = re.compile(r"[a-z0-9-]{1,40}")
_SHAPE = "a JSON object with access_key_id and secret_access_key, and, where there are, session_token and region"


class _Given(Unshown, frozen=True, forbid_unknown_fields=True):
    access_key_id: str
    secret_access_key: str
    session_token: str | None = None
    region: str | None = None


class AwsSigner:
    """One credential for one service: JSON, `aws:default` or `aws:profile:NAME`. Raises NoCredential for another.

    `region`: where the operator says it; None: the credential's own, or that of the machine's configuration; None is left if nobody says.
    """

    def __init__(self, credential: str, service: str, region: str | None) -> None:
        self._service = service
        self._fresh: Fresh | None = None
        self._pen: Pen | None = None
        self._keys: Keys | None = None
        if is_ambient(credential):
            profile = credential.removeprefix("aws:profile:") if credential.startswith("aws:profile:") else None
            self._fresh = Fresh(lambda: BotocoreChain(profile))
            self.region = region or region_of(profile)
        else:
            given = _read(credential)
            self._keys = Keys(given.access_key_id, given.secret_access_key, given.session_token or None)
            self.region = region or given.region or None
        if self.region is not None and _REGION.fullmatch(self.region) is None:
            raise NoCredential("The region of a credential for AWS is one such as eu-west-1.")

    async def sign(self, request: Unsigned) -> list[Header]:
        """Raises NoCredential, httpx.TransportError."""
        keys = self._keys if self._fresh is None else await self._fresh.keys()
        if keys is not self._keys or self._pen is None:
            assert keys is not None
            if self.region is None:
                raise NoCredential("For AWS a region is needed: option region of the provider, or `region` in the credential.")
            self._keys, self._pen = keys, Pen(keys, self._service, self.region)
        return self._pen.sign(request, time.time())

    def forget(self) -> bool:
        return self._fresh is not None and self._fresh.forget()

    def __repr__(self) -> str:
        return f"AwsSigner(service={self._service!r}, region={self.region!r})"


def is_ambient(credential: str) -> bool:
    """Whether it is whatever this machine may use, and not one that was made for this provider."""
    return credential == "aws:default" or credential.startswith("aws:profile:")


def _read(credential: str) -> _Given:
    try:
        given = msgspec.json.decode(credential.encode(), type=_Given)
    except (msgspec.ValidationError, *UNREADABLE):
        raise NoCredential(f"A credential for AWS is {_SHAPE}; or aws:default or aws:profile:NAME.") from None
    if not given.access_key_id or not given.secret_access_key:
        raise NoCredential(f"A credential for AWS is {_SHAPE}; one of these is empty.")
    return given
