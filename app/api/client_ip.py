"""Where a request comes from: its socket's other end, or, where that is a proxy we trust, what the proxies say."""

from collections.abc import Sequence
from ipaddress import ip_address

from app.gateway.permissions import Address, Network, is_in

_MAX_HOPS = 64  # looked at; the header may be as long as its writer likes


def client_address(socket_address: str | None, headers: Sequence[tuple[bytes, bytes]], trusted: Sequence[Network]) -> Address | None:
    """The last hop that is not one of the trusted proxies: what stands before it in X-Forwarded-For, anybody could have written.

    `client`: the socket's other end. `headers`: all of them, as they came, for X-Forwarded-For may be there several times.
    None: nobody knows, as over a Unix socket, or where a trusted proxy has passed on what is no address.
    """
    address = None if socket_address is None else _parse_address(socket_address)
    if address is None or not trusted or not is_in(address, trusted):
        return address
    forwarded_for = b",".join(value for name, value in headers if name == b"x-forwarded-for")
    for hop in reversed(forwarded_for.decode("latin-1").rsplit(",", _MAX_HOPS) if forwarded_for else []):
        address = _parse_address(hop)
        if address is None or not is_in(address, trusted):
            return address
    return address


def _parse_address(text: str) -> Address | None:
    """With or without a port, as some proxies add it: 10.0.0.1:5000, [2001:db8::1]:5000. None for hops that were not taken apart."""
    host = "" if "," in text else text.strip()
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        return ip_address(host)
    except ValueError:
        return None
