"""Permissions of a key: models, routes and networks. None = unrestricted."""

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

from app.domain.callers import Caller
from app.domain.snapshot import Snapshot

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


def may_use(caller: Caller, model: str) -> bool:
    """Whether the caller may name `model`, the configured name or a function's. Fallbacks are not checked: the platform chose them."""
    return caller.models is None or matches(caller.models, model)


def usable_models(snapshot: Snapshot, caller: Caller) -> Iterable[str]:
    """The configured models that the key may use; without a look at each where the key names the few."""
    return _usable(snapshot.models, caller)


def usable_functions(snapshot: Snapshot, caller: Caller) -> Iterable[str]:
    """The configured functions that the key may use. What they use themselves needs no permission."""
    return _usable(snapshot.functions, caller)


def usable_names(snapshot: Snapshot, caller: Caller) -> list[str]:
    """The models and functions that the key may use, in the order of their names."""
    return sorted([*usable_models(snapshot, caller), *usable_functions(snapshot, caller)])


def _usable(configured: Collection[str], caller: Caller) -> Iterable[str]:
    if caller.models is None:
        return configured
    if any(pattern.endswith("*") for pattern in caller.models):
        return [name for name in configured if may_use(caller, name)]
    return [name for name in dict.fromkeys(caller.models) if name in configured]


def may_use_route(caller: Caller, path: str) -> bool:
    return caller.routes is None or matches(caller.routes, path)


def may_come_from(caller: Caller, address: Address | None) -> bool:
    """Whether the caller may send from the address. If that is None, it is not known, which a restricted key does not allow."""
    return caller.networks is None or (address is not None and is_in(address, _parsed(caller.networks)))


def is_in(address: Address, networks: Sequence[Network]) -> bool:
    """IPv4 addresses also match as IPv4-mapped IPv6 (as dual-stack sockets report them), and so do networks written that way."""
    unmapped = _unmap_ipv4(address)
    return any(unmapped in network or address in network for network in networks)


def _unmap_ipv4(address: Address) -> Address:
    return address if isinstance(address, IPv4Address) else address.ipv4_mapped or address


def matches(patterns: Sequence[str], name: str) -> bool:
    return any(name.startswith(each[:-1]) if each.endswith("*") else name == each for each in patterns)


@lru_cache(maxsize=4096)
def _parsed(networks: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(ip_network(each) for each in networks)
