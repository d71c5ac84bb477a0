"""Opens an encrypted connection to a host through a proxy, with CONNECT.

Source: https://www.rfc-editor.org/rfc/rfc9110#name-connect, read 2026-11.
"""

import asyncio
import ssl

from providers.transport.proxy import Proxy, ProxyConnectError

_MAX_HEAD_BYTES = 16 * 1024


async def open_tunnel(
    proxy: Proxy, protocol: asyncio.Protocol, host: str, port: int, tls: ssl.SSLContext, server_hostname: str | None
) -> None:
    """Connects a protocol to a host, by TLS, through the proxy. Raises OSError; ProxyConnectError if the proxy refuses."""
    loop = asyncio.get_running_loop()
    try:
        transport, handshake = await loop.create_connection(_ProxyHandshake, proxy.host, proxy.port)
    except OSError as error:
        raise ProxyConnectError(f"the proxy {proxy.host}:{proxy.port} cannot be reached: {error}") from error
    try:
        authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        transport.write(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{proxy.authorization}\r\n".encode())
        await handshake.accepted
        encrypted = await loop.start_tls(transport, protocol, tls, server_hostname=server_hostname)
    except BaseException:
        transport.abort()
        raise
    if encrypted is None:
        raise ConnectionError("closed during the TLS handshake")
    protocol.connection_made(encrypted)


class _ProxyHandshake(asyncio.Protocol):
    """Waits for the proxy's response to CONNECT: `accepted` is set, or fails with ProxyConnectError."""

    def __init__(self) -> None:
        self.accepted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._head = b""

    def data_received(self, data: bytes) -> None:
        self._head += data
        if self.accepted.done():
            return
        if b"\r\n\r\n" in self._head:
            status = self._head.partition(b"\r\n")[0].decode("latin-1")
            if status.startswith("HTTP/1.") and status[9:10] == "2":
                self.accepted.set_result(None)
            else:
                self.accepted.set_exception(ProxyConnectError(f"the proxy responded: {status[:100]}"))
        elif len(self._head) > _MAX_HEAD_BYTES:
            self.accepted.set_exception(ProxyConnectError(f"the proxy's response is longer than {_MAX_HEAD_BYTES} bytes"))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.accepted.done():
            self.accepted.set_exception(ProxyConnectError("the proxy closed the connection"))
