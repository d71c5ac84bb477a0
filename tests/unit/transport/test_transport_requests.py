"""Requests: each is sent once and exactly as given, or refused before the first byte."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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

LARGE = bytes(range(256)) * 12_000  # 3 MB: far more than any socket takes at once


class Pieces(httpx2.AsyncByteStream):
    def __init__(self, *pieces: bytes, fault: Exception | None = None) -> None:
        self.pieces = pieces
        self.fault = fault

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            await asyncio.sleep(0)
            yield piece
        if self.fault is not None:
            raise self.fault


class SyncPieces(httpx2.SyncByteStream):
    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.pieces)


@both_loops
def test_request_is_written_exactly_as_given(new_loop: NewLoop) -> None:
    async def main() -> None:
        async with start_engine(respond_always(OK)) as engine, open_transport() as transport:
            fields = [(b"X-Mixed-Case", b"1"), (b"x-twice", b"a"), (b"x-twice", "ü".encode()), (b"Authorization", b"Bearer k")]
            url = engine.url.copy_with(raw_path=b"/v1/a%20b?c=d&e")
            await fetch(transport, httpx2.Request("POST", url, headers=fields, stream=httpx2.ByteStream(b"{}")))
            assert engine.requests == [
                b"POST /v1/a%20b?c=d&e HTTP/1.1\r\nHost: 127.0.0.1:" + str(engine.port).encode() + b"\r\nX-Mixed-Case: 1\r\n"
                b"x-twice: a\r\nx-twice: \xc3\xbc\r\nAuthorization: Bearer k\r\nContent-Length: 2\r\n\r\n{}"
            ]

    run(new_loop, main())


@both_loops
def test_target_extension_is_sent_byte_for_byte(new_loop: NewLoop) -> None:
    async def main() -> None:
        async with start_engine(respond_always(OK)) as engine, open_transport() as transport:
            await fetch(transport, httpx2.Request("GET", engine.url, extensions={"target": b"/model/a%3A0/[x]|y"}))
            assert engine.requests[0].startswith(b"GET /model/a%3A0/[x]|y HTTP/1.1\r\n")

    run(new_loop, main())


BODIES: dict[str, tuple[dict[str, Any], bytes]] = {
    "small": ({"content": b"hello"}, b"hello"),
    "empty": ({"content": b""}, b""),
    "large": ({"content": LARGE}, LARGE),
    "async pieces": ({"stream": Pieces(b"hel", b"", b"lo")}, b"hello"),
    "sync pieces": ({"stream": SyncPieces(b"hel", b"", b"lo")}, b"hello"),
    "many pieces": ({"stream": Pieces(*[LARGE[:100_000]] * 10)}, LARGE[:100_000] * 10),
    "pieces with a length": ({"stream": Pieces(b"hel", b"lo"), "headers": {"Content-Length": "5"}}, b"hello"),
    "whole, as chunks": ({"stream": httpx2.ByteStream(b"hello"), "headers": {"Transfer-Encoding": "chunked"}}, b"hello"),
    "large, as chunks": ({"stream": httpx2.ByteStream(LARGE), "headers": {"Transfer-Encoding": "chunked"}}, LARGE),
}


@both_loops
@pytest.mark.parametrize("body", BODIES)
def test_request_body_arrives_whole(new_loop: NewLoop, body: str) -> None:
    async def main() -> None:
        async with start_engine(respond_always(OK)) as engine, open_transport() as transport:
            given_as, expected = BODIES[body]
            for _ in range(2):
                assert await fetch(transport, httpx2.Request("POST", engine.url, **given_as)) == (200, b"ok")
            for request in engine.requests:
                head, _, wire = request.partition(b"\r\n\r\n")
                assert (decode_chunked(wire) if b"transfer-encoding" in head.lower() else wire) == expected

    run(new_loop, main())


def decode_chunked(wire: bytes) -> bytes:
    body = b""
    while True:
        size, _, wire = wire.partition(b"\r\n")
        if size == b"0":
            assert wire == b"\r\n"
            return body
        body += wire[: int(size, 16)]
        assert wire[int(size, 16) :][:2] == b"\r\n"
        wire = wire[int(size, 16) + 2 :]


FORGED: dict[str, dict[str, Any]] = {
    "line end in a value": {"headers": [(b"X-A", b"b\r\nX-Admin: 1")]},
    "line feed in a value": {"headers": [(b"X-A", b"b\nX-Admin: 1")]},
    "carriage return in a value": {"headers": [(b"X-A", b"b\rX")]},
    "NUL in a value": {"headers": [(b"X-A", b"b\x00")]},
    "control character in a value": {"headers": [(b"X-A", b"b\x1b[2J")]},
    "line end in a name": {"headers": [(b"X-A\r\nX-B", b"b")]},
    "colon in a name": {"headers": [(b"X-A: b", b"c")]},
    "space in a name": {"headers": [(b"X-A ", b"c")]},
    "no name": {"headers": [(b"", b"c")]},
    "line end in the target": {"extensions": {"target": b"/ HTTP/1.1\r\nX-A: b\r\n\r\nGET /"}},
    "space in the target": {"extensions": {"target": b"/a b"}},
    "NUL in the target": {"extensions": {"target": b"/a\x00"}},
    "line end in the method": {"method": "GET / HTTP/1.1\r\nX: y\r\n\r\nGET"},
    "no method": {"method": ""},
    "length too small": {"headers": {"Content-Length": "1"}, "content": b"abc"},
    "length too large": {"headers": {"Content-Length": "10"}, "content": b"abc"},
    "length no number": {"headers": {"Content-Length": "+3"}, "content": b"abc"},
    "length with too many digits": {"headers": {"Content-Length": "9" * 5000}, "content": b"abc"},
    "two lengths": {"headers": [("Content-Length", "3"), ("Content-Length", "30")], "content": b"abc"},
    "two hosts": {"headers": [("Host", "a"), ("Host", "b")]},
    "length and chunks": {"headers": {"Content-Length": "3", "Transfer-Encoding": "chunked"}, "content": b"abc"},
    "unknown coding": {"headers": {"Transfer-Encoding": "gzip"}, "content": b"abc"},
}


@both_loops
def test_ambiguous_or_smuggled_request_is_not_sent(new_loop: NewLoop) -> None:
    async def main() -> None:
        async with start_engine(respond_always(OK)) as engine, open_transport() as transport:
            for name, forged in FORGED.items():
                with pytest.raises(httpx2.LocalProtocolError) as refused:
                    request: dict[str, Any] = {"method": "POST", "url": engine.url, **forged}
                    await fetch(transport, httpx2.Request(**request))
                    pytest.fail(f"{name} was sent")
                assert "Admin" not in str(refused.value)
            assert engine.connections == []

    run(new_loop, main())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.binary(max_size=8), st.binary(max_size=12)), max_size=3))
def test_no_header_can_inject_another(fields: list[tuple[bytes, bytes]]) -> None:
    async def main() -> None:
        async with start_engine(respond_always(OK)) as engine, open_transport() as transport:
            try:
                await fetch(transport, httpx2.Request("POST", engine.url, headers=fields, stream=httpx2.ByteStream(b"")))
            except httpx2.LocalProtocolError:
                assert engine.requests == []
                return
            lines = engine.requests[0].split(b"\r\n")
            assert len(lines) == len(fields) + 5  # request line, Host, Content-Length, and two empty ones at the end
            assert re.fullmatch(rb"POST /v1/chat/completions HTTP/1\.1", lines[0])

    run(asyncio.new_event_loop, main())


@both_loops
@pytest.mark.parametrize("url", ["ftp://127.0.0.1/", "ws://127.0.0.1/", "unix:///tmp/x", "/v1/chat"])
def test_other_url_schemes_are_unsupported(new_loop: NewLoop, url: str) -> None:
    async def main() -> None:
        async with open_transport() as transport:
            with pytest.raises(httpx2.UnsupportedProtocol):
                await transport.handle_async_request(httpx2.Request("GET", url))

    run(new_loop, main())


@both_loops
@pytest.mark.parametrize("length", [None, 3, 300])
def test_request_body_failing_midway_fails_the_request_and_disconnects(new_loop: NewLoop, length: int | None) -> None:
    async def main() -> None:
        disconnected = asyncio.Event()

        async def script(connection: EngineConnection) -> None:
            await connection.read_head()
            assert await connection.sees_disconnect()
            disconnected.set()

        async with start_engine(script) as engine, open_transport() as transport:
            headers = {} if length is None else {"Content-Length": str(length)}
            fault = LookupError("the caller's own")
            with pytest.raises((LookupError, httpx2.LocalProtocolError)) as raised:
                await fetch(transport, httpx2.Request("POST", engine.url, headers=headers, stream=Pieces(b"he", b"llo", fault=fault)))
            assert raised.value is fault or length == 3
            await disconnected.wait()

    run(new_loop, main())


@both_loops
def test_request_body_shorter_than_its_content_length_is_an_error(new_loop: NewLoop) -> None:
    async def main() -> None:
        async with start_engine(respond_always(OK)) as engine, open_transport() as transport:
            with pytest.raises(httpx2.LocalProtocolError, match="has 3 bytes"):
                await fetch(transport, httpx2.Request("POST", engine.url, headers={"Content-Length": "5"}, stream=Pieces(b"abc")))
            assert await fetch(transport, post_request(engine.url)) == (200, b"ok")

    run(new_loop, main())


@both_loops
@pytest.mark.parametrize("body", [{"content": LARGE * 4}, {"stream": Pieces(*[LARGE] * 4)}], ids=["whole", "pieces"])
def test_response_before_the_request_is_fully_sent_is_returned(new_loop: NewLoop, body: dict[str, Any]) -> None:
    async def main() -> None:
        async def script(connection: EngineConnection) -> None:
            if await connection.read_head():
                await connection.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 9\r\n\r\n", b"too large")
                assert await connection.sees_disconnect()

        async with start_engine(script) as engine, open_transport() as transport:
            for _ in range(3):
                assert await fetch(transport, httpx2.Request("POST", engine.url, extensions={"timeout": {"first": 30}}, **body)) == (
                    413,
                    b"too large",
                )
            assert len(engine.connections) == 3
            assert transport.stats().idle == 0

    run(new_loop, main())


@both_loops
def test_response_may_begin_while_the_request_is_still_being_sent(new_loop: NewLoop) -> None:
    async def main() -> None:
        begun = asyncio.Event()

        class SlowStream(httpx2.AsyncByteStream):
            async def __aiter__(self) -> AsyncIterator[bytes]:
                yield b"hello"
                await begun.wait()
                yield b"12"

        async def script(connection: EngineConnection) -> None:
            while await connection.read_head():
                await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nearly")
                assert await connection.reader.readexactly(22) == b"5\r\nhello\r\n2\r\n12\r\n0\r\n\r\n"
                await connection.send(b"later")

        async with start_engine(script) as engine, open_transport() as transport:
            stream = response_stream(await transport.handle_async_request(httpx2.Request("POST", engine.url, stream=SlowStream())))
            assert await anext(stream) == b"early"
            begun.set()
            assert await stream.read_all(100) == b"later"
            assert transport.stats().idle == 1

    run(new_loop, main())


@both_loops
@pytest.mark.parametrize("ending", ["closed", "reset", "closed idle"])
def test_stale_connection_is_replaced_without_an_error(new_loop: NewLoop, ending: str) -> None:
    async def main() -> None:
        async def script(connection: EngineConnection) -> None:
            await connection.read_request()
            await connection.send(OK)
            if len(engine.connections) > 1:
                await connection.sees_disconnect()
            elif ending != "closed idle":
                await connection.read_request()  # and there is no response
                if ending == "reset":
                    connection.reset()

        async with start_engine(script) as engine, open_transport() as transport:
            assert await fetch(transport, post_request(engine.url, b"first")) == (200, b"ok")
            if ending == "closed idle":
                await wait_until(lambda: transport.stats().idle == 0)
            assert await fetch(transport, post_request(engine.url, b"second")) == (200, b"ok")
            assert [len(connection.requests) for connection in engine.connections] == ([1, 1] if ending == "closed idle" else [2, 1])

    run(new_loop, main())


@both_loops
def test_request_on_a_stale_connection_is_retried_only_once(new_loop: NewLoop) -> None:
    async def main() -> None:
        async def script(connection: EngineConnection) -> None:
            await connection.read_request()
            if len(engine.connections) == 1:
                await connection.send(OK)
                await connection.read_request()

        async with start_engine(script) as engine, open_transport() as transport:
            await fetch(transport, post_request(engine.url))
            with pytest.raises(httpx2.RemoteProtocolError, match="without a response"):
                await fetch(transport, post_request(engine.url))
            with pytest.raises(httpx2.RemoteProtocolError, match="without a response"):
                await fetch(transport, post_request(engine.url))
            assert [len(connection.requests) for connection in engine.connections] == [2, 1, 1]

    run(new_loop, main())


@both_loops
@pytest.mark.parametrize("why", ["response begun", "1xx seen", "late", "not HTTP"])
def test_request_the_engine_may_have_started_is_not_retried(new_loop: NewLoop, why: str) -> None:
    async def main() -> None:
        async def script(connection: EngineConnection) -> None:
            await connection.read_request()
            await connection.send(OK)
            await connection.read_request()
            match why:
                case "response begun":
                    await connection.send(b"H")
                case "1xx seen":
                    await connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
                case "late":
                    await asyncio.sleep(1.1)
                case _:
                    await connection.send(b"\x00")

        async with start_engine(script) as engine, open_transport() as transport:
            await fetch(transport, post_request(engine.url))
            with pytest.raises((httpx2.RemoteProtocolError, httpx2.ReadError)):
                await fetch(transport, post_request(engine.url))
            assert len(engine.requests) == 2

    run(new_loop, main())


@both_loops
def test_streamed_request_body_uses_a_fresh_connection(new_loop: NewLoop) -> None:
    async def main() -> None:
        async with start_engine(respond_always(OK)) as engine, open_transport(connections_per_origin=1) as transport:
            for _ in range(2):
                assert await fetch(transport, httpx2.Request("POST", engine.url, stream=Pieces(b"a", b"b"))) == (200, b"ok")
            assert len(engine.connections) == 2
            assert await fetch(transport, post_request(engine.url)) == (200, b"ok")
            assert len(engine.connections) == 2

    run(new_loop, main())
