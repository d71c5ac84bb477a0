"""AwsSigner: signs each request with AWS credentials, given as JSON or found by AWS's own chain."""

import re
import time

import msgspec

from providers.canonical.raw_json import DECODE_ERRORS
from providers.credentials import cloud_sdks
from providers.credentials.aws_key_cache import KeyCache
from providers.credentials.references import CredentialError
from providers.credentials.secret_record import SecretRecord
from providers.credentials.signing import Header, UnsignedRequest
from providers.credentials.sigv4 import AwsKeys, SigV4Signer

# It becomes a part of a host name.
_REGION = re.compile(r"[a-z0-9-]{1,40}")
_CREDENTIAL_FORMAT = "a JSON object with access_key_id and secret_access_key, and optionally session_token and region"


class _StaticKeys(SecretRecord, frozen=True, forbid_unknown_fields=True):
    access_key_id: str
    secret_access_key: str
    session_token: str | None = None
    region: str | None = None


class AwsSigner:
    """A Signer for one credential and one service. Raises CredentialError for a credential other than JSON, `aws:default` or
    `aws:profile:NAME`.

    `region` is the configured one; None means that of the credential, else of the machine's AWS configuration; the attribute stays None if
    none is known.
    """

    def __init__(self, credential: str, service: str, region: str | None) -> None:
        self._service = service
        self._key_cache: KeyCache | None = None
        self._signer: SigV4Signer | None = None
        self._keys: AwsKeys | None = None
        if is_ambient(credential):
            profile = credential.removeprefix("aws:profile:") if credential.startswith("aws:profile:") else None
            self._key_cache = KeyCache(lambda: cloud_sdks.aws_chain().BotocoreChain(profile))
            self.region = region or cloud_sdks.aws_chain().region_of(profile)
        else:
            static = _read_static_keys(credential)
            self._keys = AwsKeys(static.access_key_id, static.secret_access_key, static.session_token or None)
            self.region = region or static.region or None
        if self.region is not None and _REGION.fullmatch(self.region) is None:
            raise CredentialError("The region of a credential for AWS must look like eu-west-1.")

    async def sign(self, request: UnsignedRequest) -> list[Header]:
        """Raises CredentialError, httpx2.TransportError."""
        keys = self._keys if self._key_cache is None else await self._key_cache.keys()
        if keys is not self._keys or self._signer is None:
            assert keys is not None
            if self.region is None:
                raise CredentialError("AWS needs a region: set the option `region` of the provider, or `region` in the credential.")
            self._keys, self._signer = keys, SigV4Signer(keys, self._service, self.region)
        return self._signer.sign(request, time.time())

    def invalidate(self) -> bool:
        return self._key_cache is not None and self._key_cache.invalidate()

    def __repr__(self) -> str:
        return f"AwsSigner(service={self._service!r}, region={self.region!r})"


def is_ambient(credential: str) -> bool:
    """Whether it is the machine's own identity, and not a credential that was created for this provider."""
    return credential == "aws:default" or credential.startswith("aws:profile:")


def _read_static_keys(credential: str) -> _StaticKeys:
    try:
        static = msgspec.json.decode(credential.encode(), type=_StaticKeys)
    except (msgspec.ValidationError, *DECODE_ERRORS):
        raise CredentialError(f"A credential for AWS is {_CREDENTIAL_FORMAT}, or aws:default, or aws:profile:NAME.") from None
    if not static.access_key_id or not static.secret_access_key:
        raise CredentialError(f"A credential for AWS is {_CREDENTIAL_FORMAT}; one of the first two is empty.")
    return static
