"""Who sends a request about nodes, and which addresses they may register: their own, or any with an admin key."""

import base64
import binascii
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network

import httpx2
from msgspec import Struct

from app.gateway.fleet.fleet import Fleet
from app.gateway.media.public_addresses import public_address
from providers.canonical.errors import InvalidRequest, NotAllowed
from providers.transport.address_guard import AddressRefused

MAX_URL_CHARS = 500
_UNSPECIFIED_HOSTS = ("0.0.0.0", "::")


class NodeSender(Struct, frozen=True):
    """The sender of a request about nodes.

    `address` is the only address whose nodes may be changed; None means that any may be. `provider` is empty
    if the sender names none.
    """

    address: str | None
    provider: str


def basic_credential(authorization: str) -> tuple[str, str | None]:
    """User and password of a Basic credential; ("", None) for anything else."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return "", None
    try:
        user, separator, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return user, password if separator else ""


async def check_address(fleet: Fleet, text: str, sender: NodeSender, allowed: Sequence[IPv4Network | IPv6Network]) -> str:
    """The address as it is registered: an http host by its number, so that its name cannot lead elsewhere later.

    Raises InvalidRequest, or NotAllowed for an address of another than the sender, or in a network where nodes may not be.
    """
    text = text.replace("//:::", "//[::]:", 1)  # as LMDeploy writes the address of a server that listens on ::
    try:
        url = httpx2.URL(text[:MAX_URL_CHARS].rstrip("/"))
        valid = url.scheme in ("http", "https") and url.host and not (url.userinfo or url.query or url.fragment)
        port = url.port or (443 if url.scheme == "https" else 80)
    except (httpx2.InvalidURL, ValueError):
        valid, url, port = False, httpx2.URL(), 0
    if not valid or len(text) > MAX_URL_CHARS:
        raise InvalidRequest(f"`url` must be like http://10.0.0.5:23333, not {text!r:.100}.", param="url")
    host = url.host
    if host in _UNSPECIFIED_HOSTS:
        if sender.address is None:
            raise InvalidRequest(f"`url` names no host ({host}).", param="url")
        host = sender.address
    try:
        found = await fleet.resolver.resolve(host, port)
    except (OSError, UnicodeError):
        raise InvalidRequest(f"`url`: the host {host!r:.100} cannot be resolved.", param="url") from None
    if sender.address in found:  # the only one that counts
        found = (sender.address,)
    numbers = {public_address(each, allowed) for each in found}
    if None in numbers:
        raise NotAllowed(f"`url`: {host!r:.100} is in a private network, which NARTHEX_NODE_NETWORKS does not list.", param="url")
    try:
        for each in found:
            fleet.address_guard.check_address(host, port, each)
    except AddressRefused as refused:
        raise NotAllowed(f"`url`: {refused}.", param="url") from None
    if sender.address is not None and sender.address not in numbers:
        raise NotAllowed(
            f"`url`: {host!r:.100} is not the address that this request comes from ({sender.address}): with the secret a node"
            " registers and removes itself only. An admin key may change any.",
            param="url",
        )
    if url.scheme == "http":
        host = sender.address or str(next(iter(numbers)))
    return str(url.copy_with(host=host))
