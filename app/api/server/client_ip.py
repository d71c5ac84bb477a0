"""The client's IP address: the peer of the socket, or, if that is a trusted proxy, what X-Forwarded-For says."""

from collections.abc import Sequence
from ipaddress import ip_address

from app.gateway.routing.permissions import Address, Network, is_in

_MAX_HOPS = 64  # Maximum hops checked; the header is unbounded.


def client_address(socket_address: str | None, headers: Sequence[tuple[bytes, bytes]], trusted: Sequence[Network]) -> Address | None:
    """The last hop of X-Forwarded-For that is not a trusted proxy. Entries before it can be forged.

    `headers` are all of them as they came, for X-Forwarded-For may be sent several times. The result is None if the address is unknown, as
    over a Unix socket, or where a trusted proxy has passed on something that is not an address.
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
    """An address with or without a port, as some proxies add it: 10.0.0.1:5000, [2001:db8::1]:5000. None if it is not an address."""
    host = "" if "," in text else text.strip()
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        return ip_address(host)
    except ValueError:
        return None
