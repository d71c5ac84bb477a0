"""Which addresses are public: a stranger may have the gateway speak to these, and to no other."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

# Source: IANA's registries of special-purpose addresses, read 2026-11.
_NOT_PUBLIC = tuple(
    map(
        IPv4Network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),
            "100.64.0.0/10",  # behind a carrier's NAT; Alibaba's metadata too
            "169.254.0.0/16",  # link-local: where most clouds keep their metadata
            "168.63.129.16/32",  # Azure's metadata, although the number is a public one
            *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
            *("224.0.0.0/4", "240.0.0.0/4"),
        ),
    )
)
# Of IPv6 only what is given out as global unicast is public; these parts of it are not. 2001::/23 has Teredo in it, 2002::/16 is 6to4:
# both carry an IPv4 address, to which somebody on the way would turn.
_GLOBAL = IPv6Network("2000::/3")
_NOT_GLOBAL = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
# Where there is nothing but IPv6, all of IPv4 is reached through addresses of this network.
_NAT64 = ip_network("64:ff9b::/96")


def public_address(text: str, allowed: Sequence[IPv4Network | IPv6Network] = ()) -> str | None:
    """The address to connect to, in its plainest form; None if it is neither public nor in a network that is `allowed`.

    An IPv4 address within an IPv6 one is judged as what it is.
    """
    address = ip_address(text)
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return None
        address = address.ipv4_mapped or address
    is_allowed = _is_public(address) or any(address in network for network in allowed)
    return str(address) if is_allowed else None


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC)
    if address in _NAT64:
        return _is_public(IPv4Address(int(address) & 0xFFFF_FFFF))
    return address in _GLOBAL and not any(address in network for network in _NOT_GLOBAL)
