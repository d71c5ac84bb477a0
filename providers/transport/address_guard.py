"""Addresses that are not called just because a configuration names them: clouds' metadata, link-local ones, and our own.

Whoever may write the configuration could otherwise have the machine's cloud credentials sent to themselves, or requests go round in
circles. Other addresses of this machine and of private networks are those of engines.
"""

import ipaddress
import socket
from collections.abc import Collection, Iterator
from typing import NamedTuple

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Beside the link-local addresses, where most clouds have theirs: AWS, Azure, Alibaba, Oracle; of IPv6 AWS, Google, Scaleway.
# Sources: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html,
# https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16, https://www.alibabacloud.com/help/en/ecs/user-guide/view-instance-metadata,
# https://docs.cloud.google.com/compute/docs/metadata/querying-metadata, https://www.scaleway.com/en/docs/instances/how-to/use-cloud-init;
# read 2026-11.
_METADATA = tuple(
    map(
        ipaddress.ip_network,
        ("168.63.129.16/32", "100.100.100.200/32", "192.0.0.192/32", "fd00:ec2::/32", "fd20:ce::254/128", "fd00:42::42/128"),
    )
)
# Names are looked up, too, but a proxy looks them up itself, and elsewhere than in the cloud they stand for nothing.
_METADATA_NAMES = frozenset(
    {"metadata", "metadata.google.internal", "metadata.goog", "metadata.azure.internal", "instance-data.ec2.internal"}
)
# Of IPv6, networks whose addresses end in, or have within them, an IPv4 address: NAT64 and 6to4.
_NAT64, _6TO4 = ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("2002::/16")
_OF_METADATA = "the metadata service of a cloud"
_LINK_LOCAL = "a link-local address, as clouds' metadata services have it"
_OURSELVES = "the gateway itself"


class AddressRefused(OSError):
    """The address is one that is not called. The message is for operators: callers do not learn addresses."""


class HostAndPort(NamedTuple):
    """A name or an address in lower case, and a port; None: any."""

    host: str
    port: int | None


class AllowedAddresses(str):
    """Names, addresses and networks, with a port or without, separated by commas. Raises ValueError for one that is invalid."""

    hosts: frozenset[HostAndPort]
    networks: tuple[tuple[Network, int | None], ...]

    def __new__(cls, text: str = "") -> "AllowedAddresses":
        allowed = super().__new__(cls, text)
        hosts: set[HostAndPort] = set()
        networks: list[tuple[Network, int | None]] = []
        for each in filter(None, (part.strip().lower() for part in text.split(","))):
            host, port = _split_port(each)
            try:
                networks.append((ipaddress.ip_network(host), port))
            except ValueError:
                if "/" in host or not host or any(character in host for character in "[]:@?#*") or not host.isprintable():
                    raise ValueError(f"{each!r:.200} is no name, address or network, with a port or without") from None
                hosts.add(HostAndPort(host.rstrip("."), port))
        allowed.hosts, allowed.networks = frozenset(hosts), tuple(networks)
        return allowed

    def has_name(self, host: str, port: int) -> bool:
        return HostAndPort(host, port) in self.hosts or HostAndPort(host, None) in self.hosts

    def has_address(self, address: Address, port: int) -> bool:
        return any(address in network and allowed_port in (None, port) for network, allowed_port in self.networks)


class AddressGuard:
    """Refuses addresses that the gateway must not call, such as its own.

    The gateway listens at `own`, by address, and others reach it by `own_names`. What is in `allowed` is called nevertheless; `setting` is
    the name of the setting that says so.
    """

    def __init__(
        self, own: Collection[tuple[str, int]], own_names: Collection[HostAndPort], allowed: AllowedAddresses, setting: str
    ) -> None:
        self._own = tuple(own)
        self._own_ports = frozenset(port for _, port in own)
        self._own_names = frozenset(own_names)
        self._allowed = allowed
        self._setting = setting

    def check_host(self, host: str, port: int) -> None:
        """Checks a host without a look-up. Raises AddressRefused.

        `host` is a name, or an address however it is written, as a URL has it.
        """
        name = host.lower().rstrip(".")
        if self._allowed.has_name(name, port):
            return
        address = read_address(name)
        if address is not None:
            self._refuse(host, port, address)
        elif name in _METADATA_NAMES:
            raise self._refusal(host, _OF_METADATA)
        elif HostAndPort(name, port) in self._own_names or (name == "localhost" and port in self._own_ports):
            raise self._refusal(host, _OURSELVES)

    def check_address(self, host: str, port: int, address: str) -> None:
        """Checks an address that the host has now. Raises AddressRefused."""
        if not self._allowed.has_name(host.lower().rstrip("."), port):
            shown = host if host == address else f"{host} ({address})"
            self._refuse(shown, port, ipaddress.ip_address(address))

    def _refuse(self, shown: str, port: int, address: Address) -> None:
        for each in _readings(address):
            if self._allowed.has_address(each, port):
                return
        for each in _readings(address):
            if each.is_link_local:
                raise self._refusal(shown, _LINK_LOCAL)
            if any(each in network for network in _METADATA):
                raise self._refusal(shown, _OF_METADATA)
            if port in self._own_ports and self._is_own(each, port):
                raise self._refusal(shown, _OURSELVES)

    def _is_own(self, address: Address, port: int) -> bool:
        return any(own_port == port and _listens_at(host, address) for host, own_port in self._own)

    def _refusal(self, shown: str, what: str) -> AddressRefused:
        return AddressRefused(f"{shown} is {what}, which is not called unless {self._setting} names it")


def read_address(host: str) -> Address | None:
    """The address that a host is, also one written as the C library reads it (2852039166, 0xa9.254.0251.254); None: a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host))
    except (OSError, UnicodeError, ValueError):
        return None


def _readings(address: Address) -> Iterator[Address]:
    """An address, and the IPv4 address that it stands for."""
    yield address
    if not isinstance(address, ipaddress.IPv6Address):
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    elif address in _NAT64:
        yield ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    elif address in _6TO4:
        yield ipaddress.IPv4Address(int(address) >> 80 & 0xFFFF_FFFF)


def _listens_at(host: str, address: Address) -> bool:
    """Whether a listener on `host` is reached at an address."""
    bound = read_address(host)
    if bound is not None and not bound.is_unspecified:
        return address == bound or address.is_unspecified
    return address.is_unspecified or address.is_loopback or _is_this_machines(address)


def _is_this_machines(address: Address) -> bool:
    """Asks the system, which binds sockets to its own addresses alone."""
    family = socket.AF_INET if isinstance(address, ipaddress.IPv4Address) else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True


def _split_port(text: str) -> tuple[str, int | None]:
    """Raises ValueError."""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        if rest and not rest.startswith(":"):
            raise ValueError(f"{text!r:.200} is no address with a port")
        return host, _port(rest[1:]) if rest else None
    if text.count(":") == 1:
        host, _, port = text.partition(":")
        return host, _port(port)
    return text, None


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 65536:
        raise ValueError(f"{text!r:.20} is no port")
    return int(text)
