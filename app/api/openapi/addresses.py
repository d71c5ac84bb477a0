"""The address that a client uses for this server, for the examples and the `servers` of the OpenAPI document."""

import re
from typing import Any

from litestar import Request

from app.api.server.client_ip import client_address
from app.gateway.routing.permissions import Network, is_in

# A name or an address of IPv4, or one of IPv6 in brackets, perhaps with a port. What else is in Host goes into no document.
_HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")


def server_address(request: Request[Any, Any, Any], trusted_proxies: tuple[Network, ...], default: str) -> str:
    """Returns `http://host:port` as the request's Host has it; https if the request came by TLS, or a trusted proxy says that it did.

    A Host that is no address gets `default`.
    """
    host = request.headers.get("host", "")
    if not _HOST.fullmatch(host):
        return default
    client = request.scope["client"]
    peer = client_address(client[0] if client else None, [], ())
    is_trusted = peer is not None and is_in(peer, trusted_proxies)
    is_https = request.scope["scheme"] == "https" or (
        is_trusted and request.headers.get("x-forwarded-proto", "").strip().lower() == "https"
    )
    return f"{'https' if is_https else 'http'}://{host.lower()}"


def with_port(address: str, port: int) -> str:
    """The same host at another port."""
    scheme, _, host = address.partition("://")
    return f"{scheme}://{re.sub(r':[0-9]+$', '', host)}:{port}"
