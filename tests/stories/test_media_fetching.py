"""Media fetched from a real server that lies, dawdles, sends us in circles and elsewhere: what comes of it, and what it ever sees of us."""

import asyncio
import base64
import ssl
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from app.gateway.media.fetcher import MediaFetcher
from app.settings import Networks, Settings
from providers.canonical.chat import Inline
from providers.canonical.errors import InvalidRequest
from tests.laws.hostile import Engine, Visit, always, engine, transport

TLS = Path(__file__).parents[1] / "laws" / "tls"
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 24


def answer(body: bytes = PNG, status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def redirect(to: str, status: str = "302 Found") -> bytes:
    return answer(b"elsewhere", status, f"Location: {to}")


class Hosts:
    """Names and what they mean; what a list holds is told one after the other, its last for ever. Every look is counted."""

    def __init__(self, **names: list[str]) -> None:
        self.looks: list[str] = []
        self._names = {name.replace("_", "."): meanings for name, meanings in names.items()}

    async def look_up(self, host: str, port: int) -> Collection[str]:
        self.looks.append(host)
        meanings = self._names.get(host, [host])
        return [meanings.pop(0) if len(meanings) > 1 else meanings[0]]


@asynccontextmanager
async def fetching(
    *, hosts: Hosts | None = None, tls: ssl.SSLContext | None = None, max_bytes: int = 100_000, timeout_s: float = 5.0, redirects: int = 3
) -> AsyncGenerator[MediaFetcher]:
    """Loopback counts as public here: 127.0.0.1 alone."""
    settings = Settings(
        media_networks=Networks("127.0.0.1/32"), media_max_bytes=max_bytes, media_timeout_s=timeout_s, media_redirects=redirects
    )
    async with transport(tls=tls) as via:
        media = MediaFetcher(settings, via, (hosts or Hosts()).look_up)
        try:
            yield media
        finally:
            await media.aclose()


async def why_not(media: MediaFetcher, *urls: str) -> str:
    with pytest.raises(InvalidRequest) as refused:
        await media.fetch(urls)
    return refused.value.message.partition("cannot be fetched: ")[2]


def at(served: Engine, host: str = "127.0.0.1", path: str = "a.png") -> str:
    return f"{served.url.scheme}://{host}:{served.port}/{path}"


async def test_media_comes_as_its_bytes_and_each_address_is_asked_once() -> None:
    body = PNG + bytes(range(256)) * 2000

    async def play(visit: Visit) -> None:
        asked = await visit.request()
        await visit.send(answer(b"%PDF-1.7" if b"b.pdf" in asked else body, "200 OK", "Content-Type: image/png; charset=binary"))

    async with engine(always(answer())) as other, engine(play) as served, fetching(max_bytes=1_000_000) as media:
        image, document, third = at(served), at(served, path="b.pdf?sig=a%2Fb+c&x=%C3%A9"), at(other)
        got = await media.fetch([image, document, image, third, image])
        assert got == {
            image: Inline("image/png", base64.b64encode(body).decode()),
            document: Inline("image/png", base64.b64encode(b"%PDF-1.7").decode()),
            third: Inline("image/png", base64.b64encode(PNG).decode()),
        }
        assert sorted(request.split(b"\r\n", 1)[0] for request in served.requests) == [
            b"GET /a.png HTTP/1.1",
            b"GET /b.pdf?sig=a%2Fb+c&x=%C3%A9 HTTP/1.1",
        ]
        heads = {line.split(b":", 1)[0].lower() for line in served.requests[0].split(b"\r\n")[1:] if line}
        assert heads == {b"host", b"user-agent", b"accept", b"accept-encoding", b"connection"}  # nothing of the caller's, no credential
        assert b"Host: 127.0.0.1:%d" % served.port in served.requests[0]


async def test_a_name_is_looked_up_once_and_the_connection_goes_where_it_was_checked() -> None:
    """The second look would say something else: nobody takes one."""
    hosts = Hosts(images_example=["127.0.0.1", "169.254.169.254"])
    async with engine(always(answer())) as served, fetching(hosts=hosts) as media:
        await media.fetch([at(served, "images.example")])
        assert hosts.looks == ["images.example"]
        assert b"Host: images.example:%d\r\n" % served.port in served.requests[0]


async def test_a_redirect_to_the_same_name_is_checked_again() -> None:
    hosts = Hosts(images_example=["127.0.0.1", "127.0.0.2"])
    async with engine(always(redirect("/b.png"))) as served, fetching(hosts=hosts) as media:
        assert await why_not(media, at(served, "images.example")) == "its host has no public address."
        assert (hosts.looks, len(served.requests)) == (["images.example"] * 2, 1)


@pytest.mark.parametrize("host", ["127.0.0.2", "localhost", "[::1]", "metadata.internal"])
async def test_a_redirect_to_what_is_private_is_told_alike_whether_something_listens_there_or_not(host: str) -> None:
    hosts = Hosts(metadata_internal=["169.254.169.254"], localhost=["127.0.0.3"])
    async with engine(always(answer())) as listening, fetching(hosts=hosts) as media:
        for port in (listening.port, 1024):
            async with engine(always(redirect(f"http://{host}:{port}/latest"))) as served:
                assert await why_not(media, at(served)) == "its host has no public address."
        assert listening.visits == []


async def test_redirects_are_followed_as_often_as_is_allowed() -> None:
    async def play(visit: Visit) -> None:
        while asked := await visit.request():
            left = int(asked.split(b" ")[1].strip(b"/"))
            await visit.send(redirect(f"/{left - 1}", "307 Temporary Redirect") if left else answer())

    async with engine(play) as served, fetching(redirects=2) as media:
        assert [*(await media.fetch([at(served, path="2")])).values()] == [Inline("image/png", base64.b64encode(PNG).decode())]
        assert await why_not(media, at(served, path="3")) == "it redirects more than 2 times."
        assert await why_not(media, at(served, path="9999")) == "it redirects more than 2 times."
        assert len(served.requests) == 9


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (redirect("file:///etc/passwd"), "only http and https can be fetched."),
        (redirect("http://me:pw@127.0.0.1/"), "credentials are not sent."),
        (redirect("http://[::1"), "it redirects to what is no URL."),
        (answer(b"", "301 Moved Permanently"), "it redirects without saying where to."),
        (answer(b"", "404 Not Found"), "it was answered with status 404."),
        (answer(b"", "204 No Content"), "it was answered with status 204."),
        (answer(PNG, "206 Partial Content"), "it was answered with status 206."),
        (answer(b""), "it is empty."),
        (answer(PNG, "200 OK", "Content-Encoding: gzip"), "it comes compressed, which was not asked for."),
        (
            answer(b"<html>", "200 OK", "Content-Type: text/html"),
            "it is no image, document or audio that can be used (its type: 'text/html').",
        ),
        (answer(b"what is it"), "it is no image, document or audio that can be used (its type: '')."),
        (b"SSH-2.0-OpenSSH_9.9\r\n", "the answer broke off, or is none."),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", "the answer broke off, or is none."),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100001\r\n\r\n", "it is larger than 100000 bytes."),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 100_001, "it is larger than 100000 bytes."),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"61a80\r\n" + b"x" * 400_000, "it is larger than 100000 bytes."),
    ],
)
async def test_what_is_no_media_is_refused_with_the_reason(given: bytes, why: str) -> None:
    async def play(visit: Visit) -> None:
        await visit.request()
        await visit.send(given)

    async with engine(play) as served, fetching() as media:
        assert await why_not(media, at(served)) == why


async def test_media_that_is_too_large_in_all_is_refused() -> None:
    async with engine(always(answer(PNG + b"\0" * 90_000))) as served, fetching() as media:
        assert len(await media.fetch([at(served, path=str(n)) for n in range(2)])) == 2
        assert await why_not(media, *(at(served, path=str(n)) for n in range(3))) == "all media of the request are too large together."


async def test_who_drips_is_given_up_in_time_and_sees_us_hang_up() -> None:
    async def play(visit: Visit) -> None:
        await visit.request()
        await visit.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n")
        while True:
            await visit.send(b"\0")
            await asyncio.sleep(0.02)

    async with engine(play) as served, fetching(timeout_s=0.3) as media:
        began = asyncio.get_running_loop().time()
        assert await why_not(media, at(served), at(served, path="b")) == "it took longer than 0.3 seconds."
        assert 0.29 < asyncio.get_running_loop().time() - began < 2
        assert len(served.visits) == 2


@pytest.mark.parametrize("status", ["302 Found\r\nLocation: /", "200 OK", "404 Not Found"])
async def test_what_is_not_wanted_is_not_waited_for(status: str) -> None:
    """The answer says that there is more to come; whatever was decided by then, we hang up."""
    hung_up: list[bool] = []

    async def play(visit: Visit) -> None:
        await visit.request()
        await visit.send(f"HTTP/1.1 {status}\r\nContent-Length: 99999999\r\n\r\n".encode())
        hung_up.append(await visit.hung_up())

    async with engine(play) as served, fetching(redirects=0) as media:
        assert await why_not(media, at(served))
        await asyncio.sleep(0.05)
        assert hung_up == [True]


async def test_a_name_server_that_does_not_answer_is_given_up_in_time() -> None:
    async def look_up(host: str, port: int) -> Collection[str]:
        await asyncio.sleep(60)
        return ["127.0.0.1"]

    async with transport() as via:
        media = MediaFetcher(Settings(media_timeout_s=0.1), via, look_up)
        assert await why_not(media, "http://images.example/a.png") == "it took longer than 0.1 seconds."
        await media.aclose()


async def test_one_that_fails_ends_the_others() -> None:
    gone = asyncio.Event()

    async def hang(visit: Visit) -> None:
        await visit.request()
        if await visit.hung_up(4):
            gone.set()

    async with engine(hang) as slow, engine(always(answer(b"", "404 Not Found"))) as served, fetching() as media:
        assert await why_not(media, at(slow), at(served)) == "it was answered with status 404."
        async with asyncio.timeout(2):
            await gone.wait()


async def test_nobody_there_is_told_so() -> None:
    async with engine(always(answer())) as served:
        url = at(served)
    async with fetching() as media:
        assert await why_not(media, url) == "nobody answers there, or nobody whose TLS certificate can be trusted."


async def test_tls_is_asked_for_and_checked_by_name_although_an_address_is_dialled() -> None:
    asked: list[str | None] = []
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(TLS / "engine.pem", TLS / "engine.key")
    theirs.sni_callback = lambda _socket, name, _context: asked.append(name)
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    ours.load_verify_locations(TLS / "ca.pem")
    hosts = Hosts(engine_test=["127.0.0.1"], other_test=["127.0.0.1"])
    async with engine(always(answer()), tls=theirs) as served, fetching(hosts=hosts, tls=ours) as media:
        assert await media.fetch([at(served, "engine.test")])
        assert await why_not(media, at(served, "other.test")) == "nobody answers there, or nobody whose TLS certificate can be trusted."
        assert (asked, len(served.requests)) == (["engine.test", "other.test"], 1)


async def test_a_redirect_from_https_to_http_is_not_followed() -> None:
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(TLS / "engine.pem", TLS / "engine.key")
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    ours.load_verify_locations(TLS / "ca.pem")
    hosts = Hosts(engine_test=["127.0.0.1"])
    async with engine(always(answer())) as plain, fetching(hosts=hosts, tls=ours) as media:
        async with engine(always(redirect(at(plain))), tls=theirs) as served:
            assert await why_not(media, at(served, "engine.test")) == "it redirects from https to http."
        assert plain.visits == []


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine(always(answer())) as served, engine(always(answer())) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        async with fetching() as media:
            await media.fetch([at(served)])
        assert (len(served.requests), proxy.visits) == (1, [])
