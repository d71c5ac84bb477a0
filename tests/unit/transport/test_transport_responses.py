"""Answers arrive whole however they are cut, and what is no whole answer is never a success."""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
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
    respond_in_order,
    response_stream,
    run,
    split_at,
    start_engine,
)

few_examples = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@dataclass(frozen=True)
class GeneratedResponse:
    """An answer and what it means."""

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
    answer = data.draw(generated_responses())
    cuts = data.draw(st.lists(st.integers(0, len(answer.wire)), max_size=12))

    async def main() -> None:
        async def play(visit: EngineConnection) -> None:
            while await visit.read_request():
                await visit.send(*split_at(answer.wire, cuts))
                if not answer.keeps_alive:
                    return

        async with start_engine(play) as served, open_transport() as via:
            for _ in range(2):
                response = await via.handle_async_request(post_request(served.url, first=2, read=2))
                assert response.status_code == answer.status
                assert response.headers.raw == answer.headers
                assert await response_stream(response).read_all(10_000) == answer.body
            assert len(served.connections) == (1 if answer.keeps_alive else 2)

    run(new_loop, main())


@both_loops
def test_response_sent_byte_by_byte_is_read(new_loop: NewLoop) -> None:
    head = b"HTTP/1.1 100 C\r\n\r\nHTTP/1.1 200 OK\r\nX-Empty:\r\nTransfer-Encoding: chunked\r\n\r\n"
    wire = head + b"5;x=y\r\nhello\r\n1\r\n!\r\n0\r\nT: r\r\n\r\n"

    async def main() -> None:
        async def play(visit: EngineConnection) -> None:
            while await visit.read_request():
                await visit.send(*(bytes([byte]) for byte in wire))

        async with start_engine(play) as served, open_transport() as via:
            assert [await fetch(via, post_request(served.url)) for _ in range(3)] == [(200, b"hello!")] * 3
            assert len(served.connections) == 1

    run(new_loop, main())


_LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nX-A: b\r\n\r\n0123456789"
_CHUNKS = b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nX-T: 1\r\n\r\n"


@both_loops
@pytest.mark.parametrize("ending", ["closed", "reset"])
@pytest.mark.parametrize("wire", [_LENGTH, _CHUNKS], ids=["length", "chunked"])
def test_response_truncated_at_any_byte_is_an_error(new_loop: NewLoop, wire: bytes, ending: str) -> None:
    async def main() -> None:
        async def play(visit: EngineConnection) -> None:
            await visit.read_request()
            await visit.send(wire[: len(served.connections) - 1])
            if ending == "reset":
                visit.reset()

        async with start_engine(play) as served, open_transport() as via:
            for _ in range(len(wire)):
                with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
                    await fetch(via, post_request(served.url, first=2, read=2))
            assert (await fetch(via, post_request(served.url, first=2, read=2)))[0] == 200
            assert via.stats().idle <= 1

    run(new_loop, main(), within_s=20)


@both_loops
def test_connection_reset_is_an_error_for_a_body_delimited_by_close(new_loop: NewLoop) -> None:
    async def main() -> None:
        async def play(visit: EngineConnection) -> None:
            await visit.read_request()
            await visit.send(b"HTTP/1.1 200 OK\r\n\r\nhalf")
            await asyncio.sleep(0.02)
            visit.reset()

        async with start_engine(play) as served, open_transport() as via:
            with pytest.raises(httpx.ReadError):
                await fetch(via, post_request(served.url))

    run(new_loop, main())


@both_loops
def test_data_before_a_protocol_error_is_delivered_first(new_loop: NewLoop) -> None:
    async def main() -> None:
        broken = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\nzzz\r\n"
        async with start_engine(respond_in_order(broken)) as served, open_transport() as via:
            stream = response_stream(await via.handle_async_request(post_request(served.url)))
            assert await anext(stream) == b"abcdef"
            for _ in range(2):
                with pytest.raises(httpx.RemoteProtocolError):
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
    "switching without saying to what": b"HTTP/1.1 101 Switching\r\n\r\n" + OK,
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
        async def play(visit: EngineConnection) -> None:
            await visit.read_request()
            await visit.send(wires[len(served.connections) - 1])
            assert await visit.sees_disconnect()

        async with start_engine(play) as served, open_transport() as via:
            for name in MALFORMED:
                began = time.monotonic()
                with pytest.raises(httpx.RemoteProtocolError):
                    await fetch(via, post_request(served.url, first=5, read=5))
                    pytest.fail(f"{name} passed for an answer")
                assert time.monotonic() - began < 1, name
            assert via.stats().idle == 0

    run(new_loop, main(), within_s=20)


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
        async def play(visit: EngineConnection) -> None:
            damaged = len(served.connections) == 1
            while request := await visit.read_request():
                await visit.send(bytes(wire) if damaged and b"damaged" in request else OK)
                if damaged:
                    return

        async with start_engine(play) as served, open_transport() as via:
            with suppress(httpx.TransportError):
                await fetch(via, post_request(served.url, b"damaged", first=1, read=1))
            assert await fetch(via, post_request(served.url, b"next", first=1, read=1)) == (200, b"ok")

    run(new_loop, main(), within_s=5)


ENDLESS = {
    "status line": (b"HTTP/1.1 200 ", b"O" * 1000),
    "one field's name": (b"HTTP/1.1 200 OK\r\n", b"a" * 1000),
    "one field's value": (b"HTTP/1.1 200 OK\r\nA: ", b"b" * 1000),
    "fields": (b"HTTP/1.1 200 OK\r\n", b"A: b\r\n"),
    "1xx answers": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "1xx answers with fields": (b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"),
    "chunk extension": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;a=", b"b" * 1000),
    "zeros before a chunk size": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0" * 1000),
    "trailers": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"A: b\r\n"),
    "one trailer": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: ", b"b" * 1000),
    "empty lines": (b"", b"\r\n" * 500),
}


@both_loops
@pytest.mark.parametrize("what", ENDLESS)
def test_endless_response_part_is_refused_within_a_size_limit(new_loop: NewLoop, what: str) -> None:
    async def main() -> None:
        start, more = ENDLESS[what]
        sent = 0

        async def play(visit: EngineConnection) -> None:
            nonlocal sent
            await visit.read_request()
            await visit.send(start)
            while True:
                sent += len(more)
                await visit.send(more)

        async with start_engine(play) as served, open_transport() as via:
            with pytest.raises(httpx.RemoteProtocolError):
                await fetch(via, post_request(served.url, first=9, read=9))
            await asyncio.sleep(0.01)
            assert sent < 1 << 20

    run(new_loop, main())


@both_loops
def test_each_block_is_delivered_when_it_arrives(new_loop: NewLoop) -> None:
    async def main() -> None:
        taken = asyncio.Event()
        blocks = [b"data: %d\n\n" % number for number in range(20)]

        async def play(visit: EngineConnection) -> None:
            await visit.read_request()
            await visit.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for block in blocks:
                await visit.send(b"%x\r\n%b\r\n" % (len(block), block))
                await taken.wait()  # nothing more comes until this one has been read
                taken.clear()
            await visit.send(b"0\r\n\r\n")

        got: list[bytes] = []
        async with start_engine(play) as served, open_transport() as via:
            stream = response_stream(await via.handle_async_request(post_request(served.url)))
            async for block in stream:
                got.append(block)
                taken.set()
            assert got == blocks
            with pytest.raises(StopAsyncIteration):
                await anext(stream)

    run(new_loop, main())


@both_loops
def test_blocks_that_arrive_together_are_joined(new_loop: NewLoop) -> None:
    async def main() -> None:
        wire = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n"
        async with start_engine(respond_in_order(wire)) as served, open_transport() as via:
            assert [block async for block in response_stream(await via.handle_async_request(post_request(served.url)))] == [b"abcd"]

    run(new_loop, main())


@both_loops
def test_response_over_the_size_limit_is_refused_and_disconnected(new_loop: NewLoop) -> None:
    async def main() -> None:
        async def play(visit: EngineConnection) -> None:
            await visit.read_request()
            await visit.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b"x" * 600)
            assert await visit.sees_disconnect()

        async with start_engine(play) as served, open_transport() as via:
            response = await via.handle_async_request(post_request(served.url))
            with pytest.raises(httpx.TransportError, match="longer than 500 bytes"):
                await response_stream(response).read_all(500)
            await asyncio.sleep(0.01)

    run(new_loop, main())


UNSAFE_TO_REUSE = {
    "said so": b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
    "said so among others": b"HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 2\r\n\r\nok",
    "old": b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "more than an answer": OK + b"x",
    "two answers": OK + OK,
}


@both_loops
@pytest.mark.parametrize("why", UNSAFE_TO_REUSE)
def test_connection_with_an_unsafe_response_is_not_reused(new_loop: NewLoop, why: str) -> None:
    async def main() -> None:
        async with start_engine(respond_always(UNSAFE_TO_REUSE[why])) as served, open_transport() as via:
            assert [await fetch(via, post_request(served.url)) for _ in range(3)] == [(200, b"ok")] * 3
            assert len(served.connections) == 3
            assert via.stats().idle == 0

    run(new_loop, main())


@both_loops
def test_unsolicited_bytes_are_never_delivered_as_a_response(new_loop: NewLoop) -> None:
    async def main() -> None:
        async def play(visit: EngineConnection) -> None:
            while await visit.read_request():
                await visit.send(OK)
                await asyncio.sleep(0.01)
                await visit.send(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison")

        async with start_engine(play) as served, open_transport() as via:
            for _ in range(3):
                assert await fetch(via, post_request(served.url)) == (200, b"ok")
                await asyncio.sleep(0.03)
            assert len(served.connections) == 3

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
        async with start_engine(respond_always(wire)) as served, open_transport() as via:
            for _ in range(3):
                assert (await fetch(via, httpx.Request(method, served.url, extensions={"timeout": {"read": 1}})))[1] == b""
            assert len(served.connections) == 1

    run(new_loop, main())
