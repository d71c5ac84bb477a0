"""The address in REDIS_URL, in the words of redis-py: redis://, rediss://, unix://, with user, password and number of the database."""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, cast

from msgspec import Struct
from redis.connection import SSLConnection, parse_url  # pyright: ignore[reportUnknownVariableType]


class Address(Struct, frozen=True):
    """Where the server is and what is said first: `greeting` are commands that must all succeed."""

    host: str
    port: int
    path: str | None
    tls: ssl.SSLContext | None
    greeting: tuple[tuple[bytes, ...], ...]

    async def connect(self, protocol: Callable[[], asyncio.Protocol]) -> None:
        """Raises OSError."""
        loop = asyncio.get_running_loop()
        if self.path is not None:
            await loop.create_unix_connection(protocol, self.path)
        else:
            await loop.create_connection(protocol, self.host, self.port, ssl=self.tls)


def read_address(url: str) -> Address:
    """Raises ValueError with what is wrong with it."""
    told = cast(dict[str, Any], parse_url(url))
    greeting: list[tuple[bytes, ...]] = []
    if password := told.get("password"):
        user = (told["username"].encode(),) if told.get("username") else ()
        greeting.append((b"AUTH", *user, password.encode()))
    if told.get("db"):
        greeting.append((b"SELECT", str(told["db"]).encode()))
    tls = _tls(told) if told.get("connection_class") is SSLConnection else None
    return Address(told.get("host") or "localhost", told.get("port") or 6379, told.get("path"), tls, tuple(greeting))


def _tls(told: dict[str, Any]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=told.get("ssl_ca_certs"), capath=told.get("ssl_ca_path"))
    if told.get("ssl_certfile"):
        context.load_cert_chain(told["ssl_certfile"], told.get("ssl_keyfile"), told.get("ssl_password"))
    checks = str(told.get("ssl_check_hostname", True)).lower() not in ("false", "no", "0")
    required = str(told.get("ssl_cert_reqs", "required"))
    context.check_hostname = checks and required == "required"
    if required == "none":
        context.verify_mode = ssl.CERT_NONE
    elif required == "optional":
        context.verify_mode = ssl.CERT_OPTIONAL
    return context
