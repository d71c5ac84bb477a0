"""The addresses at which this machine's own processes reach the gateway."""

from app.settings import Settings


def reachable_url(settings: Settings) -> str:
    """The gateway's base URL without /v1; a gateway that listens on every address is reached on loopback."""
    return _url(settings.host, settings.port)


def reachable_admin_url(settings: Settings) -> str:
    """The base URL of the admin API without /admin/v1: the gateway's, unless the admin API has a port of its own."""
    return _url(settings.admin_host or settings.host, settings.admin_port) if settings.admin_port else reachable_url(settings)


def _url(host: str, port: int) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
