"""Fetching media: no private address is ever connected to, however it is written, and no error reveals what is there."""

import asyncio
import socket
from collections.abc import Collection
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.callers import Caller
from app.gateway.media.fetcher import MAX_URLS, MediaFetcher, ResolveHost
from app.gateway.media.media_type import detect_media_type
from app.gateway.media.public_addresses import public_address
from app.gateway.memory.body_memory import BodyMemory
from app.settings import Networks, Settings
from providers.canonical.errors import BodyMemoryExceeded, InvalidRequest, Unsupported
from providers.transport.resolver import Resolver
from tests.support.strategies.chat_strategies import bounded

PRIVATE = [
    *("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10", "0.0.0.0/8", "224.0.0.0/4"),
    *("240.0.0.0/4", "192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "168.63.129.16/32"),
]
PRIVATE6 = [
    *("::/127", "fe80::/10", "fec0::/10", "fc00::/7", "ff00::/8", "2001::/32", "2001:db8::/32", "2002::/16", "64:ff9b:1::/48"),
    *("100::/64", "5f00::/16", "3fff::/20", "::/96"),
]
PUBLIC = ["1.0.0.0/8", "8.0.0.0/7", "100.128.0.0/9", "172.32.0.0/11", "192.169.0.0/16", "223.255.255.0/24"]
METADATA = ["169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"]


def addresses_in(network: str) -> st.SearchStrategy[str]:
    net = IPv6Network(network) if ":" in network else IPv4Network(network)
    return st.integers(int(net[0]), int(net[-1])).map(lambda n: str((IPv6Address if ":" in network else IPv4Address)(n)))


private = st.sampled_from(PRIVATE).flatmap(addresses_in)
private6 = st.sampled_from(PRIVATE6).flatmap(addresses_in)
public = st.sampled_from(PUBLIC).flatmap(addresses_in)


@st.composite
def embedded_in_ipv6(draw: st.DrawFn, addresses: st.SearchStrategy[str]) -> str:
    """An IPv4 address in one of the forms that embed it in IPv6."""
    number = int(IPv4Address(draw(addresses)))
    prefix, shift = draw(st.sampled_from([("::ffff:0:0", 0), ("64:ff9b::", 0), ("::", 0), ("2002::", 80)]))
    return str(IPv6Address(int(IPv6Address(prefix)) | number << shift))


@st.composite
def oddly_written(draw: st.DrawFn, addresses: st.SearchStrategy[str]) -> str:
    """An IPv4 address as inet_aton reads it: fewer parts than four, each decimal, octal or hexadecimal."""
    number = int(IPv4Address(draw(addresses)))
    parts = draw(st.integers(1, 4))
    heads = [number >> 8 * (3 - at) & 0xFF for at in range(parts - 1)]
    numbers = [*heads, number & (1 << 8 * (5 - parts)) - 1]
    return ".".join(draw(st.sampled_from([str, hex, lambda n: f"0{n:o}"]))(each) for each in numbers)


class UnreachableTransport(httpx2.AsyncBaseTransport):
    """Records which hosts were requested, and refuses every connection."""

    def __init__(self) -> None:
        self.requested_hosts: list[str] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.requested_hosts.append(request.url.host)
        raise httpx2.ConnectError("refused")


def resolving_to(*addresses: str) -> ResolveHost:
    async def look_up(host: str, port: int) -> Collection[str]:
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return addresses

    return look_up


def refused_fetch(url: str, look_up: ResolveHost | None = None, settings: Settings | None = None) -> tuple[str, list[str]]:
    """The message of the refusal, and the hosts to which a connection was tried."""

    async def main() -> str:
        media = MediaFetcher(settings or Settings(), transport, look_up)
        try:
            with pytest.raises(InvalidRequest) as refused:
                await media.fetch([url])
        finally:
            await media.aclose()
        assert refused.value.status == 400
        return refused.value.message

    transport = UnreachableTransport()
    return asyncio.run(main()), transport.requested_hosts


@bounded
@given(private | private6 | embedded_in_ipv6(private) | st.sampled_from(METADATA))
def test_address_that_is_not_public_is_not_reachable(address: str) -> None:
    assert public_address(address) is None


@bounded
@given(st.integers(0, 2**32 - 1).map(IPv4Address) | st.integers(0, 2**128 - 1).map(IPv6Address) | addresses_in("2000::/8").map(ip_address))
def test_reachable_address_is_not_special_to_pythons_ipaddress(address: IPv4Address | IPv6Address) -> None:
    reachable_address = public_address(str(address))
    if reachable_address is not None:
        parsed = ip_address(reachable_address)
        assert not (parsed.is_private or parsed.is_multicast or parsed.is_reserved or parsed.is_loopback or parsed.is_unspecified)


@pytest.mark.parametrize("address", ["8.8.8.8", "93.184.215.14", "2606:4700::6810:84e5", "64:ff9b::808:808", "172.32.0.1", "100.128.0.1"])
def test_public_address_is_reachable(address: str) -> None:
    assert public_address(address) == address


@bounded
@given(public)
def test_ipv4_mapped_address_is_treated_as_its_ipv4_address(address: str) -> None:
    assert public_address(address) == public_address(f"::ffff:{address}") == address


def test_network_allowed_by_the_operator_is_reachable_and_its_neighbours_are_not() -> None:
    allowed = Networks("10.1.0.0/16, fd00:7::/32, fe80::/10").parsed
    assert [public_address(each, allowed) for each in ("10.1.2.3", "::ffff:10.1.2.3", "fd00:7::1")] == ["10.1.2.3", "10.1.2.3", "fd00:7::1"]
    assert [public_address(each, allowed) for each in ("10.2.0.1", "::10.1.2.3", "fd00:8::1", "fe80::1%eth0")] == [None] * 4


@bounded
@given(oddly_written(st.sampled_from(PRIVATE).flatmap(addresses_in)))
def test_odd_spelling_of_a_private_address_is_refused_without_connecting(host: str) -> None:
    message, hosts = refused_fetch(f"http://{host}:8080/a.png")  # resolved as the system resolves such a host
    assert hosts == []
    assert message.endswith(
        ("its host has no public address.", "it is not a valid URL.")
    )  # not valid: four parts, one of them with a leading 0


@pytest.mark.parametrize("host", ["localhost", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:a9fe:a9fe]", "[fe80::1]", "127.1", "0"])
def test_local_host_is_refused_without_connecting(host: str) -> None:
    message, hosts = refused_fetch(f"http://{host}/a.png")
    assert (message.endswith("its host has no public address."), hosts) == (True, [])


@bounded
@given(st.lists(public, max_size=3), private | private6 | embedded_in_ipv6(private), st.lists(public, max_size=3))
def test_name_with_one_address_that_is_not_public_is_refused_without_connecting(
    before: list[str], private_address: str, after: list[str]
) -> None:
    message, hosts = refused_fetch("https://images.example/a.png", resolving_to(*before, private_address, *after))
    assert (message.endswith("its host has no public address."), hosts) == (True, [])


def test_unresolvable_name_is_reported_like_a_private_one() -> None:
    absent, _ = refused_fetch("http://db.internal/a.png", resolving_to())
    private, _ = refused_fetch("http://db.internal/a.png", resolving_to("10.0.0.1"))
    assert absent == private


@bounded
@given(st.lists(public, min_size=1, max_size=9, unique=True))
def test_only_checked_addresses_are_tried_and_at_most_three(addresses: list[str]) -> None:
    _, hosts = refused_fetch("https://images.example/a.png", resolving_to(*addresses))
    assert hosts == addresses[:3]


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("file:///etc/passwd", "only http and https"),
        ("gopher://93.184.215.14/", "only http and https"),
        ("data:image/svg+xml,<svg/>", "only http and https"),
        ("images/a.png", "only http and https"),
        ("http:///a.png", "names no host"),
        ("http://[::1", "not a valid URL"),
        ("http://me:pw@93.184.215.14/a.png", "credentials"),
        ("http://93.184.215.14:25/", "port 25"),
        ("http://93.184.215.14:0/", "port 0"),
        ("http://93.184.215.14:65536/", "port 65536"),
    ],
)
def test_unfetchable_url_is_refused_without_connecting(url: str, reason: str) -> None:
    message, hosts = refused_fetch(url)
    assert (reason in message, hosts) == (True, []), message


@bounded
@given(
    st.text(max_size=30),
    st.sampled_from(["", "http://", "https://images.example/", "http://images.example:", "http://[", "//", "http://a@"]),
)
def test_any_text_as_a_url_is_refused_with_a_printable_message(text: str, prefix: str) -> None:
    message, hosts = refused_fetch(prefix + text, resolving_to("8.8.8.8"))
    assert message.startswith("The media at ") and {*hosts} <= {"8.8.8.8"}
    assert message.isprintable()


SAFE = st.text("abcdefgh/", max_size=20)


@bounded
@given(st.text("abc:", max_size=9), SAFE, st.sampled_from(["ftp", "http", "https"]), st.booleans())
def test_secrets_in_a_url_are_not_repeated_in_the_error(user: str, path: str, scheme: str, broken: bool) -> None:
    url = f"{scheme}://{user}SECRET@{'[' if broken else 'images.example'}/{path}?sig=SECRET#SECRET"
    message, hosts = refused_fetch(url, resolving_to("10.0.0.1"))
    assert "SECRET" not in message and hosts == []
    assert broken or f"images.example/{path}" in message


def test_very_long_url_is_shortened_in_the_error() -> None:
    assert len(refused_fetch("http://images.example/" + "a/" * 20_000, resolving_to("10.0.0.1"))[0]) < 400


async def test_nothing_is_looked_up_when_fetching_is_off_or_urls_are_too_many() -> None:
    async def look_up(host: str, port: int) -> Collection[str]:
        raise AssertionError(host)

    off, on = (
        MediaFetcher(Settings(media_fetch="off"), UnreachableTransport(), look_up),
        MediaFetcher(Settings(), UnreachableTransport(), look_up),
    )
    with pytest.raises(Unsupported, match="fetches none"):
        await off.fetch(["http://images.example/a.png"])
    with pytest.raises(InvalidRequest, match=f"at most {MAX_URLS}"):
        await on.fetch([f"http://images.example/{n}.png" for n in range(MAX_URLS + 1)])
    assert (await off.fetch([]), await on.fetch([])) == ({}, {})
    await off.aclose()
    await on.aclose()


async def test_host_names_are_resolved_as_the_system_does() -> None:
    names = Resolver(1)
    assert "127.0.0.1" in await names.resolve("localhost", 80)
    assert await names.resolve("2130706433", 80) == ("127.0.0.1",)
    with pytest.raises(UnicodeError):
        await names.resolve("a..b", 80)
    names.close()


# The first bytes of a file, and its media type.
MAGIC_BYTES = [
    (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image/png"),
    (b"\xff\xd8\xff\xe0\0\x10JFIF", "image/jpeg"),
    (b"GIF89a\1\0", "image/gif"),
    (b"RIFF\n\0\0\0WEBPVP8 ", "image/webp"),
    (b"RIFF\n\0\0\0WAVEfmt ", "audio/wav"),
    (b"ID3\x03\0", "audio/mpeg"),
    (b"\xff\xfb\x90\x64", "audio/mpeg"),
    (b"%PDF-1.7\n", "application/pdf"),
]


@pytest.mark.parametrize("declared", ["", "application/octet-stream", " Application/Octet-Stream; charset=x", "binary/octet-stream"])
@pytest.mark.parametrize(("opening", "kind"), MAGIC_BYTES, ids=[kind for _, kind in MAGIC_BYTES])
def test_bytes_without_a_declared_type_are_identified_by_their_magic_number(declared: str, opening: bytes, kind: str) -> None:
    assert detect_media_type(declared, opening) == kind


@bounded
@given(st.binary(max_size=24).filter(lambda data: data[:1] not in b"\x89\xffGRI%"), st.sampled_from(["", "application/octet-stream"]))
def test_unrecognised_bytes_have_no_media_type(opening: bytes, declared: str) -> None:
    assert detect_media_type(declared, opening) is None


@pytest.mark.parametrize(
    ("declared", "opening", "kind"),
    [
        ("image/heic", b"\0\0\0\x18ftyp", "image/heic"),
        ("TEXT/Plain; charset=utf-8", b"ID3 tags are", "text/plain"),
        ("text/plain", b"ID3\x03 tags", "text/plain"),
        ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", b"PK", None),
        ("image/png", b"\xff\xd8\xff\xe0", "image/jpeg"),
        ("image/jpg; q=1", b"\xff\xd8\xff\xe0", "image/jpeg"),
        ("text/html; charset=utf-8", b"<!doctype html>", ""),
        ("text/html", b"\x89PNG\r\n\x1a\n", ""),
        ("application/zip", b"PK", ""),
        ("multipart/mixed", b"--", ""),
        ("image/", b"?", ""),
        ('image/png"x', b"?", ""),
        ("*/*", b"?", ""),
    ],
)
def test_declared_media_type_is_trusted_corrected_or_refused(declared: str, opening: bytes, kind: str | None) -> None:
    """A `kind` of None means that the type is as declared, and an empty one that it is refused."""
    assert detect_media_type(declared, opening) == (declared if kind is None else kind or None)


class ImageTransport(httpx2.AsyncBaseTransport):
    """Answers every request with an image of 30 kB."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        image = b"\x89PNG\r\n\x1a\n" + b"p" * 30_000
        return httpx2.Response(200, headers={"content-type": "image/png"}, stream=httpx2.ByteStream(image))


async def test_fetched_media_takes_the_memory_of_the_key_that_names_it():
    fetcher = MediaFetcher(Settings(), ImageTransport(), resolving_to("1.1.1.1"))
    memory = BodyMemory(Settings(bodies_max_bytes_key=100_000))
    caller = Caller("key", "team", "team", "full")
    claims = [memory.claim(caller) for _ in range(2)]
    fetched = await fetcher.fetch(["http://a.test/1", "http://a.test/2"], claims[0].add)
    assert claims[0].size_bytes == sum(len(each.data) for each in fetched.values())
    with pytest.raises(BodyMemoryExceeded):
        await fetcher.fetch(["http://a.test/1"], claims[1].add)
    claims[0].release()
    await fetcher.fetch(["http://a.test/1"], claims[1].add)
    await fetcher.aclose()
