"""The proxy between us and the hosts that we reach by https: where it is, and for whom it is passed by.

HTTPS_PROXY and NO_PROXY, as curl and every SDK know them: https://curl.se/docs/manpage.html#ENVIRONMENT, read 2026-11.
"""

import base64
import ipaddress
from urllib.parse import unquote, urlsplit

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_URL_FORMAT = "a proxy is given as http://user:password@host:port, where /, #, ? and @ of a password are %-encoded"


class ProxyConnectError(OSError):
    """The message says why, and never as whom the proxy was asked."""


class Proxy:
    """`url`: http://user:password@host:port. `without`: names (and all below them), addresses and networks, separated by commas; `*`: all.

    Raises ValueError for a URL that is none, or of another scheme.
    """

    def __init__(self, url: str, no_proxy: str = "") -> None:
        try:
            parsed = urlsplit(url if "://" in url else f"http://{url}")
            port = parsed.port
        except ValueError:  # whose words may be a part of the password
            raise ValueError(_URL_FORMAT) from None
        if parsed.scheme != "http" or not parsed.hostname:
            raise ValueError("a proxy is given as http://host:port: it is asked to CONNECT, and what goes through is encrypted all the way")
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
        """Loopback is never reached by a proxy."""
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
