"""The address in REDIS_URL, as redis-py reads it: redis://, rediss:// or unix://, with user, password and database number."""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, cast

from msgspec import Struct
from redis.connection import SSLConnection, parse_url  # pyright: ignore[reportUnknownVariableType]


class Address(Struct, frozen=True):
    """The address of the server. `handshake_commands` are sent first, and must all succeed."""

    host: str
    port: int
    path: str | None
    tls: ssl.SSLContext | None
    handshake_commands: tuple[tuple[bytes, ...], ...]

    async def connect(self, protocol: Callable[[], asyncio.Protocol]) -> None:
        """Raises OSError."""
        loop = asyncio.get_running_loop()
        if self.path is not None:
            await loop.create_unix_connection(protocol, self.path)
        else:
            await loop.create_connection(protocol, self.host, self.port, ssl=self.tls)


def parse_address(url: str) -> Address:
    """Raises ValueError for an invalid address."""
    options = cast(dict[str, Any], parse_url(url))
    handshake: list[tuple[bytes, ...]] = []
    if password := options.get("password"):
        user = (options["username"].encode(),) if options.get("username") else ()
        handshake.append((b"AUTH", *user, password.encode()))
    if options.get("db"):
        handshake.append((b"SELECT", str(options["db"]).encode()))
    tls = _tls_context(options) if options.get("connection_class") is SSLConnection else None
    return Address(options.get("host") or "localhost", options.get("port") or 6379, options.get("path"), tls, tuple(handshake))


def _tls_context(options: dict[str, Any]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=options.get("ssl_ca_certs"), capath=options.get("ssl_ca_path"))
    if options.get("ssl_certfile"):
        context.load_cert_chain(options["ssl_certfile"], options.get("ssl_keyfile"), options.get("ssl_password"))
    checks_hostname = str(options.get("ssl_check_hostname", True)).lower() not in ("false", "no", "0")
    required = str(options.get("ssl_cert_reqs", "required"))
    context.check_hostname = checks_hostname and required == "required"
    if required == "none":
        context.verify_mode = ssl.CERT_NONE
    elif required == "optional":
        context.verify_mode = ssl.CERT_OPTIONAL
    return context
