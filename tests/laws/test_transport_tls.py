"""TLS: the right engine, by its name, or none. tests/laws/tls holds a certificate of a throw-away authority, made for these tests."""

import asyncio
import ssl
from pathlib import Path

import httpx
import pytest

from providers.transport.transport import Transport, tls_context
from tests.laws.hostile import OK, NewLoop, Visit, always, ask, both_loops, engine, post, run, stream_of, transport

_TLS = Path(__file__).parent / "tls"
_CA = str(_TLS / "ca.pem")


def engines_side() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(_TLS / "engine.pem", _TLS / "engine.key")
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


def ours() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(_CA)
    return context


@both_loops
def test_a_private_authority_is_trusted_when_named(new_loop: NewLoop) -> None:
    async def main() -> None:
        async with engine(always(OK), tls=engines_side()) as served:
            via = Transport(ca_bundle=_CA)
            for _ in range(3):
                assert await ask(via, post(served.url, b"x" * 1_000_000)) == (200, b"ok")
            assert len(served.visits) == 1
            spoken: ssl.SSLObject = served.visits[0].writer.get_extra_info("ssl_object")
            assert spoken.selected_alpn_protocol() == "http/1.1"
            await via.aclose()

    run(new_loop, main())


@both_loops
def test_an_unknown_authority_is_refused(new_loop: NewLoop) -> None:
    async def main() -> None:
        async with engine(always(OK), tls=engines_side()) as served, transport(tls=tls_context()) as via:
            with pytest.raises(httpx.ConnectError, match=r"(?i)certificate verify failed"):
                await ask(via, post(served.url))
            assert served.requests == []

    run(new_loop, main())


@both_loops
def test_the_name_must_be_right(new_loop: NewLoop) -> None:
    async def main() -> None:
        async with engine(always(OK), tls=engines_side()) as served, transport(tls=ours()) as via:
            for name, is_right in [("engine.test", True), ("other.test", False), ("localhost", True)]:
                request = httpx.Request("GET", served.url, extensions={"sni_hostname": name})
                if is_right:
                    assert await ask(via, request) == (200, b"ok")
                else:
                    with pytest.raises(httpx.ConnectError, match=r"(?i)mismatch"):
                        await ask(via, request)

    run(new_loop, main())


@both_loops
def test_the_name_asked_for_is_sent_and_its_connections_are_not_shared(new_loop: NewLoop) -> None:
    async def main() -> None:
        asked: list[str | None] = []
        tls = engines_side()
        tls.sni_callback = lambda _socket, name, _context: asked.append(name)
        async with engine(always(OK), tls=tls) as served, transport(tls=ours()) as via:
            for name in ("engine.test", "localhost", "engine.test"):
                await ask(via, httpx.Request("GET", served.url, extensions={"sni_hostname": name}))
            await ask(via, post(served.url.copy_with(host="localhost")))
            assert asked == ["engine.test", "localhost", "localhost"]

    run(new_loop, main())


@both_loops
def test_streams_cuts_and_hang_ups_are_the_same_under_tls(new_loop: NewLoop) -> None:
    async def main() -> None:
        hung_up: list[bool] = []

        async def play(visit: Visit) -> None:
            while b"whole" in await visit.request():
                await visit.send(b"HTTP/1.1 200 OK\r\nTransfer-", b"Encoding: chunked\r\n\r\n3\r\nab", b"c\r\n2\r\nde\r\n0\r", b"\n\r\n")
            await visit.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
            hung_up.append(await visit.hung_up())

        async with engine(play, tls=engines_side()) as served, transport(tls=ours()) as via:
            for _ in range(2):
                assert await ask(via, post(served.url, b"whole")) == (200, b"abcde")
            response = await via.handle_async_request(post(served.url, b"half"))
            assert await anext(stream_of(response)) == b"half"
            await response.aclose()
            with pytest.raises(httpx.ReadTimeout):
                await ask(via, post(served.url, b"half", read=0.1))
            await asyncio.sleep(0.05)
            assert hung_up == [True, True]

    run(new_loop, main())


@both_loops
def test_a_body_cut_off_under_tls_is_an_error(new_loop: NewLoop) -> None:
    async def main() -> None:
        async def play(visit: Visit) -> None:
            await visit.request()
            await visit.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")

        async with engine(play, tls=engines_side()) as served, transport(tls=ours()) as via:
            with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
                await ask(via, post(served.url, read=2))

    run(new_loop, main())


@both_loops
@pytest.mark.parametrize("ending", ["timeout", "cancelled", "not TLS"])
def test_a_handshake_that_does_not_come_about_leaves_nothing(new_loop: NewLoop, ending: str) -> None:
    async def main() -> None:
        hung_up: list[bool] = []

        async def play(visit: Visit) -> None:
            await visit.reader.read(1)
            if ending == "not TLS":
                await visit.send(OK)
            hung_up.append(await visit.hung_up())

        async with engine(play) as served, transport(tls=ours(), connections_per_origin=1) as via:
            request = post(served.url.copy_with(scheme="https"), connect=0.2 if ending == "timeout" else 5)
            asked = asyncio.create_task(ask(via, request))
            if ending == "cancelled":
                await asyncio.sleep(0.05)
                asked.cancel()
            expected = {"timeout": httpx.ConnectTimeout, "cancelled": asyncio.CancelledError, "not TLS": httpx.ConnectError}[ending]
            with pytest.raises(expected):
                await asked
            await asyncio.sleep(0.05)
            assert hung_up == [True]
            assert not via._origins  # pyright: ignore[reportPrivateUsage]

    run(new_loop, main())
