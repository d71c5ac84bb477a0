"""Proxy: the HTTP proxy through which https hosts are reached, and the hosts that bypass it.

The values are those of HTTPS_PROXY and NO_PROXY: https://curl.se/docs/manpage.html#ENVIRONMENT, read 2026-11.
"""

import base64
import ipaddress
from urllib.parse import unquote, urlsplit

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_URL_FORMAT = "a proxy is written http://user:password@host:port, with /, #, ? and @ of the password %-encoded"


class ProxyConnectError(OSError):
    """The proxy did not open a tunnel. The message says why, without the credentials for the proxy."""


class Proxy:
    """An HTTP proxy that accepts CONNECT. Raises ValueError for a `url` that is not http://user:password@host:port.

    Hosts in `no_proxy` bypass it. They are separated by commas: domains with their subdomains, addresses, networks; `*` means all hosts.
    """

    def __init__(self, url: str, no_proxy: str = "") -> None:
        try:
            parsed = urlsplit(url if "://" in url else f"http://{url}")
            port = parsed.port
        except ValueError:  # its message may contain a part of the password
            raise ValueError(_URL_FORMAT) from None
        if parsed.scheme != "http" or not parsed.hostname:
            raise ValueError("a proxy is written http://host:port: it only forwards (CONNECT) what is encrypted end to end")
        if parsed.path not in ("", "/") or parsed.query or parsed.fragment:
            raise ValueError(_URL_FORMAT)
        self.host = parsed.hostname
        self.port = port or 80
        secret = None if parsed.username is None else f"{unquote(parsed.username)}:{unquote(parsed.password or '')}"
        self.authorization = "" if secret is None else f"Proxy-Authorization: Basic {base64.b64encode(secret.encode()).decode()}\r\n"
        self._no_proxy = [each.strip().lower().lstrip("*").lstrip(".") or "*" for each in no_proxy.split(",") if each.strip()]

    def __repr__(self) -> str:
        return f"<proxy {self.host}:{self.port}>"

    def is_for(self, host: str, port: int) -> bool:
        """Whether this host is reached through the proxy. Loopback never is."""
        address = _address(host)
        if host == "localhost" or (address is not None and address.is_loopback):
            return False
        return not any(_matches(each, host.lower().rstrip("."), port, address) for each in self._no_proxy)


def _matches(entry: str, host: str, port: int, address: Address | None) -> bool:
    if entry == "*":
        return True
    if address is not None:
        try:
            return address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            pass
    name, _, port_text = entry.rpartition(":")
    if name and port_text.isdecimal():
        return int(port_text) == port and (host == name.strip("[]") or host.endswith(f".{name}"))
    return host == entry or host.endswith(f".{entry}")


def _address(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
