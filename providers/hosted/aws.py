"""Hosts of AWS: requests are signed, for a region that stands in their addresses, with credentials that must not go elsewhere."""

import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any, ClassVar

import httpx

from providers import aws_errors
from providers.credentials import Fetch, NoCredential, Signer
from providers.credentials.aws import AwsSigner, is_ambient
from providers.credentials.aws_chain import region_of
from providers.errors import UpstreamError
from providers.provider import BadOption, Provider

REGION = "{region}"
# In the place of a region that only the credential tells, until located() has it.
_UNSAID = "region-of-the-credential"
_REGION = re.compile(r"[a-z0-9-]{1,40}")
_OF_AWS = (".amazonaws.com", ".amazonaws.com.cn", ".api.aws")

AWS_OPTIONS: Mapping[str, str] = {
    "region": "the AWS region, such as eu-west-1; without it that of the credential, or of the machine's AWS configuration",
    "trusts_base_url": "true: what aws:default or aws:profile:NAME may do may be shown to a base_url that is not AWS's own",
}


class AwsHost(Provider):
    """`default_base_url` holds REGION. `service`: what requests are signed for."""

    service: ClassVar[str]
    chains: ClassVar[frozenset[str]] = frozenset({"aws"})

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises BadOption."""
        super().__init__(configured_as, options, version, base_url)
        region, trusts = options.get("region"), options.get("trusts_base_url", False)
        if region is not None and (not isinstance(region, str) or _REGION.fullmatch(region) is None):
            raise BadOption(f"Option region of provider {configured_as!r} must be an AWS region, such as eu-west-1.")
        if not isinstance(trusts, bool):
            raise BadOption(f"Option trusts_base_url of provider {configured_as!r} may be true or false.")
        self.region: str | None = region
        self._trusts = trusts
        self._regions: dict[str, str | None] = {}

    def place(self, base_url: str) -> str:
        """REGION stays in it where the credential tells the region."""
        return _in_region(base_url, REGION, self.region) if self.region else base_url

    def at_region(self, base_url: str) -> str:
        """A base URL to make addresses of: with the region in it, or what located() puts it in the place of."""
        return _in_region(base_url, REGION, self.region or _UNSAID)

    def vet(self, credential: str, url: httpx.URL) -> None:
        if is_ambient(credential) and not self._trusts and not _is_of_aws(url.host):
            raise NoCredential(
                f"{self.configured_as} is at {url.host}, which is not AWS: to sign with {credential} there, set its option"
                " trusts_base_url, or give it a credential of its own."
            )

    def located(self, url: httpx.URL, credential: str | None) -> httpx.URL:
        """Raises NoCredential for one that is not to be shown there, or where nobody says a region."""
        if credential is not None:
            self.vet(credential, url)
        if _UNSAID not in url.host:
            return url
        region = None if credential is None else self._region_of(credential)
        if region is None:
            raise NoCredential(f"{self.configured_as} needs a region: its option, `region` in the credential, or AWS_REGION.")
        return url.copy_with(host=_in_region(url.host, _UNSAID, region))

    def signer(self, credential: str | None, fetch: Fetch) -> Signer | None:
        """None without a credential: a stand-in for AWS on one's own machine may want none."""
        if credential is None:
            return None
        # What a machine's files say of its region is read once, for that takes milliseconds.
        known = self.region or (self._region_of(credential) if is_ambient(credential) else None)
        return AwsSigner(credential, self.service, known)

    def headers(self, credential: str | None, dialect: str = "") -> list[tuple[str, str]]:
        return []

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        return aws_errors.read_error(status, headers, body)

    def _region_of(self, credential: str) -> str | None:
        if not is_ambient(credential):
            return AwsSigner(credential, self.service, None).region
        if credential not in self._regions:
            self._regions[credential] = region_of(credential.removeprefix("aws:profile:") if ":profile:" in credential else None)
        return self._regions[credential]


def _in_region(text: str, place: str, region: str) -> str:
    """China has a domain of its own."""
    found = text.replace(place, region)
    if place in text and region.startswith("cn-") and ".amazonaws.com" in found and ".amazonaws.com.cn" not in found:
        return found.replace(".amazonaws.com", ".amazonaws.com.cn")
    return found


def _is_of_aws(host: str) -> bool:
    """Or this machine."""
    if host.endswith(_OF_AWS) or host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
