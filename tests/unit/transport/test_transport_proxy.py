"""The proxy: https hosts are reached through it, and no others."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncGenerator

import httpx2
import pytest

from providers.transport.proxy import Proxy
from providers.transport.transport import Transport
from tests.support.raw_engine import OK, NewLoop, both_loops, fetch, post_request, respond_always, run, start_engine
from tests.unit.transport.test_transport_tls import client_tls, server_tls


class ConnectProxy:
    """A proxy that connects every request to `port`. `connect_heads`: the heads of the requests that it got."""

    def __init__(self, port: int, response: bytes) -> None:
        self.connect_heads: list[str] = []
        self.writers: list[asyncio.StreamWriter] = []
        self._port = port
        self._answer = response

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            self.connect_heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
            writer.write(self._answer[:9])  # in two pieces
            await writer.drain()
            await asyncio.sleep(0.01)
            writer.write(self._answer[9:])
            if b" 200 " in self._answer:
                there, back = await asyncio.open_connection("127.0.0.1", self._port)
                self.writers.append(back)
                await asyncio.gather(_relay(reader, back), _relay(there, writer))
        writer.close()


async def _relay(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(65536):
        target.write(data)
        await target.drain()
    target.close()


@contextlib.asynccontextmanager
async def connect_proxy(
    port: int, response: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n"
) -> AsyncGenerator[tuple[ConnectProxy, str]]:
    proxy = ConnectProxy(port, response)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    try:
        yield proxy, f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in proxy.writers:
            writer.transport.abort()
        await asyncio.sleep(0)


@both_loops
def test_https_host_is_reached_through_the_proxy_and_its_connection_is_reused(new_loop: NewLoop) -> None:
    async def main() -> None:
        async with (
            start_engine(respond_always(OK), tls=server_tls()) as engine,
            connect_proxy(engine.url.port or 0) as (proxy, proxy_address),
        ):
            transport = Transport(tls=client_tls(), proxy=Proxy(f"http://me:p%40ss@{proxy_address}"))
            for _ in range(3):
                assert await fetch(transport, post_request(httpx2.URL("https://engine.test:444/v1"), b"x" * 300_000)) == (200, b"ok")
            (head,) = proxy.connect_heads
            assert head.startswith("CONNECT engine.test:444 HTTP/1.1\r\nHost: engine.test:444\r\n")
            assert f"Proxy-Authorization: Basic {base64.b64encode(b'me:p@ss').decode()}\r\n" in head
            assert len(engine.requests) == 3 and len(engine.connections) == 1
            await transport.aclose()

    run(new_loop, main())


@both_loops
def test_plain_http_and_loopback_bypass_the_proxy(new_loop: NewLoop) -> None:
    async def main() -> None:
        async with (
            start_engine(respond_always(OK)) as plain,
            start_engine(respond_always(OK), tls=server_tls()) as engine,
            connect_proxy(1) as (proxy, proxy_address),
        ):
            transport = Transport(tls=client_tls(), proxy=Proxy(f"http://{proxy_address}"))
            assert await fetch(transport, post_request(plain.url)) == (200, b"ok")
            assert await fetch(transport, post_request(engine.url.copy_with(host="localhost"))) == (200, b"ok")
            assert proxy.connect_heads == []
            await transport.aclose()

    run(new_loop, main())


@both_loops
@pytest.mark.parametrize(
    ("response", "message"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "407"),
        (b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n", "502"),
        (b"SSH-2.0-OpenSSH_9\r\n\r\n", "SSH"),
        (b"x" * 20_000, "longer than 16384 bytes"),
        (b"HTTP/1.1", "closed the connection"),
    ],
)
def test_proxy_refusal_is_a_connect_error_without_its_password(new_loop: NewLoop, response: bytes, message: str) -> None:
    async def main() -> None:
        async with connect_proxy(1, response) as (_, proxy_address):
            transport = Transport(tls=client_tls(), proxy=Proxy(f"http://me:secret@{proxy_address}"))
            with pytest.raises(httpx2.ConnectError, match=message) as raised:
                await fetch(transport, post_request(httpx2.URL("https://engine.test/v1")))
            assert "secret" not in repr(raised.value) and "secret" not in str(raised.value)
            await transport.aclose()

    run(new_loop, main())


@both_loops
def test_host_certificate_is_verified_through_the_proxy(new_loop: NewLoop) -> None:
    async def main() -> None:
        async with start_engine(respond_always(OK), tls=server_tls()) as engine, connect_proxy(engine.url.port or 0) as (_, proxy_address):
            transport = Transport(tls=client_tls(), proxy=Proxy(proxy_address))
            with pytest.raises(httpx2.ConnectError, match=r"(?i)certificate"):
                await fetch(transport, post_request(httpx2.URL("https://other.test/v1")))
            assert engine.requests == []
            await transport.aclose()

    run(new_loop, main())


@pytest.mark.parametrize(
    ("no_proxy", "host", "port", "by_proxy"),
    [
        ("", "api.openai.com", 443, True),
        ("", "localhost", 443, False),
        ("", "127.8.8.8", 443, False),
        ("", "::1", 443, False),
        ("*", "api.openai.com", 443, False),
        ("example.com", "example.com", 443, False),
        ("example.com", "API.Example.com.", 443, False),
        (".example.com", "a.b.example.com", 443, False),
        ("*.example.com", "a.example.com", 443, False),
        ("example.com", "badexample.com", 443, True),
        ("example.com:8443", "a.example.com", 8443, False),
        ("example.com:8443", "a.example.com", 443, True),
        ("10.0.0.0/8, corp", "10.2.3.4", 443, False),
        ("10.0.0.0/8, corp", "11.2.3.4", 443, True),
        ("10.0.0.0/8, corp", "gpu.corp", 443, False),
        ("10.1.2.3", "10.1.2.3", 443, False),
        ("fd00::/8", "fd00::12", 443, False),
    ],
)
def test_no_proxy_rules_select_the_hosts_that_use_the_proxy(no_proxy: str, host: str, port: int, by_proxy: bool) -> None:
    assert Proxy("http://proxy:3128", no_proxy).is_for(host, port) == by_proxy


@pytest.mark.parametrize("url", ["https://proxy:3128", "socks5://proxy:1080", "http://", "ftp://x", "http://proxy:port"])
def test_unsupported_proxy_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"(?i)proxy is written|port"):
        Proxy(url)


def test_proxy_repr_hides_its_credentials() -> None:
    assert "s3cret" not in repr(Proxy("http://me:s3cret@proxy:3128")) and "proxy:3128" in repr(Proxy("http://me:s3cret@proxy:3128"))


@pytest.mark.parametrize(
    "url",
    ["http://me:s3cret/word@proxy:3128", "http://me:1#s3cret@proxy:3128", "http://me:s3cret@[::1", "http://me:s3cret@proxy:s3cret"],
)
def test_invalid_proxy_url_error_hides_its_password(url: str):
    with pytest.raises(ValueError, match="%-encoded") as refused:
        Proxy(url)
    assert "s3cret" not in str(refused.value) and (refused.value.__suppress_context__ or refused.value.__context__ is None)
