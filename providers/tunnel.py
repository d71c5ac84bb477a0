"""A tunnel: an encrypted connection to a host through a proxy.

Source: https://www.rfc-editor.org/rfc/rfc9110#name-connect, read 2026-11.
"""

import asyncio
import ssl

from providers.proxy import NotLetThrough, Proxy

_LONGEST_HEAD_BYTES = 16 * 1024


async def dig(proxy: Proxy, protocol: asyncio.Protocol, host: str, port: int, tls: ssl.SSLContext, server_hostname: str | None) -> None:
    """Connects a protocol to a host, by TLS, through the proxy. Raises OSError; NotLetThrough if the proxy says no."""
    loop = asyncio.get_running_loop()
    try:
        transport, knock = await loop.create_connection(_Knock, proxy.host, proxy.port)
    except OSError as fault:
        raise NotLetThrough(f"the proxy {proxy.host}:{proxy.port} cannot be reached: {fault}") from fault
    try:
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        transport.write(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{proxy.authorization}\r\n".encode())
        await knock.let_in
        encrypted = await loop.start_tls(transport, protocol, tls, server_hostname=server_hostname)
    except BaseException:
        transport.abort()
        raise
    if encrypted is None:
        raise ConnectionError("closed while it was encrypted")
    protocol.connection_made(encrypted)


class _Knock(asyncio.Protocol):
    """Waits for the proxy's word."""

    def __init__(self) -> None:
        self.let_in: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._head = b""

    def data_received(self, data: bytes) -> None:
        self._head += data
        if self.let_in.done():
            return
        if b"\r\n\r\n" in self._head:
            status = self._head.partition(b"\r\n")[0].decode("latin-1")
            if status.startswith("HTTP/1.") and status[9:10] == "2":
                self.let_in.set_result(None)
            else:
                self.let_in.set_exception(NotLetThrough(f"the proxy says: {status[:100]}"))
        elif len(self._head) > _LONGEST_HEAD_BYTES:
            self.let_in.set_exception(NotLetThrough("what the proxy says has no end"))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.let_in.done():
            self.let_in.set_exception(NotLetThrough("the proxy hung up"))
