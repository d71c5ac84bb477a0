"""Through a proxy: hosts that are spoken to by https, and those alone."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncGenerator

import httpx
import pytest

from providers.transport.proxy import Proxy
from providers.transport.transport import Transport
from tests.laws.hostile import OK, NewLoop, always, ask, both_loops, engine, post, run
from tests.laws.test_transport_tls import engines_side, ours


class Between:
    """A proxy: `asked` are the heads that came. Whoever is asked for, it is `port` that is reached."""

    def __init__(self, port: int, answer: bytes) -> None:
        self.asked: list[str] = []
        self.writers: list[asyncio.StreamWriter] = []
        self._port = port
        self._answer = answer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            self.asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
            writer.write(self._answer[:9])  # in two pieces
            await writer.drain()
            await asyncio.sleep(0.01)
            writer.write(self._answer[9:])
            if b" 200 " in self._answer:
                there, back = await asyncio.open_connection("127.0.0.1", self._port)
                self.writers.append(back)
                await asyncio.gather(_pour(reader, back), _pour(there, writer))
        writer.close()


async def _pour(source: asyncio.StreamReader, drain: asyncio.StreamWriter) -> None:
    while data := await source.read(65536):
        drain.write(data)
        await drain.drain()
    drain.close()


@contextlib.asynccontextmanager
async def between(port: int, answer: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n") -> AsyncGenerator[tuple[Between, str]]:
    proxy = Between(port, answer)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    try:
        yield proxy, f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in proxy.writers:
            writer.transport.abort()
        await asyncio.sleep(0)


@both_loops
def test_a_host_is_reached_by_https_through_the_proxy_and_its_connection_kept(new_loop: NewLoop) -> None:
    async def main() -> None:
        async with engine(always(OK), tls=engines_side()) as served, between(served.url.port or 0) as (proxy, place):
            via = Transport(tls=ours(), proxy=Proxy(f"http://me:p%40ss@{place}"))
            for _ in range(3):
                assert await ask(via, post(httpx.URL("https://engine.test:444/v1"), b"x" * 300_000)) == (200, b"ok")
            (head,) = proxy.asked
            assert head.startswith("CONNECT engine.test:444 HTTP/1.1\r\nHost: engine.test:444\r\n")
            assert f"Proxy-Authorization: Basic {base64.b64encode(b'me:p@ss').decode()}\r\n" in head
            assert len(served.requests) == 3 and len(served.visits) == 1
            await via.aclose()

    run(new_loop, main())


@both_loops
def test_plain_http_and_loopback_and_the_excepted_are_reached_without_it(new_loop: NewLoop) -> None:
    async def main() -> None:
        async with engine(always(OK)) as plain, engine(always(OK), tls=engines_side()) as served, between(1) as (proxy, place):
            via = Transport(tls=ours(), proxy=Proxy(f"http://{place}"))
            assert await ask(via, post(plain.url)) == (200, b"ok")
            assert await ask(via, post(served.url.copy_with(host="localhost"))) == (200, b"ok")
            assert proxy.asked == []
            await via.aclose()

    run(new_loop, main())


@both_loops
@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "407"),
        (b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n", "502"),
        (b"SSH-2.0-OpenSSH_9\r\n\r\n", "SSH"),
        (b"x" * 20_000, "no end"),
        (b"HTTP/1.1", "hung up"),
    ],
)
def test_a_proxy_that_does_not_let_us_through_is_told_as_such(new_loop: NewLoop, answer: bytes, says: str) -> None:
    async def main() -> None:
        async with between(1, answer) as (_, place):
            via = Transport(tls=ours(), proxy=Proxy(f"http://me:secret@{place}"))
            with pytest.raises(httpx.ConnectError, match=says) as told:
                await ask(via, post(httpx.URL("https://engine.test/v1")))
            assert "secret" not in repr(told.value) and "secret" not in str(told.value)
            await via.aclose()

    run(new_loop, main())


@both_loops
def test_the_name_of_the_host_must_be_right_behind_the_proxy_too(new_loop: NewLoop) -> None:
    async def main() -> None:
        async with engine(always(OK), tls=engines_side()) as served, between(served.url.port or 0) as (_, place):
            via = Transport(tls=ours(), proxy=Proxy(place))
            with pytest.raises(httpx.ConnectError, match=r"(?i)certificate"):
                await ask(via, post(httpx.URL("https://other.test/v1")))
            assert served.requests == []
            await via.aclose()

    run(new_loop, main())


@pytest.mark.parametrize(
    ("without", "host", "port", "by_proxy"),
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
def test_who_is_reached_by_the_proxy(without: str, host: str, port: int, by_proxy: bool) -> None:
    assert Proxy("http://proxy:3128", without).is_for(host, port) == by_proxy


@pytest.mark.parametrize("url", ["https://proxy:3128", "socks5://proxy:1080", "http://", "ftp://x", "http://proxy:port"])
def test_what_is_no_proxy_for_us_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"(?i)proxy is given as|port"):
        Proxy(url)


def test_a_proxy_never_shows_as_whom_it_is_asked() -> None:
    assert "s3cret" not in repr(Proxy("http://me:s3cret@proxy:3128")) and "proxy:3128" in repr(Proxy("http://me:s3cret@proxy:3128"))


@pytest.mark.parametrize(
    "url",
    ["http://me:s3cret/word@proxy:3128", "http://me:1#s3cret@proxy:3128", "http://me:s3cret@[::1", "http://me:s3cret@proxy:s3cret"],
)
def test_what_is_no_proxy_is_refused_without_its_password(url: str):
    with pytest.raises(ValueError, match="%-encoded") as refused:
        Proxy(url)
    assert "s3cret" not in str(refused.value) and (refused.value.__suppress_context__ or refused.value.__context__ is None)
