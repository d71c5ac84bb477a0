"""Public addresses: the only ones that a caller may make the gateway connect to."""

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
# Of IPv6 only global unicast is public, but for these parts of it. 2001::/23 contains Teredo, 2002::/16 is 6to4: both embed an IPv4
# address, to which a relay on the way would connect.
_GLOBAL = IPv6Network("2000::/3")
_NOT_GLOBAL = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
# In networks with IPv6 only, all of IPv4 is reached through addresses of this network.
_NAT64 = ip_network("64:ff9b::/96")


def public_address(text: str, allowed: Sequence[IPv4Network | IPv6Network] = ()) -> str | None:
    """The address to connect to, normalised; None if it is neither public nor in an `allowed` network.

    An IPv4-mapped IPv6 address counts as the IPv4 address.
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
