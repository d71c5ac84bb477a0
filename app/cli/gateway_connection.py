"""A connection of a command to a gateway.

It is http.client of the standard library: httpx2 takes longer to import than everything else that a command over REST does.
"""

import http.client
import ssl
from collections.abc import Generator
from contextlib import contextmanager
from urllib.parse import urlsplit

from providers.transport.proxy import Proxy

_CONNECT_S = 5.0
_DEFAULT_PORTS = {"http": 80, "https": 443}


@contextmanager
def open_connection(
    url: str, verification: ssl.SSLContext | bool, proxy: Proxy | None, timeout_s: float
) -> Generator[http.client.HTTPConnection]:
    """A connection to the host of a URL, closed again at the end. `timeout_s` is the longest silence once it is open.

    `verification` is what tls_verification() says of the gateway; `proxy` is for https. Raises OSError if nothing answers, HTTPException
    or ValueError for what is no address.
    """
    connection = _connection_to(url, verification, proxy)
    try:
        connection.connect()
        connection.sock.settimeout(timeout_s)
        yield connection
    finally:
        connection.close()


def origin_of(url: str) -> tuple[str, str, int | None]:
    """The scheme, host and port of a URL. Raises ValueError for a port that is none."""
    parsed = urlsplit(url)
    return parsed.scheme, parsed.hostname or "", parsed.port or _DEFAULT_PORTS.get(parsed.scheme)


def _connection_to(url: str, verification: ssl.SSLContext | bool, proxy: Proxy | None) -> http.client.HTTPConnection:
    scheme, host, port = origin_of(url)
    if scheme not in _DEFAULT_PORTS or not host:
        raise ValueError("its address does not begin with http:// or https:// and a name")
    if scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=_CONNECT_S)
    if isinstance(verification, bool):  # an address of this machine
        unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
        return http.client.HTTPSConnection(host, port, timeout=_CONNECT_S, context=unverified)
    if proxy is None or not proxy.is_for(host, port or 443):
        return http.client.HTTPSConnection(host, port, timeout=_CONNECT_S, context=verification)
    name, _, value = proxy.authorization.strip().partition(": ")
    connection = http.client.HTTPSConnection(proxy.host, proxy.port, timeout=_CONNECT_S, context=verification)
    connection.set_tunnel(host, port, {name: value} if name else {})
    return connection
