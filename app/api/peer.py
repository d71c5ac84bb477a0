"""Where a request comes from: its socket's other end, or, where that is a proxy we trust, what the proxies say."""

from collections.abc import Sequence
from ipaddress import ip_address

from app.gateway.rights import Address, Network, is_in

_MOST_HOPS = 64  # looked at; the header may be as long as its writer likes


def peer(client: str | None, headers: Sequence[tuple[bytes, bytes]], trusted: Sequence[Network]) -> Address | None:
    """The last hop that is not one of the trusted proxies: what stands before it in X-Forwarded-For, anybody could have written.

    `client`: the socket's other end. `headers`: all of them, as they came, for X-Forwarded-For may be there several times.
    None: nobody knows, as over a Unix socket, or where a trusted proxy has passed on what is no address.
    """
    address = None if client is None else _address(client)
    if address is None or not trusted or not is_in(address, trusted):
        return address
    said = b",".join(value for name, value in headers if name == b"x-forwarded-for")
    for hop in reversed(said.decode("latin-1").rsplit(",", _MOST_HOPS) if said else []):
        address = _address(hop)
        if address is None or not is_in(address, trusted):
            return address
    return address


def _address(text: str) -> Address | None:
    """With or without a port, as some proxies add it: 10.0.0.1:5000, [2001:db8::1]:5000. None for hops that were not taken apart."""
    bare = "" if "," in text else text.strip()
    if bare.startswith("["):
        bare = bare[1:].partition("]")[0]
    elif bare.count(":") == 1:
        bare = bare.partition(":")[0]
    try:
        return ip_address(bare)
    except ValueError:
        return None
