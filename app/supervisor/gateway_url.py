"""The address at which this machine's own processes reach the gateway."""

from app.settings import Settings


def reachable_url(settings: Settings) -> str:
    """The gateway's base URL without /v1; a gateway that listens on every address is reached on loopback."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(settings.host, settings.host)
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"
