"""The HTTP protocol of inference routes on real connections, with a route that echoes request bodies."""

import asyncio
import contextlib
import gc
import itertools
import socket
import time
import tracemalloc
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, cast

import httpx2
import pytest
import uvicorn
from uvicorn.server import ServerState

from app.api.server.http_call import HttpCall
from app.api.server.http_protocol import RequestTimes, http_protocol_class
from app.api.server.inference_protocol import InferenceProtocol
from providers.canonical.errors import RequestTimedOut
from providers.transport.loop_turns import LoopTurns
from providers.transport.write_batcher import WriteBatcher
from tests.support.processes.wait_until import GENEROUS_S, wait_until

REQUEST = b"POST /echo HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\nhi"
IDLE_S = 1.0
HEAD_S = 2.0
BODY_S, BODY_MIN_BYTES_S = 4.0, 1_000


async def _unused_app(scope: object, receive: object, send: object) -> None:
    raise AssertionError("every request of these tests is for the inference route")


class EchoServer:
    """A server that echoes the body once `may_respond` is set. `protocols`: of its connections."""

    def __init__(self) -> None:
        self.may_respond = asyncio.Event()
        self.may_respond.set()
        self.protocols: list[InferenceProtocol] = []
        self.max_pipelined = 0
        self.port = 0
        self.answer: Callable[[HttpCall], Awaitable[None]] = self.echo

    async def echo(self, call: HttpCall) -> None:
        body = await call.read(1_000_000)
        if body == b"go":
            await call.begin_stream(200, b"", b"begun")
        await self.may_respond.wait()
        self.max_pipelined = max(self.max_pipelined, *(len(each.pipeline) for each in self.protocols))
        await (call.end_stream(b"") if call.response_started else call.send_response(200, b"", body))

    def make_protocol(self, config: uvicorn.Config, protocol: type[InferenceProtocol]) -> InferenceProtocol:
        self.protocols.append(protocol(config, ServerState(), {}))
        return self.protocols[-1]


@pytest.fixture
async def echo_server() -> AsyncGenerator[EchoServer]:
    echo = EchoServer()
    times = RequestTimes(pause_s=5, head_s=HEAD_S, body_s=BODY_S, body_min_bytes_s=BODY_MIN_BYTES_S)
    protocol = http_protocol_class(WriteBatcher(), LoopTurns(), times, {"/echo": lambda call: echo.answer(call)})
    assert issubclass(protocol, InferenceProtocol)
    config = uvicorn.Config(_unused_app, ws="none", lifespan="off", log_config=None)
    config.load()
    config.timeout_keep_alive = IDLE_S  # pyright: ignore[reportAttributeAccessIssue]
    server = await asyncio.get_running_loop().create_server(lambda: echo.make_protocol(config, protocol), "127.0.0.1", 0)
    echo.port = server.sockets[0].getsockname()[1]
    yield echo
    server.close()


async def read_response_body(reader: asyncio.StreamReader) -> bytes:
    """The body of a response whose length has one digit."""
    async with asyncio.timeout(GENEROUS_S):
        fields = await reader.readuntil(b"\r\n\r\n")
        return await reader.readexactly(int(fields.partition(b"content-length: ")[2][:1]))


async def test_response_reaches_a_caller_whose_input_ends_in_the_iteration_in_which_it_is_written(echo_server: EchoServer):
    async def answer(call: HttpCall) -> None:
        await call.send_response(200, b"", b"all of it")
        # As the event loop does when it reads the end of input; then it closes the transport that it knows.
        (protocol,) = echo_server.protocols
        if not protocol.eof_received():
            cast(Any, protocol.transport)._transport.close()

    echo_server.answer = answer
    reader, writer = await asyncio.open_connection("127.0.0.1", echo_server.port)
    writer.write(b"POST /echo HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\nhi")
    assert await read_response_body(reader) == b"all of it"
    writer.close()


async def test_idle_timeout_spares_a_connection_with_a_partial_request(echo_server: EchoServer):
    reader, writer = await asyncio.open_connection("127.0.0.1", echo_server.port)
    for _ in range(2):
        writer.write(REQUEST[:20])
        await asyncio.sleep(IDLE_S * 1.2)
        writer.write(REQUEST[20:])
        assert await read_response_body(reader) == b"hi"
        await asyncio.sleep(IDLE_S * 0.2)
    async with asyncio.timeout(GENEROUS_S):
        assert await reader.read() == b"", "an idle connection is closed"
    writer.close()


@pytest.mark.parametrize("before", [b"", REQUEST])
async def test_head_that_comes_byte_by_byte_is_cut_off(echo_server: EchoServer, before: bytes):
    reader, writer = await asyncio.open_connection("127.0.0.1", echo_server.port)
    closed = asyncio.create_task(reader.read())
    begun = time.monotonic()
    head = itertools.chain(REQUEST[:21], itertools.repeat(ord("x")))
    writer.write(before)
    while not closed.done():
        assert time.monotonic() - begun < GENEROUS_S, "it lives for ever"
        with contextlib.suppress(ConnectionError):
            writer.write(bytes([next(head)]))
        await asyncio.wait([closed], timeout=0.2)
    assert time.monotonic() - begun >= HEAD_S
    writer.close()


async def test_body_has_its_own_time_and_more_the_more_of_it_came(echo_server: EchoServer):
    reader, writer = await asyncio.open_connection("127.0.0.1", echo_server.port)
    writer.write(REQUEST[:-3])
    await asyncio.sleep(HEAD_S * 0.7)
    writer.write(REQUEST[-3:-1])
    await asyncio.sleep(HEAD_S * 0.7)
    writer.write(REQUEST[-1:])
    assert await read_response_body(reader) == b"hi"
    writer.close()

    reader, writer = await asyncio.open_connection("127.0.0.1", echo_server.port)
    writer.write(b"POST /echo HTTP/1.1\r\nhost: h\r\ncontent-length: 1501\r\n\r\n" + b"x" * 1_500)
    await asyncio.sleep(HEAD_S * 1.4)
    writer.write(b"x")
    async with asyncio.timeout(GENEROUS_S):
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
    writer.close()


@pytest.mark.parametrize(("pace_bytes", "longest_s"), [(1, HEAD_S), (500, BODY_S), (100_000, BODY_S)], ids=["byte", "slow", "fast"])
@pytest.mark.parametrize("before", [b"", REQUEST], ids=["first", "second"])
async def test_body_that_comes_too_slowly_is_a_408_and_closes_the_connection(
    echo_server: EchoServer, pace_bytes: int, longest_s: float, before: bytes
):
    """A body of any pace ends: with the slowest that is allowed it may take BODY_S."""

    async def answer(call: HttpCall) -> None:
        try:
            await call.send_response(200, b"", b"%d" % len(await call.read(10**9)))
        except RequestTimedOut as error:
            await call.send_response(error.status, b"", b"")

    echo_server.answer = answer
    reader, writer = await asyncio.open_connection("127.0.0.1", echo_server.port)
    received = asyncio.create_task(reader.read())
    writer.write(before + b"POST /echo HTTP/1.1\r\nhost: h\r\ncontent-length: 100000000\r\n\r\n")
    begun = time.monotonic()
    while not received.done():
        assert time.monotonic() - begun < GENEROUS_S, "it lives for ever"
        with contextlib.suppress(ConnectionError):
            writer.write(b"x" * pace_bytes)
        await asyncio.wait([received], timeout=0.2)
    assert time.monotonic() - begun >= longest_s
    with contextlib.suppress(ConnectionResetError):  # what was written after the end
        assert b"HTTP/1.1 408" in received.result()
    writer.close()


async def test_caller_is_known_and_may_be_refused_before_the_body_comes(echo_server: EchoServer):
    """The rest of the body is thrown away for a while, so that a caller who sends it first can read the answer."""

    async def refuse(call: HttpCall) -> None:
        await call.send_response(401, b"", b"no")

    echo_server.answer = refuse
    reader, writer = await asyncio.open_connection("127.0.0.1", echo_server.port)
    writer.write(b"POST /echo HTTP/1.1\r\nhost: h\r\ncontent-length: 3000000\r\n\r\n")
    assert await read_response_body(reader) == b"no"
    writer.write(b"x" * 3_000_000)
    echo_server.answer = echo_server.echo
    writer.write(REQUEST)
    assert await read_response_body(reader) == b"hi"
    writer.close()

    echo_server.answer = refuse
    reader, writer = await asyncio.open_connection("127.0.0.1", echo_server.port)
    writer.write(b"POST /echo HTTP/1.1\r\nhost: h\r\ncontent-length: 3000000\r\n\r\nx")
    async with asyncio.timeout(GENEROUS_S):
        assert (await reader.read()).startswith(b"HTTP/1.1 401"), "and then it is closed"
    writer.close()


async def test_slow_head_is_a_408(echo_server: EchoServer):
    reader, writer = await asyncio.open_connection("127.0.0.1", echo_server.port)
    writer.write(REQUEST[:20])
    async with asyncio.timeout(GENEROUS_S):
        assert (await reader.read()).startswith(b"HTTP/1.1 408")
    writer.close()


async def test_pipelined_requests_are_queued_within_a_bound(echo_server: EchoServer):
    """One read may contain thousands; while a few wait, the others are kept as they came."""
    reader, writer = await asyncio.open_connection("127.0.0.1", echo_server.port)
    count = 30_000
    writer.write(REQUEST * count)
    async with asyncio.timeout(120):
        for _ in range(count):
            await reader.readuntil(b"\r\n\r\nhi")
    assert 8 <= echo_server.max_pipelined < MANY_PIPELINED
    writer.close()


MANY_PIPELINED = 80
SMALLEST_REQUEST = b"GET /echo HTTP/1.1\r\nhost:\r\n\r\n"


@pytest.mark.parametrize("size_bytes", [1_400, 60_000, 250_000])
async def test_requests_of_one_read_wait_unparsed_until_there_is_room(echo_server: EchoServer, size_bytes: int):
    echo_server.may_respond.clear()
    count = size_bytes // len(SMALLEST_REQUEST)
    connections = [await asyncio.open_connection("127.0.0.1", echo_server.port) for _ in range(3)]
    for _, writer in connections:
        writer.write(SMALLEST_REQUEST * count)
    await wait_until(lambda: sum(len(each.pipeline) >= 8 for each in echo_server.protocols) == 3)
    for _ in range(50):
        await asyncio.sleep(0)
    assert all(len(each.pipeline) < MANY_PIPELINED for each in echo_server.protocols)
    echo_server.may_respond.set()
    for reader, writer in connections:
        async with asyncio.timeout(GENEROUS_S):
            for _ in range(count):
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            writer.write(REQUEST)
            assert await read_response_body(reader) == b"hi"
        writer.close()
    assert echo_server.max_pipelined < MANY_PIPELINED


async def test_body_of_many_lines_is_read_whole_and_in_order(echo_server: EchoServer):
    body = b"".join(b"%d\n" % at for at in range(8_000))
    reader, writer = await asyncio.open_connection("127.0.0.1", echo_server.port)
    writer.write(b"POST /echo HTTP/1.1\r\nhost: h\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body) + REQUEST)
    async with asyncio.timeout(GENEROUS_S):
        await reader.readuntil(b"\r\n\r\n")
        assert await reader.readexactly(len(body)) == body
        assert await read_response_body(reader) == b"hi"
    writer.close()


@pytest.mark.parametrize("size_bytes", [8 * 1024, 64 * 1024 - 1, 64 * 1024, 64 * 1024 + 1, 900_000])
async def test_requests_behind_a_body_of_a_declared_length_are_answered(echo_server: EchoServer, size_bytes: int):
    """The body is read in pieces as long as they may be, and what follows it in pieces of a few requests."""
    body = b'{"a":\n' * (size_bytes // 6) + b" " * (size_bytes % 6)
    reader, writer = await asyncio.open_connection("127.0.0.1", echo_server.port)
    writer.write(b"POST /echo HTTP/1.1\r\nhost: h\r\ncontent-length: %d\r\n\r\n" % len(body) + body + REQUEST * 3_000)
    async with asyncio.timeout(GENEROUS_S):
        await reader.readuntil(b"\r\n\r\n")
        assert await reader.readexactly(len(body)) == body
        assert [await read_response_body(reader) for _ in range(3_000)] == [b"hi"] * 3_000
    assert echo_server.max_pipelined < MANY_PIPELINED
    writer.close()


async def test_connection_with_requests_that_wait_unparsed_is_closed_when_it_ends(echo_server: EchoServer):
    echo_server.may_respond.clear()
    reader, writer = await asyncio.open_connection("127.0.0.1", echo_server.port)
    writer.write(SMALLEST_REQUEST * 2_000)
    writer.write_eof()
    await wait_until(lambda: bool(echo_server.protocols) and len(echo_server.protocols[0].pipeline) >= 8)
    echo_server.may_respond.set()
    async with asyncio.timeout(GENEROUS_S):
        assert (await reader.read()).count(b"HTTP/1.1 200") == 2_000
    writer.close()


@pytest.mark.parametrize("count", [3, 300, 1_300])
async def test_each_pipelined_upgrade_is_declined_and_answered(echo_server: EchoServer, count: int):
    reader, writer = await asyncio.open_connection("127.0.0.1", echo_server.port)
    writer.write(b"GET /echo HTTP/1.1\r\nhost:\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n" * count)
    async with asyncio.timeout(GENEROUS_S):
        for _ in range(count):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
    assert echo_server.max_pipelined < MANY_PIPELINED
    writer.close()


@pytest.mark.parametrize("lines_a_write", [16_000, 150, 7], ids=["at once", "in pieces", "few at a time"])
@pytest.mark.parametrize(
    ("path", "shape"), [("/echo", b'{"error":{'), ("/v1/messages", b'{"type":"error"')], ids=["OpenAI's shape", "Anthropic's shape"]
)
async def test_more_header_lines_than_anybody_sends_are_a_431(echo_server: EchoServer, lines_a_write: int, path: str, shape: bytes):
    reader, writer = await asyncio.open_connection("127.0.0.1", echo_server.port)
    writer.write(b"GET %b HTTP/1.1\r\n" % path.encode())
    for _ in range(0, 210, lines_a_write):
        writer.write(b"a:\r\n" * lines_a_write)
        await asyncio.sleep(0.001)  # so that most writes are read by themselves
    async with asyncio.timeout(GENEROUS_S):
        fields, _, body = (await reader.read()).partition(b"\r\n\r\n")
    assert fields.startswith(b"HTTP/1.1 431") and body.startswith(shape) and b"200 header lines" in body
    writer.close()


@pytest.mark.parametrize(("lines", "status"), [(199, b"200"), (200, b"431")])
async def test_two_hundred_header_lines_are_served(echo_server: EchoServer, lines: int, status: bytes):
    reader, writer = await asyncio.open_connection("127.0.0.1", echo_server.port)
    writer.write(b"GET /echo HTTP/1.1\r\nhost: a\r\n" + b"a:\r\n" * lines + b"\r\n")
    async with asyncio.timeout(GENEROUS_S):
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 " + status)
    writer.close()


async def test_invalid_pipelined_data_writes_nothing_into_a_running_response(echo_server: EchoServer):
    echo_server.may_respond.clear()
    reader, writer = await asyncio.open_connection("127.0.0.1", echo_server.port)
    writer.write(REQUEST.replace(b"hi", b"go"))
    await reader.readuntil(b"begun\r\n")
    writer.write(REQUEST + b"nonsense\r\n\r\n")
    await wait_until(lambda: echo_server.protocols[0].input_ended)
    echo_server.may_respond.set()
    async with asyncio.timeout(GENEROUS_S):
        assert await reader.readexactly(5) == b"0\r\n\r\n"
        assert await read_response_body(reader) == b"hi"
        assert (await reader.read()).startswith(b"HTTP/1.1 400")
    writer.close()


BAD_REQUESTS = {
    "head": b"nonsense\r\n\r\n",
    "body": b"POST /echo HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    "long head": b"x" * 200_000,
}


@pytest.mark.parametrize("bad", BAD_REQUESTS.values(), ids=BAD_REQUESTS)
@pytest.mark.parametrize("good", [1, 3])
async def test_good_requests_before_a_bad_one_are_answered_in_order(echo_server: EchoServer, bad: bytes, good: int):
    echo_server.may_respond.clear()
    reader, writer = await asyncio.open_connection("127.0.0.1", echo_server.port)
    writer.write(b"".join(REQUEST.replace(b"hi", b"%02d" % at) for at in range(good)) + bad)
    await wait_until(lambda: bool(echo_server.protocols) and echo_server.protocols[0].input_ended)
    echo_server.may_respond.set()
    assert [await read_response_body(reader) for _ in range(good)] == [b"%02d" % at for at in range(good)]
    async with asyncio.timeout(GENEROUS_S):
        rejected = await reader.read()
    assert rejected.startswith((b"HTTP/1.1 400", b"HTTP/1.1 431")) and b"connection: close" in rejected
    writer.close()


@pytest.mark.parametrize("bad", [BAD_REQUESTS["head"], BAD_REQUESTS["body"]], ids=["head", "body"])
async def test_bad_request_alone_is_rejected_at_once(echo_server: EchoServer, bad: bytes):
    echo_server.may_respond.clear()
    reader, writer = await asyncio.open_connection("127.0.0.1", echo_server.port)
    writer.write(bad)
    async with asyncio.timeout(GENEROUS_S):
        assert (await reader.read()).startswith(b"HTTP/1.1 400")
    writer.close()


async def test_flood_behind_a_bad_request_is_cut_off(echo_server: EchoServer):
    echo_server.may_respond.clear()
    _, writer = await asyncio.open_connection("127.0.0.1", echo_server.port)
    writer.write(REQUEST + b"nonsense\r\n\r\n")
    async with asyncio.timeout(GENEROUS_S):
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b"x" * 100_000)
                await writer.drain()
    assert not echo_server.protocols[0].tasks
    writer.close()


@pytest.mark.parametrize("incomplete", [b"", REQUEST[:-1], REQUEST[:20]], ids=["none", "body", "head"])
@pytest.mark.parametrize("count", [1, 3])
async def test_half_closed_caller_gets_its_answers(echo_server: EchoServer, count: int, incomplete: bytes):
    echo_server.may_respond.clear()
    reader, writer = await asyncio.open_connection("127.0.0.1", echo_server.port)
    writer.write(REQUEST * count + incomplete)
    writer.write_eof()
    async with asyncio.timeout(GENEROUS_S):
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await asyncio.sleep(0.2)  # longer than it takes to notice one who has gone
        echo_server.may_respond.set()
        assert [await read_response_body(reader) for _ in range(count)] == [b"hi"] * count
        assert await reader.read() == b"", "the connection ends with the last answer"
    writer.close()


async def test_stream_to_a_half_closed_caller_goes_on(echo_server: EchoServer):
    echo_server.may_respond.clear()

    async def stream(call: HttpCall) -> None:
        await call.read(1_000_000)
        await call.begin_stream(200, b"", b"begun")
        await echo_server.may_respond.wait()
        await call.send(b"more")
        await call.end_stream(b"last")

    echo_server.answer = stream
    async with httpx2.AsyncClient() as client, client.stream("POST", f"http://127.0.0.1:{echo_server.port}/echo", content=b"hi") as answer:
        blocks = answer.aiter_raw()
        assert await anext(blocks) == b"begun"
        answer.extensions["network_stream"].get_extra_info("socket").shutdown(socket.SHUT_WR)
        await wait_until(lambda: echo_server.protocols[0].input_ended)
        await asyncio.sleep(0.2)
        echo_server.may_respond.set()
        assert b"".join([block async for block in blocks]) == b"morelast"


@pytest.mark.parametrize("begun", [False, True], ids=["before the response", "within a silent stream"])
async def test_caller_who_has_gone_is_noticed_without_an_answer(echo_server: EchoServer, begun: bool):
    cancelled = asyncio.Event()

    async def wait_for_ever(call: HttpCall) -> None:
        await call.read(1_000_000)
        if begun:
            await call.begin_stream(200, b"", b"begun")
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    echo_server.answer = wait_for_ever
    reader, writer = await asyncio.open_connection("127.0.0.1", echo_server.port)
    writer.write(REQUEST)
    if begun:
        await reader.readuntil(b"begun\r\n")
    await wait_until(lambda: bool(echo_server.protocols) and bool(echo_server.protocols[0].tasks))
    writer.close()
    async with asyncio.timeout(GENEROUS_S):
        await cancelled.wait()


async def test_body_in_tiny_chunks_uses_bounded_memory(echo_server: EchoServer):
    reader, writer = await asyncio.open_connection("127.0.0.1", echo_server.port)
    sent = b"POST /echo HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n" + b"2\r\nxy\r\n" * 20_000
    tracemalloc.start()
    try:
        writer.write(sent)
        await asyncio.sleep(0.3)
        writer.write(b"0\r\n\r\n")
        async with asyncio.timeout(GENEROUS_S):
            await reader.readuntil(b"xyxyxy")
        assert tracemalloc.get_traced_memory()[1] < 6 * len(sent)
    finally:
        tracemalloc.stop()
    writer.close()


async def test_large_reads_are_parsed_in_turns_and_what_follows_is_answered(echo_server: EchoServer):
    """Each byte of the body is a chunk, so 256 KB that were read at once take the parser 30 ms."""
    echo_server.may_respond.clear()
    body = b"x" * 300_000
    reader, writer = await asyncio.open_connection("127.0.0.1", echo_server.port, limit=1_000_000)
    head = b"POST /echo HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n"
    writer.write(head + b"1\r\nx\r\n" * len(body) + b"0\r\n\r\n" + REQUEST)
    turns = 0
    async with asyncio.timeout(GENEROUS_S):
        while not echo_server.protocols or not echo_server.protocols[0].pipeline:
            await asyncio.sleep(0)
            turns += 1
        assert turns > 25  # 18 if each read is parsed at once
        assert vars(echo_server.protocols[0])["_read_timer"] is None  # it would end the connection during a long response
        echo_server.may_respond.set()
        assert await reader.readuntil(body) and await read_response_body(reader) == b"hi"
    writer.close()


async def test_refusal_without_100_continue_closes_the_connection(echo_server: EchoServer):
    """The bytes that follow the refusal might be the body, or another request."""

    async def refuse(call: HttpCall) -> None:
        await call.send_response(401, b"", b"no")

    echo_server.answer = refuse
    reader, writer = await asyncio.open_connection("127.0.0.1", echo_server.port)
    writer.write(b"POST /echo HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
    async with asyncio.timeout(GENEROUS_S):
        assert b"connection: close" in await reader.read()
    writer.close()


@pytest.mark.parametrize("stage", ["uploading", "waiting for the response", "pipelined", "refused"])
async def test_bytes_of_a_disconnected_caller_are_freed_without_a_garbage_collection(echo_server: EchoServer, stage: str):
    """Connection, call and task refer to each other, so what they hold would stay until the collector runs."""
    size_bytes, ended = 5_000_000, asyncio.Event()
    received = asyncio.Event()

    async def answer(call: HttpCall) -> None:
        try:
            if stage == "refused":
                await call.send_response(401, b"", b"no")
                received.set()
                return
            body = await call.read(2 * size_bytes, lambda read_bytes: received.set() if read_bytes > size_bytes // 2 else None)
            received.set()
            assert body
            await asyncio.Event().wait()
        finally:
            ended.set()

    echo_server.answer = answer
    _, writer = await asyncio.open_connection("127.0.0.1", echo_server.port)
    declared_bytes = size_bytes if stage == "waiting for the response" else size_bytes + 1
    head = b"POST /echo HTTP/1.1\r\nhost: h\r\ncontent-length: %d\r\n\r\n"
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        if stage == "pipelined":
            writer.write(head % 2 + b"hi" + head % 60_000 + b"x" * 60_000)
        else:
            writer.write(head % declared_bytes)
            for _ in range(size_bytes // 50_000):
                writer.write(b"x" * 50_000)
                await asyncio.sleep(0)
        async with asyncio.timeout(GENEROUS_S):
            await received.wait()
            writer.transport.abort()
            await ended.wait()
            (protocol,) = echo_server.protocols
            await wait_until(lambda: protocol.transport.is_closing())
        del writer
        allowed_bytes = 50_000 + (0 if stage == "pipelined" else 200_000)
        # The caller's own transport, in this process too, may hold what it had not sent for some iterations more.
        await wait_until(lambda: tracemalloc.get_traced_memory()[0] < allowed_bytes)
    finally:
        tracemalloc.stop()
        gc.enable()
