"""AwsHost: the base of hosts on AWS, whose requests are signed for a region that is part of the URL.

The machine's own AWS credentials never sign a request to a host outside AWS, unless the operator allows it.
"""

import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any, ClassVar

import httpx2

from providers.adapters.openai_compatible import OpenAICompatible
from providers.adapters.options import InvalidOption
from providers.canonical.errors import UpstreamError
from providers.credentials import CredentialError, Fetch, Signer, cloud_sdks
from providers.credentials.aws import AwsSigner, is_ambient
from providers.dialects.aws import errors

REGION_PLACEHOLDER = "{region}"
# Stands for a region that only the credential knows, until complete_url() replaces it.
_REGION_FROM_CREDENTIAL = "region-of-the-credential"
_REGION_PATTERN = re.compile(r"[a-z0-9-]{1,40}")
_AWS_DOMAINS = (".amazonaws.com", ".amazonaws.com.cn", ".api.aws")

AWS_OPTIONS: Mapping[str, str] = {
    "region": "the AWS region, such as eu-west-1; default: that of the credential, or of the machine's AWS configuration",
    "trusts_base_url": "true: requests to a base_url outside AWS may be signed with aws:default or aws:profile:NAME (false)",
}


class AwsHost(OpenAICompatible):
    """A host on AWS. `default_base_url` contains REGION_PLACEHOLDER; `service` is the SigV4 service name that requests are signed for."""

    service: ClassVar[str]
    credential_chains: ClassVar[frozenset[str]] = frozenset({"aws"})

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises InvalidOption."""
        super().__init__(configured_as, options, version, base_url)
        region, trusts_base_url = options.get("region"), options.get("trusts_base_url", False)
        if region is not None and (not isinstance(region, str) or _REGION_PATTERN.fullmatch(region) is None):
            raise InvalidOption("Option region must be an AWS region, such as eu-west-1.")
        if not isinstance(trusts_base_url, bool):
            raise InvalidOption("Option trusts_base_url must be true or false.")
        self.region: str | None = region
        self._trusts_base_url = trusts_base_url
        self._cached_regions: dict[str, str | None] = {}

    def display_url(self, base_url: str) -> str:
        """The base URL with its region; REGION_PLACEHOLDER stays where only the credential knows the region."""
        return _insert_region(base_url, REGION_PLACEHOLDER, self.region) if self.region else base_url

    def with_region(self, base_url: str) -> str:
        """The base URL with the region, or with a stand-in that complete_url() replaces."""
        return _insert_region(base_url, REGION_PLACEHOLDER, self.region or _REGION_FROM_CREDENTIAL)

    def check_credential_host(self, credential: str, url: httpx2.URL) -> None:
        if is_ambient(credential) and not self._trusts_base_url and not _is_aws_host(url.host):
            raise CredentialError(
                f"{self.configured_as} is at {url.host}, which is not AWS: to sign requests to it with {credential}, set its option"
                " trusts_base_url, or configure another credential."
            )

    def complete_url(self, url: httpx2.URL, credential: str | None) -> httpx2.URL:
        """The URL with its region. Raises CredentialError if the credential must not be used at this host, or no region is configured."""
        if credential is not None:
            self.check_credential_host(credential, url)
        if _REGION_FROM_CREDENTIAL not in url.host:
            return url
        region = None if credential is None else self._credential_region(credential)
        if region is None:
            raise CredentialError(f"{self.configured_as} needs a region: its option `region`, `region` in the credential, or AWS_REGION.")
        return url.copy_with(host=_insert_region(url.host, _REGION_FROM_CREDENTIAL, region))

    def signer(self, credential: str | None, fetch: Fetch) -> Signer | None:
        """Returns None without a credential: a local stand-in for AWS may not need one."""
        if credential is None:
            return None
        # Reading the region from AWS configuration files takes milliseconds: it is cached.
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
            self._cached_regions[credential] = cloud_sdks.aws_chain().region_of(
                credential.removeprefix("aws:profile:") if ":profile:" in credential else None
            )
        return self._cached_regions[credential]


def _insert_region(text: str, placeholder: str, region: str) -> str:
    """Puts `region` in the place of `placeholder`, on AWS's separate domain for China where the region is there."""
    inserted = text.replace(placeholder, region)
    if placeholder in text and region.startswith("cn-") and ".amazonaws.com" in inserted and ".amazonaws.com.cn" not in inserted:
        return inserted.replace(".amazonaws.com", ".amazonaws.com.cn")
    return inserted


def _is_aws_host(host: str) -> bool:
    """Whether a host name is AWS's, or this machine's own."""
    if host.endswith(_AWS_DOMAINS) or host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
