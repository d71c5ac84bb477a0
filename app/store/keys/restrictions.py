"""Restrictions of a team and of its key together: a key narrows what its team has, and cannot widen it. Pure.

Each may have a thousand entries, and they are joined in the event loop. So an entry is looked up among the others by its prefixes of the
lengths that occur there, and is not compared with all of them.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from ipaddress import ip_network

Patterns = tuple[str, ...]
_Includes = Callable[[str], bool]


def narrow_patterns(of_team: Patterns | None, of_key: Patterns | None) -> Patterns | None:
    """Returns the patterns that both permit; they may end in `*`.

    Returns None if there is no restriction. An empty tuple permits nothing.
    """
    return _narrow(of_team, of_key, _pattern_matcher)


def narrow_networks(of_team: Patterns | None, of_key: Patterns | None) -> Patterns | None:
    """Returns the networks that both permit; None and an empty tuple mean the same as in narrow_patterns()."""
    return _narrow(of_team, of_key, _network_matcher)


def permits(patterns: Sequence[str] | None) -> Callable[[str], bool]:
    """Tells whether names are permitted, for many names and long lists. Where `patterns` is None, all are."""
    return (lambda _: True) if patterns is None else _pattern_matcher(patterns)


def find_wider_pattern(of_team: Sequence[str] | None, of_key: Sequence[str]) -> str | None:
    """The first entry of a key that permits more than its team's."""
    return _find_wider(of_team, of_key, _pattern_matcher)


def find_wider_network(of_team: Sequence[str] | None, of_key: Sequence[str]) -> str | None:
    return _find_wider(of_team, of_key, _network_matcher)


def _narrow(of_team: Patterns | None, of_key: Patterns | None, including: Callable[[Sequence[str]], _Includes]) -> Patterns | None:
    if of_team is None or of_key is None or of_team == of_key:
        return of_key if of_team is None else of_team
    in_team, in_key = including(of_team), including(of_key)
    return tuple(dict.fromkeys([*filter(in_team, of_key), *filter(in_key, of_team)]))


def _find_wider(of_team: Sequence[str] | None, of_key: Sequence[str], including: Callable[[Sequence[str]], _Includes]) -> str | None:
    if of_team is None:
        return None
    in_team = including(of_team)
    return next((each for each in of_key if not in_team(each)), None)


def _pattern_matcher(patterns: Sequence[str]) -> _Includes:
    """Tells whether one of the patterns matches a name, or all that another pattern matches."""
    exact = {each for each in patterns if not each.endswith("*")}
    prefixes = {each[:-1] for each in patterns if each.endswith("*")}
    lengths = sorted({len(each) for each in prefixes})

    def includes(pattern: str) -> bool:
        name = pattern.removesuffix("*")
        return (name == pattern and name in exact) or any(name[:length] in prefixes for length in lengths if length <= len(name))

    return includes


def _network_matcher(networks: Sequence[str]) -> _Includes:
    """Tells whether one of the networks has all addresses of another one."""
    addresses: dict[tuple[int, int], set[int]] = defaultdict(set)  # by version and length of the prefix
    for each in networks:
        network = ip_network(each)
        addresses[network.version, network.prefixlen].add(int(network.network_address))

    def includes(network: str) -> bool:
        inner = ip_network(network)
        address = int(inner.network_address)
        return any(
            version == inner.version
            and length <= inner.prefixlen
            and (address >> inner.max_prefixlen - length << inner.max_prefixlen - length) in known
            for (version, length), known in addresses.items()
        )

    return includes
