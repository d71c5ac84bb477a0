"""The addresses at which this machine's own processes reach the gateway."""

import importlib
import socket
import ssl
from ipaddress import ip_address
from urllib.parse import urlsplit

from app.settings import Settings


def reachable_url(settings: Settings) -> str:
    """The gateway's base URL without /v1; a gateway that listens on every address is reached on loopback."""
    return _url(settings, settings.host, settings.port)


def reachable_admin_url(settings: Settings) -> str:
    """The base URL of the admin API without /admin/v1: the gateway's, unless the admin API has a port of its own."""
    return _url(settings, settings.admin_host or settings.host, settings.admin_port) if settings.admin_port else reachable_url(settings)


def tls_verification(settings: Settings, url: str) -> ssl.SSLContext | bool:
    """How a client of ours verifies the gateway at `url`: the `verify` of httpx2.

    False for an address of this machine: nothing of the traffic leaves it, and the certificate is for the name that callers use. For
    plain HTTP, too: anything else would load the certificate authorities for nothing, which takes 30 ms.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" or is_of_this_machine(parts.hostname or ""):
        return False
    # Imported where a certificate is verified: with it comes httpx2, which takes as long as all else that a command over REST does.
    return importlib.import_module("providers.transport.tls").tls_context(settings.ca_bundle or None)


def is_of_this_machine(host: str) -> bool:
    """Whether a host is `localhost` or an address of this machine: what is sent there does not leave it."""
    try:
        if ip_address(host).is_loopback:
            return True
        family, kind, _, _, address = socket.getaddrinfo(host, 443, type=socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)  # sends nothing; to an address of its own the kernel would send from that address
            return probe.getsockname()[0] == address[0]
    except (OSError, ValueError):  # a name, which may lead anywhere; or no such address
        return host == "localhost"


def _url(settings: Settings, host: str, port: int) -> str:
    scheme = "https" if settings.tls_cert else "http"
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
