"""Hosts of AWS: requests are signed, for a region that stands in their addresses, with credentials that must not go elsewhere."""

import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any, ClassVar

import httpx

from providers.adapters.provider import InvalidOption, Provider
from providers.canonical.errors import UpstreamError
from providers.credentials import CredentialError, Fetch, Signer
from providers.credentials.aws import AwsSigner, is_ambient
from providers.credentials.aws_chain import region_of
from providers.dialects.aws import errors

REGION_PLACEHOLDER = "{region}"
# In the place of a region that only the credential tells, until located() has it.
_REGION_FROM_CREDENTIAL = "region-of-the-credential"
_REGION_PATTERN = re.compile(r"[a-z0-9-]{1,40}")
_AWS_DOMAINS = (".amazonaws.com", ".amazonaws.com.cn", ".api.aws")

AWS_OPTIONS: Mapping[str, str] = {
    "region": "the AWS region, such as eu-west-1; without it that of the credential, or of the machine's AWS configuration",
    "trusts_base_url": "true: what aws:default or aws:profile:NAME may do may be shown to a base_url that is not AWS's own",
}


class AwsHost(Provider):
    """`default_base_url` holds REGION. `service`: what requests are signed for."""

    service: ClassVar[str]
    credential_chains: ClassVar[frozenset[str]] = frozenset({"aws"})

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises BadOption."""
        super().__init__(configured_as, options, version, base_url)
        region, trusts_base_url = options.get("region"), options.get("trusts_base_url", False)
        if region is not None and (not isinstance(region, str) or _REGION_PATTERN.fullmatch(region) is None):
            raise InvalidOption(f"Option region of provider {configured_as!r} must be an AWS region, such as eu-west-1.")
        if not isinstance(trusts_base_url, bool):
            raise InvalidOption(f"Option trusts_base_url of provider {configured_as!r} may be true or false.")
        self.region: str | None = region
        self._trusts_base_url = trusts_base_url
        self._cached_regions: dict[str, str | None] = {}

    def display_url(self, base_url: str) -> str:
        """REGION stays in it where the credential tells the region."""
        return _insert_region(base_url, REGION_PLACEHOLDER, self.region) if self.region else base_url

    def with_region(self, base_url: str) -> str:
        """A base URL to make addresses of: with the region in it, or what located() puts it in the place of."""
        return _insert_region(base_url, REGION_PLACEHOLDER, self.region or _REGION_FROM_CREDENTIAL)

    def check_credential_host(self, credential: str, url: httpx.URL) -> None:
        if is_ambient(credential) and not self._trusts_base_url and not _is_aws_host(url.host):
            raise CredentialError(
                f"{self.configured_as} is at {url.host}, which is not AWS: to sign with {credential} there, set its option"
                " trusts_base_url, or give it a credential of its own."
            )

    def complete_url(self, url: httpx.URL, credential: str | None) -> httpx.URL:
        """Raises NoCredential for one that is not to be shown there, or where nobody says a region."""
        if credential is not None:
            self.check_credential_host(credential, url)
        if _REGION_FROM_CREDENTIAL not in url.host:
            return url
        region = None if credential is None else self._credential_region(credential)
        if region is None:
            raise CredentialError(f"{self.configured_as} needs a region: its option, `region` in the credential, or AWS_REGION.")
        return url.copy_with(host=_insert_region(url.host, _REGION_FROM_CREDENTIAL, region))

    def signer(self, credential: str | None, fetch: Fetch) -> Signer | None:
        """None without a credential: a stand-in for AWS on one's own machine may want none."""
        if credential is None:
            return None
        # What a machine's files say of its region is read once, for that takes milliseconds.
        region = self.region or (self._credential_region(credential) if is_ambient(credential) else None)
        return AwsSigner(credential, self.service, region)

    def headers(self, credential: str | None, dialect: str = "") -> list[tuple[str, str]]:
        return []

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        return errors.read_error(status, headers, body)

    def _credential_region(self, credential: str) -> str | None:
        if not is_ambient(credential):
            return AwsSigner(credential, self.service, None).region
        if credential not in self._cached_regions:
            self._cached_regions[credential] = region_of(credential.removeprefix("aws:profile:") if ":profile:" in credential else None)
        return self._cached_regions[credential]


def _insert_region(text: str, placeholder: str, region: str) -> str:
    """China has a domain of its own."""
    inserted = text.replace(placeholder, region)
    if placeholder in text and region.startswith("cn-") and ".amazonaws.com" in inserted and ".amazonaws.com.cn" not in inserted:
        return inserted.replace(".amazonaws.com", ".amazonaws.com.cn")
    return inserted


def _is_aws_host(host: str) -> bool:
    """Or this machine."""
    if host.endswith(_AWS_DOMAINS) or host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
