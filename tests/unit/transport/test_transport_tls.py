"""TLS: the right engine, by its name, or none. tests/laws/tls holds a certificate of a throw-away authority, made for these tests."""

import asyncio
import ssl
from pathlib import Path

import httpx
import pytest

from providers.transport.transport import Transport, tls_context
from tests.support.raw_engine import (
    OK,
    EngineConnection,
    NewLoop,
    both_loops,
    fetch,
    open_transport,
    post_request,
    respond_always,
    response_stream,
    run,
    start_engine,
)

_TLS = Path(__file__).parents[2] / "support" / "tls"
_CA = str(_TLS / "ca.pem")


def server_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(_TLS / "engine.pem", _TLS / "engine.key")
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


def client_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(_CA)
    return context


@both_loops
def test_ca_bundle_makes_a_private_authority_trusted(new_loop: NewLoop) -> None:
    async def main() -> None:
        async with start_engine(respond_always(OK), tls=server_tls()) as served:
            via = Transport(ca_bundle=_CA)
            for _ in range(3):
                assert await fetch(via, post_request(served.url, b"x" * 1_000_000)) == (200, b"ok")
            assert len(served.connections) == 1
            tls_object: ssl.SSLObject = served.connections[0].writer.get_extra_info("ssl_object")
            assert tls_object.selected_alpn_protocol() == "http/1.1"
            await via.aclose()

    run(new_loop, main())


@both_loops
def test_unknown_certificate_authority_is_refused(new_loop: NewLoop) -> None:
    async def main() -> None:
        async with start_engine(respond_always(OK), tls=server_tls()) as served, open_transport(tls=tls_context()) as via:
            with pytest.raises(httpx.ConnectError, match=r"(?i)certificate verify failed"):
                await fetch(via, post_request(served.url))
            assert served.requests == []

    run(new_loop, main())


@both_loops
def test_certificate_must_match_the_host_name(new_loop: NewLoop) -> None:
    async def main() -> None:
        async with start_engine(respond_always(OK), tls=server_tls()) as served, open_transport(tls=client_tls()) as via:
            for name, is_right in [("engine.test", True), ("other.test", False), ("localhost", True)]:
                request = httpx.Request("GET", served.url, extensions={"sni_hostname": name})
                if is_right:
                    assert await fetch(via, request) == (200, b"ok")
                else:
                    with pytest.raises(httpx.ConnectError, match=r"(?i)mismatch"):
                        await fetch(via, request)

    run(new_loop, main())


@both_loops
def test_sni_host_name_is_sent_and_its_connections_are_not_shared(new_loop: NewLoop) -> None:
    async def main() -> None:
        requested_names: list[str | None] = []
        tls = server_tls()
        tls.sni_callback = lambda _socket, name, _context: requested_names.append(name)
        async with start_engine(respond_always(OK), tls=tls) as served, open_transport(tls=client_tls()) as via:
            for name in ("engine.test", "localhost", "engine.test"):
                await fetch(via, httpx.Request("GET", served.url, extensions={"sni_hostname": name}))
            await fetch(via, post_request(served.url.copy_with(host="localhost")))
            assert requested_names == ["engine.test", "localhost", "localhost"]

    run(new_loop, main())


@both_loops
def test_streaming_timeout_and_disconnect_work_under_tls(new_loop: NewLoop) -> None:
    async def main() -> None:
        disconnects: list[bool] = []

        async def play(visit: EngineConnection) -> None:
            while b"whole" in await visit.read_request():
                await visit.send(b"HTTP/1.1 200 OK\r\nTransfer-", b"Encoding: chunked\r\n\r\n3\r\nab", b"c\r\n2\r\nde\r\n0\r", b"\n\r\n")
            await visit.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
            disconnects.append(await visit.sees_disconnect())

        async with start_engine(play, tls=server_tls()) as served, open_transport(tls=client_tls()) as via:
            for _ in range(2):
                assert await fetch(via, post_request(served.url, b"whole")) == (200, b"abcde")
            response = await via.handle_async_request(post_request(served.url, b"half"))
            assert await anext(response_stream(response)) == b"half"
            await response.aclose()
            with pytest.raises(httpx.ReadTimeout):
                await fetch(via, post_request(served.url, b"half", read=0.1))
            await asyncio.sleep(0.05)
            assert disconnects == [True, True]

    run(new_loop, main())


@both_loops
def test_truncated_body_under_tls_is_an_error(new_loop: NewLoop) -> None:
    async def main() -> None:
        async def play(visit: EngineConnection) -> None:
            await visit.read_request()
            await visit.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")

        async with start_engine(play, tls=server_tls()) as served, open_transport(tls=client_tls()) as via:
            with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
                await fetch(via, post_request(served.url, read=2))

    run(new_loop, main())


@both_loops
@pytest.mark.parametrize("ending", ["timeout", "cancelled", "not TLS"])
def test_failed_tls_handshake_leaves_no_connection(new_loop: NewLoop, ending: str) -> None:
    async def main() -> None:
        disconnects: list[bool] = []

        async def play(visit: EngineConnection) -> None:
            await visit.reader.read(1)
            if ending == "not TLS":
                await visit.send(OK)
            disconnects.append(await visit.sees_disconnect())

        async with start_engine(play) as served, open_transport(tls=client_tls(), connections_per_origin=1) as via:
            request = post_request(served.url.copy_with(scheme="https"), connect=0.2 if ending == "timeout" else 5)
            pending_request = asyncio.create_task(fetch(via, request))
            if ending == "cancelled":
                await asyncio.sleep(0.05)
                pending_request.cancel()
            expected = {"timeout": httpx.ConnectTimeout, "cancelled": asyncio.CancelledError, "not TLS": httpx.ConnectError}[ending]
            with pytest.raises(expected):
                await pending_request
            await asyncio.sleep(0.05)
            assert disconnects == [True]
            assert not via._origins  # pyright: ignore[reportPrivateUsage]

    run(new_loop, main())
