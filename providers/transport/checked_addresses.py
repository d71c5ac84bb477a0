"""Addresses of hosts, looked up once and checked by the guard before anything connects to them."""

import asyncio
import ipaddress
import socket

from providers.transport.address_guard import AddressGuard


async def checked_addresses(guard: AddressGuard, host: str, port: int) -> tuple[str, ...]:
    """The addresses of a host, looked up once: whoever connects to one of them connects to what was checked.

    Raises AddressRefused if one of them is refused, OSError or UnicodeError if there is none.
    """
    guard.check_host(host, port)
    try:
        ipaddress.ip_address(host)
    except ValueError:
        pass
    else:
        return (host,)
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = tuple(dict.fromkeys(str(address[0]) for *_, address in found))
    for address in addresses:
        guard.check_address(host, port, address)
    return addresses
