"""Responses: they arrive complete however they are cut into blocks, and an incomplete one is never a success."""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from providers.transport.response_stream import MAX_BLOCK_BYTES
from tests.support.raw_engine import (
    OK,
    EngineConnection,
    NewLoop,
    both_loops,
    fetch,
    open_transport,
    post_request,
    respond_always,
    respond_in_order,
    response_stream,
    run,
    split_at,
    start_engine,
    wait_until,
)

few_examples = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@dataclass(frozen=True)
class GeneratedResponse:
    """The bytes of a response, and what they mean."""

    wire: bytes
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    keeps_alive: bool


names = st.from_regex(rb"[Xx]-[A-Za-z0-9!#$%&'*+.^_`|~-]{1,12}", fullmatch=True)
values = st.binary(max_size=20).map(lambda raw: bytes(byte for byte in raw if byte >= 32 and byte != 127).strip())
fields = st.lists(st.tuples(names, values), max_size=6)
extensions = st.sampled_from([b"", b";a=1", b';name="va lue"', b";a;b=c"])


@st.composite
def generated_responses(draw: st.DrawFn) -> GeneratedResponse:
    status = draw(st.sampled_from([200, 200, 201, 204, 304, 400, 429, 500, 503, 599]))
    headers = draw(fields)
    before = b"".join(
        b"HTTP/1.1 %d Wait\r\nLink: </x>\r\n\r\n" % early for early in draw(st.lists(st.sampled_from([100, 102, 103]), max_size=3))
    )
    reason = draw(st.sampled_from([b" OK", b" Not Quite So", b" ", b""]))
    blocks = [] if status in (204, 304) else draw(st.lists(st.binary(min_size=1, max_size=60), max_size=5))
    framing = (
        "none" if status in (204, 304) else draw(st.sampled_from(["length", "chunked", "eof", "eof 1.0", "length 1.0", "length close"]))
    )
    version = b"1.0" if framing.endswith("1.0") else b"1.1"
    match framing.split()[0]:
        case "length":
            headers = [*headers, (b"Content-Length", b"%d" % sum(map(len, blocks)))]
            wire = b"".join(blocks)
        case "chunked":
            headers = [*headers, (b"transfer-encoding", b"Chunked")]
            chunks = [b"%x%b\r\n%b\r\n" % (len(block), draw(extensions), block) for block in blocks]
            trailers = b"".join(b"%b: %b\r\n" % field for field in draw(fields))
            wire = b"".join(chunks) + b"0" + draw(extensions) + b"\r\n" + trailers + b"\r\n"
        case _:
            wire = b"".join(blocks)
    if framing.endswith("close"):
        headers = [*headers, (b"Connection", b"close")]
    head = b"HTTP/%b %d%b\r\n%b\r\n" % (version, status, reason, b"".join(b"%b: %b\r\n" % field for field in headers))
    return GeneratedResponse(before + head + wire, status, headers, b"".join(blocks), framing in ("none", "length", "chunked"))


@both_loops
@few_examples
@given(st.data())
def test_response_is_the_same_for_every_split_of_its_bytes(new_loop: NewLoop, data: st.DataObject) -> None:
    generated = data.draw(generated_responses())
    cuts = data.draw(st.lists(st.integers(0, len(generated.wire)), max_size=12))

    async def main() -> None:
        async def script(connection: EngineConnection) -> None:
            while await connection.read_request():
                await connection.send(*split_at(generated.wire, cuts))
                if not generated.keeps_alive:
                    return

        async with start_engine(script) as engine, open_transport() as transport:
            for _ in range(2):
                response = await transport.handle_async_request(post_request(engine.url, first=30, read=30))
                assert response.status_code == generated.status
                assert response.headers.raw == generated.headers
                assert await response_stream(response).read_all(10_000) == generated.body
            assert len(engine.connections) == (1 if generated.keeps_alive else 2)

    run(new_loop, main())


@both_loops
def test_response_sent_byte_by_byte_is_read(new_loop: NewLoop) -> None:
    head = b"HTTP/1.1 100 C\r\n\r\nHTTP/1.1 200 OK\r\nX-Empty:\r\nTransfer-Encoding: chunked\r\n\r\n"
    wire = head + b"5;x=y\r\nhello\r\n1\r\n!\r\n0\r\nT: r\r\n\r\n"

    async def main() -> None:
        async def script(connection: EngineConnection) -> None:
            while await connection.read_request():
                await connection.send(*(bytes([byte]) for byte in wire))

        async with start_engine(script) as engine, open_transport() as transport:
            assert [await fetch(transport, post_request(engine.url)) for _ in range(3)] == [(200, b"hello!")] * 3
            assert len(engine.connections) == 1

    run(new_loop, main())


_LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nX-A: b\r\n\r\n0123456789"
_CHUNKS = b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nX-T: 1\r\n\r\n"


@both_loops
@pytest.mark.parametrize("ending", ["closed", "reset"])
@pytest.mark.parametrize("wire", [_LENGTH, _CHUNKS], ids=["length", "chunked"])
def test_response_truncated_at_any_byte_is_an_error(new_loop: NewLoop, wire: bytes, ending: str) -> None:
    async def main() -> None:
        async def script(connection: EngineConnection) -> None:
            await connection.read_request()
            await connection.send(wire[: len(engine.connections) - 1])
            if ending == "reset":
                connection.reset()

        async with start_engine(script) as engine, open_transport() as transport:
            for _ in range(len(wire)):
                with pytest.raises((httpx2.RemoteProtocolError, httpx2.ReadError)):
                    await fetch(transport, post_request(engine.url, first=30, read=30))
            assert (await fetch(transport, post_request(engine.url, first=30, read=30)))[0] == 200
            assert transport.stats().idle <= 1

    run(new_loop, main())


@both_loops
def test_connection_reset_is_an_error_for_a_body_delimited_by_close(new_loop: NewLoop) -> None:
    async def main() -> None:
        async def script(connection: EngineConnection) -> None:
            await connection.read_request()
            await connection.send(b"HTTP/1.1 200 OK\r\n\r\nhalf")
            await asyncio.sleep(0.02)
            connection.reset()

        async with start_engine(script) as engine, open_transport() as transport:
            with pytest.raises(httpx2.ReadError):
                await fetch(transport, post_request(engine.url))

    run(new_loop, main())


@both_loops
def test_data_before_a_protocol_error_is_delivered_first(new_loop: NewLoop) -> None:
    async def main() -> None:
        broken = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\nzzz\r\n"
        async with start_engine(respond_in_order(broken)) as engine, open_transport() as transport:
            stream = response_stream(await transport.handle_async_request(post_request(engine.url)))
            assert await anext(stream) == b"abcdef"
            for _ in range(2):
                with pytest.raises(httpx2.RemoteProtocolError):
                    await anext(stream)

    run(new_loop, main())


MALFORMED = {
    "garbage": b"\x00\x01\x02garbage\r\n\r\n",
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n",
    "a request": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS": bytes.fromhex("15030300020228"),
    "HTTP/2": b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    "HTTP/0.9": b"HTTP/0.9 200 OK\r\nContent-Length: 0\r\n\r\n",
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "status 20": b"HTTP/1.1 20 OK\r\n\r\n",
    "status 099": b"HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n",
    "switching protocols": b"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
    "switching protocols without Upgrade": b"HTTP/1.1 101 Switching\r\n\r\n" + OK,
    "bare line feeds": b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    "space before the colon": b"HTTP/1.1 200 OK\r\nA : b\r\nContent-Length: 0\r\n\r\n",
    "no colon": b"HTTP/1.1 200 OK\r\nAbc\r\nContent-Length: 0\r\n\r\n",
    "NUL in a field": b"HTTP/1.1 200 OK\r\nA: b\x00c\r\nContent-Length: 0\r\n\r\n",
    "folded field": b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n",
    "negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "length list": b"HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\na",
    "endless length": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n",
    "length and chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "unknown coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc",
    "coding under chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "coding above chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "chunked twice": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunk size no number": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    "chunk size negative": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
    "chunk size endless": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFFF\r\n",
    "chunk too long": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
    "200 fields and more": b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 201 + b"Content-Length: 0\r\n\r\n",
    "64 KiB of fields and more": b"HTTP/1.1 200 OK\r\nA: " + b"b" * 70_000 + b"\r\nContent-Length: 0\r\n\r\n",
    "200 trailers and more": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"A: b\r\n" * 201 + b"\r\n",
}


@both_loops
def test_malformed_response_fails_at_once_and_closes_the_connection(new_loop: NewLoop) -> None:
    wires = [*MALFORMED.values()]

    async def main() -> None:
        async def script(connection: EngineConnection) -> None:
            await connection.read_request()
            await connection.send(wires[len(engine.connections) - 1])
            assert await connection.sees_disconnect()

        async with start_engine(script) as engine, open_transport() as transport:
            for name in MALFORMED:
                began = time.monotonic()
                with pytest.raises(httpx2.RemoteProtocolError):
                    await fetch(transport, post_request(engine.url, first=60, read=60))
                    pytest.fail(f"{name} passed as a response")
                assert time.monotonic() - began < 20, name
            assert transport.stats().idle == 0

    run(new_loop, main())


@both_loops
@few_examples
@given(st.data())
def test_damaged_response_never_hangs_and_never_corrupts_the_next(new_loop: NewLoop, data: st.DataObject) -> None:
    wire = bytearray(data.draw(generated_responses()).wire)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(wire)))
        wire[at : at + data.draw(st.integers(0, 3))] = data.draw(
            st.binary(max_size=3) | st.sampled_from([b"\r\n", b"\r", b"\n", b":", b" "])
        )

    async def main() -> None:
        async def script(connection: EngineConnection) -> None:
            damaged = len(engine.connections) == 1
            while request := await connection.read_request():
                await connection.send(bytes(wire) if damaged and b"damaged" in request else OK)
                if damaged:
                    return

        async with start_engine(script) as engine, open_transport() as transport:
            with suppress(httpx2.TransportError):
                await fetch(transport, post_request(engine.url, b"damaged", first=30, read=30))
            assert await fetch(transport, post_request(engine.url, b"next", first=30, read=30)) == (200, b"ok")

    run(new_loop, main())


ENDLESS = {
    "status line": (b"HTTP/1.1 200 ", b"O" * 1000),
    "one field's name": (b"HTTP/1.1 200 OK\r\n", b"a" * 1000),
    "one field's value": (b"HTTP/1.1 200 OK\r\nA: ", b"b" * 1000),
    "fields": (b"HTTP/1.1 200 OK\r\n", b"A: b\r\n"),
    "1xx responses": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "1xx responses with fields": (b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"),
    "chunk extension": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;a=", b"b" * 1000),
    "zeros before a chunk size": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0" * 1000),
    "trailers": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"A: b\r\n"),
    "one trailer": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: ", b"b" * 1000),
    "empty lines": (b"", b"\r\n" * 500),
}


@both_loops
@pytest.mark.parametrize("part", ENDLESS)
def test_endless_response_part_is_refused_within_a_size_limit(new_loop: NewLoop, part: str) -> None:
    async def main() -> None:
        start, more = ENDLESS[part]
        sent = 0

        async def script(connection: EngineConnection) -> None:
            nonlocal sent
            await connection.read_request()
            await connection.send(start)
            while True:
                sent += len(more)
                await connection.send(more)

        async with start_engine(script) as engine, open_transport() as transport:
            with pytest.raises(httpx2.RemoteProtocolError):
                await fetch(transport, post_request(engine.url, first=30, read=30))
            await asyncio.sleep(0.01)
            assert sent < 1 << 20

    run(new_loop, main())


@both_loops
def test_each_block_is_delivered_when_it_arrives(new_loop: NewLoop) -> None:
    async def main() -> None:
        taken = asyncio.Event()
        blocks = [b"data: %d\n\n" % number for number in range(20)]

        async def script(connection: EngineConnection) -> None:
            await connection.read_request()
            await connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for block in blocks:
                await connection.send(b"%x\r\n%b\r\n" % (len(block), block))
                await taken.wait()  # the next block is sent once this one has been read
                taken.clear()
            await connection.send(b"0\r\n\r\n")

        received: list[bytes] = []
        async with start_engine(script) as engine, open_transport() as transport:
            stream = response_stream(await transport.handle_async_request(post_request(engine.url)))
            async for block in stream:
                received.append(block)
                taken.set()
            assert received == blocks
            with pytest.raises(StopAsyncIteration):
                await anext(stream)

    run(new_loop, main())


@both_loops
def test_blocks_that_arrive_together_are_joined(new_loop: NewLoop) -> None:
    async def main() -> None:
        wire = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n"
        async with start_engine(respond_in_order(wire)) as engine, open_transport() as transport:
            assert [block async for block in response_stream(await transport.handle_async_request(post_request(engine.url)))] == [b"abcd"]

    run(new_loop, main())


@both_loops
def test_large_response_is_given_in_small_blocks_between_which_others_run(new_loop: NewLoop) -> None:
    body = bytes(range(256)) * 4_000

    async def main() -> None:
        others = 0

        async def count() -> None:
            nonlocal others
            while True:
                await asyncio.sleep(0)
                others += 1

        wire = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body
        async with start_engine(respond_always(wire)) as engine, open_transport() as client:
            response = await client.handle_async_request(post_request(engine.url))
            counting = asyncio.create_task(count())
            blocks: list[bytes] = []
            seen: list[int] = []
            async for block in response_stream(response):
                blocks.append(block)
                seen.append(others)
            counting.cancel()
            assert b"".join(blocks) == body
            assert max(map(len, blocks)) <= MAX_BLOCK_BYTES
            assert len(set(seen)) > len(seen) // 2
            # Whoever wants all of it gets it without these turns.
            assert await fetch(client, post_request(engine.url)) == (200, body)

    run(new_loop, main())


@both_loops
def test_response_over_the_size_limit_is_refused_and_disconnected(new_loop: NewLoop) -> None:
    async def main() -> None:
        async def script(connection: EngineConnection) -> None:
            await connection.read_request()
            await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b"x" * 600)
            assert await connection.sees_disconnect()

        async with start_engine(script) as engine, open_transport() as transport:
            response = await transport.handle_async_request(post_request(engine.url))
            with pytest.raises(httpx2.TransportError, match="longer than 500 bytes"):
                await response_stream(response).read_all(500)
            await asyncio.sleep(0.01)

    run(new_loop, main())


UNSAFE_TO_REUSE = {
    "connection close": b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
    "connection close among others": b"HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "more than a response": OK + b"x",
    "two responses": OK + OK,
}


@both_loops
@pytest.mark.parametrize("why", UNSAFE_TO_REUSE)
def test_connection_with_an_unsafe_response_is_not_reused(new_loop: NewLoop, why: str) -> None:
    async def main() -> None:
        async with start_engine(respond_always(UNSAFE_TO_REUSE[why])) as engine, open_transport() as transport:
            assert [await fetch(transport, post_request(engine.url)) for _ in range(3)] == [(200, b"ok")] * 3
            assert len(engine.connections) == 3
            assert transport.stats().idle == 0

    run(new_loop, main())


@both_loops
def test_unsolicited_bytes_are_never_delivered_as_a_response(new_loop: NewLoop) -> None:
    async def main() -> None:
        async def script(connection: EngineConnection) -> None:
            while await connection.read_request():
                await connection.send(OK)
                await asyncio.sleep(0.01)
                await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison")

        async with start_engine(script) as engine, open_transport() as transport:
            for _ in range(3):
                assert await fetch(transport, post_request(engine.url)) == (200, b"ok")
                await wait_until(lambda: transport.stats().idle == 0)
            assert len(engine.connections) == 3

    run(new_loop, main())


@both_loops
@pytest.mark.parametrize(
    ("method", "wire"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"),
        ("HEAD", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 1000\r\n\r\n"),
    ],
)
def test_response_without_a_body_leaves_the_connection_reusable(new_loop: NewLoop, method: str, wire: bytes) -> None:
    async def main() -> None:
        async with start_engine(respond_always(wire)) as engine, open_transport() as transport:
            for _ in range(3):
                assert (await fetch(transport, httpx2.Request(method, engine.url, extensions={"timeout": {"read": 30}})))[1] == b""
            assert len(engine.connections) == 1

    run(new_loop, main())
