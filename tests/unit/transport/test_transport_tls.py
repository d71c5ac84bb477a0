"""TLS: an engine is trusted by its certificate and its name. tests/support/tls holds certificates of an authority made for these tests."""

import asyncio
import ssl
from pathlib import Path

import httpx2
import pytest

from providers.transport.tls import tls_context
from providers.transport.transport import Transport
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
    wait_until,
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
        async with start_engine(respond_always(OK), tls=server_tls()) as engine:
            transport = Transport(ca_bundle=_CA)
            for _ in range(3):
                assert await fetch(transport, post_request(engine.url, b"x" * 1_000_000)) == (200, b"ok")
            assert len(engine.connections) == 1
            tls_object: ssl.SSLObject = engine.connections[0].writer.get_extra_info("ssl_object")
            assert tls_object.selected_alpn_protocol() == "http/1.1"
            await transport.aclose()

    run(new_loop, main())


@both_loops
def test_unknown_certificate_authority_is_refused(new_loop: NewLoop) -> None:
    async def main() -> None:
        async with start_engine(respond_always(OK), tls=server_tls()) as engine, open_transport(tls=tls_context()) as transport:
            with pytest.raises(httpx2.ConnectError, match=r"(?i)certificate verify failed"):
                await fetch(transport, post_request(engine.url))
            assert engine.requests == []

    run(new_loop, main())


@both_loops
def test_certificate_must_match_the_host_name(new_loop: NewLoop) -> None:
    async def main() -> None:
        async with start_engine(respond_always(OK), tls=server_tls()) as engine, open_transport(tls=client_tls()) as transport:
            for name, is_valid in [("engine.test", True), ("other.test", False), ("localhost", True)]:
                request = httpx2.Request("GET", engine.url, extensions={"sni_hostname": name})
                if is_valid:
                    assert await fetch(transport, request) == (200, b"ok")
                else:
                    with pytest.raises(httpx2.ConnectError, match=r"(?i)mismatch"):
                        await fetch(transport, request)

    run(new_loop, main())


@both_loops
def test_sni_host_name_is_sent_and_its_connections_are_not_shared(new_loop: NewLoop) -> None:
    async def main() -> None:
        requested_names: list[str | None] = []
        tls = server_tls()
        tls.sni_callback = lambda _socket, name, _context: requested_names.append(name)
        async with start_engine(respond_always(OK), tls=tls) as engine, open_transport(tls=client_tls()) as transport:
            for name in ("engine.test", "localhost", "engine.test"):
                await fetch(transport, httpx2.Request("GET", engine.url, extensions={"sni_hostname": name}))
            await fetch(transport, post_request(engine.url.copy_with(host="localhost")))
            assert requested_names == ["engine.test", "localhost", "localhost"]

    run(new_loop, main())


@both_loops
def test_streaming_timeout_and_disconnect_work_under_tls(new_loop: NewLoop) -> None:
    async def main() -> None:
        disconnects: list[bool] = []

        async def script(connection: EngineConnection) -> None:
            while b"whole" in await connection.read_request():
                await connection.send(
                    b"HTTP/1.1 200 OK\r\nTransfer-", b"Encoding: chunked\r\n\r\n3\r\nab", b"c\r\n2\r\nde\r\n0\r", b"\n\r\n"
                )
            await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
            disconnects.append(await connection.sees_disconnect())

        async with start_engine(script, tls=server_tls()) as engine, open_transport(tls=client_tls()) as transport:
            for _ in range(2):
                assert await fetch(transport, post_request(engine.url, b"whole")) == (200, b"abcde")
            response = await transport.handle_async_request(post_request(engine.url, b"half"))
            assert await anext(response_stream(response)) == b"half"
            await response.aclose()
            with pytest.raises(httpx2.ReadTimeout):
                await fetch(transport, post_request(engine.url, b"half", read=0.1))
            await wait_until(lambda: disconnects == [True, True])

    run(new_loop, main())


@both_loops
def test_truncated_body_under_tls_is_an_error(new_loop: NewLoop) -> None:
    async def main() -> None:
        async def script(connection: EngineConnection) -> None:
            await connection.read_request()
            await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")

        async with start_engine(script, tls=server_tls()) as engine, open_transport(tls=client_tls()) as transport:
            with pytest.raises((httpx2.RemoteProtocolError, httpx2.ReadError)):
                await fetch(transport, post_request(engine.url, read=30))

    run(new_loop, main())


@both_loops
@pytest.mark.parametrize("ending", ["timeout", "cancelled", "not TLS"])
def test_failed_tls_handshake_leaves_no_connection(new_loop: NewLoop, ending: str) -> None:
    async def main() -> None:
        disconnects: list[bool] = []

        async def script(connection: EngineConnection) -> None:
            await connection.reader.read(1)
            if ending == "not TLS":
                await connection.send(OK)
            disconnects.append(await connection.sees_disconnect())

        async with start_engine(script) as engine, open_transport(tls=client_tls(), connections_per_origin=1) as transport:
            request = post_request(engine.url.copy_with(scheme="https"), connect=0.2 if ending == "timeout" else 60)
            pending_request = asyncio.create_task(fetch(transport, request))
            if ending == "cancelled":
                await wait_until(lambda: len(engine.connections) == 1)
                pending_request.cancel()
            expected = {"timeout": httpx2.ConnectTimeout, "cancelled": asyncio.CancelledError, "not TLS": httpx2.ConnectError}[ending]
            with pytest.raises(expected):
                await pending_request
            await wait_until(lambda: disconnects == [True])
            assert not transport._origins  # pyright: ignore[reportPrivateUsage]

    run(new_loop, main())
