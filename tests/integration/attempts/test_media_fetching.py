"""Fetching media from a real server: redirects, private addresses, limits, malformed responses, and what the server sees of a request."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.domain.routing import ProviderConfig, Target
from app.gateway.fleet.endpoint import Endpoint
from app.gateway.media.fetcher import MediaFetcher
from app.gateway.request_translation.source_request import SourceRequest
from app.gateway.request_translation.translate_request import translate_request
from app.settings import Networks, Settings
from providers.adapters.options import InvalidOption
from providers.adapters.provider import Provider
from providers.canonical.chat import Inline
from providers.canonical.errors import InvalidRequest
from providers.catalogue import DIALECTS, build_provider
from providers.credentials import CredentialReader
from providers.engines.vllm.adapter import VLLM
from tests.support.processes.wait_until import GENEROUS_S, wait_until
from tests.support.raw_engine import EngineConnection, ScriptedEngine, open_transport, respond_always, start_engine
from tests.support.request_translation import make_source

TLS = Path(__file__).parents[2] / "support" / "tls"
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 24


def http_response(body: bytes = PNG, status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def redirect(to: str, status: str = "302 Found") -> bytes:
    return http_response(b"elsewhere", status, f"Location: {to}")


class FakeResolver:
    """Host names and their addresses: each lookup takes the next of a list, and keeps to its last. `lookups` are counted."""

    def __init__(self, **names: list[str]) -> None:
        self.lookups: list[str] = []
        self._addresses = {name.replace("_", "."): addresses for name, addresses in names.items()}

    async def look_up(self, host: str, port: int) -> Collection[str]:
        self.lookups.append(host)
        addresses = self._addresses.get(host, [host])
        return [addresses.pop(0) if len(addresses) > 1 else addresses[0]]


@asynccontextmanager
async def media_fetcher(
    *,
    hosts: FakeResolver | None = None,
    tls: ssl.SSLContext | None = None,
    max_bytes: int = 100_000,
    timeout_s: float = GENEROUS_S,
    redirects: int = 3,
) -> AsyncGenerator[MediaFetcher]:
    """127.0.0.1 counts as public here, and no other loopback address."""
    settings = Settings(
        media_networks=Networks("127.0.0.1/32"), media_max_bytes=max_bytes, media_timeout_s=timeout_s, media_redirects=redirects
    )
    async with open_transport(tls=tls) as transport:
        media = MediaFetcher(settings, transport, (hosts or FakeResolver()).look_up)
        try:
            yield media
        finally:
            await media.aclose()


async def refusal_reason(media: MediaFetcher, *urls: str) -> str:
    with pytest.raises(InvalidRequest) as refused:
        await media.fetch(urls)
    return refused.value.message.partition("cannot be fetched: ")[2]


def url_on(served: ScriptedEngine, host: str = "127.0.0.1", path: str = "a.png") -> str:
    return f"{served.url.scheme}://{host}:{served.port}/{path}"


async def test_media_is_fetched_once_per_url_without_caller_headers() -> None:
    body = PNG + bytes(range(256)) * 2000

    async def serve(connection: EngineConnection) -> None:
        request = await connection.read_request()
        content = b"%PDF-1.7" if b"b.pdf" in request else body
        await connection.send(http_response(content, "200 OK", "Content-Type: image/png; charset=binary"))

    async with (
        start_engine(respond_always(http_response())) as other,
        start_engine(serve) as served,
        media_fetcher(max_bytes=1_000_000) as media,
    ):
        image, document, third = url_on(served), url_on(served, path="b.pdf?sig=a%2Fb+c&x=%C3%A9"), url_on(other)
        fetched = await media.fetch([image, document, image, third, image])
        assert fetched == {
            image: Inline("image/png", base64.b64encode(body).decode()),
            document: Inline("image/png", base64.b64encode(b"%PDF-1.7").decode()),
            third: Inline("image/png", base64.b64encode(PNG).decode()),
        }
        assert sorted(request.split(b"\r\n", 1)[0] for request in served.requests) == [
            b"GET /a.png HTTP/1.1",
            b"GET /b.pdf?sig=a%2Fb+c&x=%C3%A9 HTTP/1.1",
        ]
        header_names = {line.split(b":", 1)[0].lower() for line in served.requests[0].split(b"\r\n")[1:] if line}
        # Nothing of the caller, no credential.
        assert header_names == {b"host", b"user-agent", b"accept", b"accept-encoding", b"connection"}
        assert b"Host: 127.0.0.1:%d" % served.port in served.requests[0]


async def test_connection_uses_the_address_that_was_checked_despite_dns_rebinding() -> None:
    """A second lookup would return another address: there is none."""
    hosts = FakeResolver(images_example=["127.0.0.1", "169.254.169.254"])
    async with start_engine(respond_always(http_response())) as served, media_fetcher(hosts=hosts) as media:
        await media.fetch([url_on(served, "images.example")])
        assert hosts.lookups == ["images.example"]
        assert b"Host: images.example:%d\r\n" % served.port in served.requests[0]


async def test_redirect_to_the_same_name_is_resolved_and_checked_again() -> None:
    hosts = FakeResolver(images_example=["127.0.0.1", "127.0.0.2"])
    async with start_engine(respond_always(redirect("/b.png"))) as served, media_fetcher(hosts=hosts) as media:
        assert await refusal_reason(media, url_on(served, "images.example")) == "its host has no public address."
        assert (hosts.lookups, len(served.requests)) == (["images.example"] * 2, 1)


@pytest.mark.parametrize("host", ["127.0.0.2", "localhost", "[::1]", "metadata.internal"])
async def test_redirect_to_a_private_address_gets_the_same_error_whether_or_not_it_is_open(host: str) -> None:
    hosts = FakeResolver(metadata_internal=["169.254.169.254"], localhost=["127.0.0.3"])
    async with start_engine(respond_always(http_response())) as private, media_fetcher(hosts=hosts) as media:
        for port in (private.port, 1024):
            async with start_engine(respond_always(redirect(f"http://{host}:{port}/latest"))) as served:
                assert await refusal_reason(media, url_on(served)) == "its host has no public address."
        assert private.connections == []


async def test_redirects_are_followed_up_to_the_limit() -> None:
    async def serve(connection: EngineConnection) -> None:
        while request := await connection.read_request():
            remaining = int(request.split(b" ")[1].strip(b"/"))
            await connection.send(redirect(f"/{remaining - 1}", "307 Temporary Redirect") if remaining else http_response())

    async with start_engine(serve) as served, media_fetcher(redirects=2) as media:
        assert [*(await media.fetch([url_on(served, path="2")])).values()] == [Inline("image/png", base64.b64encode(PNG).decode())]
        assert await refusal_reason(media, url_on(served, path="3")) == "it redirects more than 2 times."
        assert await refusal_reason(media, url_on(served, path="9999")) == "it redirects more than 2 times."
        assert len(served.requests) == 9


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (redirect("file:///etc/passwd"), "only http and https can be fetched."),
        (redirect("http://me:pw@127.0.0.1/"), "credentials are not sent."),
        (redirect("http://[::1"), "it redirects to an invalid URL."),
        (http_response(b"", "301 Moved Permanently"), "it redirects without a location."),
        (http_response(b"", "404 Not Found"), "the response has status 404."),
        (http_response(b"", "204 No Content"), "the response has status 204."),
        (http_response(PNG, "206 Partial Content"), "the response has status 206."),
        (http_response(b""), "it is empty."),
        (http_response(PNG, "200 OK", "Content-Encoding: gzip"), "the response is compressed, which was not requested."),
        (
            http_response(b"<html>", "200 OK", "Content-Type: text/html"),
            "it is not an image, document or audio that can be used (its type: 'text/html').",
        ),
        (http_response(b"what is it"), "it is not an image, document or audio that can be used (its type: '')."),
        (b"SSH-2.0-OpenSSH_9.9\r\n", "the response ended early, or is not HTTP."),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", "the response ended early, or is not HTTP."),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100001\r\n\r\n", "it is larger than 100000 bytes."),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 100_001, "it is larger than 100000 bytes."),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"61a80\r\n" + b"x" * 400_000, "it is larger than 100000 bytes."),
    ],
)
async def test_unusable_media_response_is_refused_with_the_reason(response: bytes, reason: str) -> None:
    async def serve(connection: EngineConnection) -> None:
        await connection.read_request()
        await connection.send(response)

    async with start_engine(serve) as served, media_fetcher() as media:
        assert await refusal_reason(media, url_on(served)) == reason


async def test_total_media_size_is_limited() -> None:
    async with start_engine(respond_always(http_response(PNG + b"\0" * 90_000))) as served, media_fetcher() as media:
        assert len(await media.fetch([url_on(served, path=str(n)) for n in range(2)])) == 2
        assert (
            await refusal_reason(media, *(url_on(served, path=str(n)) for n in range(3)))
            == "all media of the request are too large together."
        )


async def test_slow_drip_media_times_out() -> None:
    async def serve(connection: EngineConnection) -> None:
        await connection.read_request()
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n")
        while True:
            await connection.send(b"\0")
            await asyncio.sleep(0.02)

    async with start_engine(serve) as served, media_fetcher(timeout_s=1.0) as media:
        began = asyncio.get_running_loop().time()
        assert await refusal_reason(media, url_on(served), url_on(served, path="b")) == "it took longer than 1 seconds."
        assert 0.99 < asyncio.get_running_loop().time() - began < GENEROUS_S
        assert len(served.connections) == 2


@pytest.mark.parametrize("status", ["302 Found\r\nLocation: /", "200 OK", "404 Not Found"])
async def test_connection_is_closed_once_a_media_response_is_refused(status: str) -> None:
    """The response announces more bytes; as it is refused, the connection is closed."""
    disconnects: list[bool] = []

    async def serve(connection: EngineConnection) -> None:
        await connection.read_request()
        await connection.send(f"HTTP/1.1 {status}\r\nContent-Length: 99999999\r\n\r\n".encode())
        disconnects.append(await connection.sees_disconnect(GENEROUS_S))

    async with start_engine(serve) as served, media_fetcher(redirects=0) as media:
        assert await refusal_reason(media, url_on(served))
        await wait_until(lambda: bool(disconnects))
        assert disconnects == [True]


async def test_dns_lookup_times_out() -> None:
    async def look_up(host: str, port: int) -> Collection[str]:
        await asyncio.sleep(600)
        return ["127.0.0.1"]

    async with open_transport() as transport:
        media = MediaFetcher(Settings(media_timeout_s=0.1), transport, look_up)
        assert await refusal_reason(media, "http://images.example/a.png") == "it took longer than 0.1 seconds."
        await media.aclose()


async def test_one_failed_media_fetch_cancels_the_others() -> None:
    disconnected = asyncio.Event()

    async def hang(connection: EngineConnection) -> None:
        await connection.read_request()
        if await connection.sees_disconnect(GENEROUS_S):
            disconnected.set()

    not_found = respond_always(http_response(b"", "404 Not Found"))
    async with start_engine(hang) as slow, start_engine(not_found) as served, media_fetcher() as media:
        assert await refusal_reason(media, url_on(slow), url_on(served)) == "the response has status 404."
        async with asyncio.timeout(GENEROUS_S):
            await disconnected.wait()


async def test_unreachable_media_host_is_reported() -> None:
    async with start_engine(respond_always(http_response())) as served:
        url = url_on(served)
    async with media_fetcher() as media:
        assert await refusal_reason(media, url) == "no server responds there, or its TLS certificate is not trusted."


async def test_tls_sni_and_certificate_use_the_host_name_although_the_ip_is_dialled() -> None:
    sni_names: list[str | None] = []
    server_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_tls.load_cert_chain(TLS / "engine.pem", TLS / "engine.key")
    server_tls.sni_callback = lambda _socket, name, _context: sni_names.append(name)
    client_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_tls.load_verify_locations(TLS / "ca.pem")
    hosts = FakeResolver(engine_test=["127.0.0.1"], other_test=["127.0.0.1"])
    async with start_engine(respond_always(http_response()), tls=server_tls) as served, media_fetcher(hosts=hosts, tls=client_tls) as media:
        assert await media.fetch([url_on(served, "engine.test")])
        assert (
            await refusal_reason(media, url_on(served, "other.test")) == "no server responds there, or its TLS certificate is not trusted."
        )
        assert (sni_names, len(served.requests)) == (["engine.test", "other.test"], 1)


async def test_redirect_from_https_to_http_is_refused() -> None:
    server_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_tls.load_cert_chain(TLS / "engine.pem", TLS / "engine.key")
    client_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_tls.load_verify_locations(TLS / "ca.pem")
    hosts = FakeResolver(engine_test=["127.0.0.1"])
    async with start_engine(respond_always(http_response())) as plain, media_fetcher(hosts=hosts, tls=client_tls) as media:
        async with start_engine(respond_always(redirect(url_on(plain))), tls=server_tls) as served:
            assert await refusal_reason(media, url_on(served, "engine.test")) == "it redirects from https to http."
        assert plain.connections == []


async def test_proxy_environment_variables_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    async with start_engine(respond_always(http_response())) as served, start_engine(respond_always(http_response())) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        async with media_fetcher() as media:
            await media.fetch([url_on(served)])
        assert (len(served.requests), proxy.connections) == (1, [])


def source_for(media: MediaFetcher, url: str, dialect: str = "openai_chat", **fields: Any) -> SourceRequest:
    part: Any = {"type": "image_url", "image_url": {"url": url, "detail": "low"}, "uuid": "of the engine's cache"}
    if dialect == "anthropic_messages":
        part = {"type": "image", "source": {"type": "url", "url": url}}
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": [part]}], **fields}
    raw = json.dumps(body).encode()
    return make_source(DIALECTS[dialect].parse_request(raw), raw, DIALECTS[dialect], media, lambda field: field.endswith(".uuid"))


async def sent_to(provider: Provider, source: SourceRequest) -> dict[str, Any]:
    """The body for an engine, in the dialect of its caller."""
    endpoint = Endpoint(ProviderConfig(provider.name), provider, "http://127.0.0.1", CredentialReader(lambda _: "", ()), _fetch_nothing)
    return json.loads((await translate_request(source, endpoint, Target(provider="p", model="m"))).raw)


async def _fetch_nothing(request: httpx2.Request) -> tuple[int, bytes]:
    raise AssertionError("a translation needs no token")


async def test_engine_of_the_same_dialect_gets_media_inline_and_everything_else_as_it_came() -> None:
    async with start_engine(respond_always(http_response())) as served, media_fetcher() as media:
        url = url_on(served)
        inline = base64.b64encode(PNG).decode()
        part = (await sent_to(VLLM("p", {}), source_for(media, url)))["messages"][0]["content"][0]
        data_url = f"data:image/png;base64,{inline}"
        assert part == {"type": "image_url", "image_url": {"url": data_url, "detail": "low"}, "uuid": "of the engine's cache"}
        vllm = VLLM("p", {"dialects": ["anthropic_messages"]})
        part = (await sent_to(vllm, source_for(media, url, "anthropic_messages")))["messages"][0]["content"][0]
        assert part["source"] == {"type": "base64", "media_type": "image/png", "data": inline}


async def test_engine_gets_the_url_itself_only_of_a_host_that_the_operator_lists() -> None:
    async with start_engine(respond_always(http_response())) as served, media_fetcher() as media:
        url = url_on(served)
        source = source_for(media, url)
        body = await sent_to(VLLM("p", {"media_hosts": ["127.0.0.1"]}), source)
        assert (body["messages"][0]["content"][0]["image_url"]["url"], served.requests) == (url, [])
        for provider in (VLLM("q", {"media_hosts": ["example.com"]}), VLLM("p", {"media_hosts": ["127.0.0.1"]})):
            body = await sent_to(provider, source)
            assert body["messages"][0]["content"][0]["image_url"]["url"].startswith("data:image/png;base64,")
        assert len(served.requests) == 1, "fetched once, for all targets"


@pytest.mark.parametrize("adapter", ["gemini", "transformers"])
async def test_media_is_fetched_once_for_all_choices_of_a_split_request(adapter: str) -> None:
    async with start_engine(respond_always(http_response())) as served, media_fetcher() as media:
        provider = build_provider(adapter, "p", {}, "http://127.0.0.1:1")
        endpoint = Endpoint(ProviderConfig("p"), provider, "http://127.0.0.1:1", CredentialReader(lambda _: "", ()), _fetch_nothing)
        translated = await translate_request(source_for(media, url_on(served), n=9), endpoint, Target(provider="p", model="m"))
        bodies = [(await part.make()).raw for part in translated.parts]
        assert len(bodies) == 9 and all(base64.b64encode(PNG) in body for body in bodies)
        assert len(served.requests) == 1


@pytest.mark.parametrize("hosts", ["images.example.com", ["http://images.example.com"], [1], ["*"]])
def test_media_hosts_that_are_no_names_are_refused(hosts: Any) -> None:
    with pytest.raises(InvalidOption, match="media_hosts"):
        VLLM("p", {"media_hosts": hosts})
