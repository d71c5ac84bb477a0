"""The protocol at the Doors, on real connections, with a Door that answers whom it is told to."""

import asyncio
import tracemalloc
from collections.abc import AsyncGenerator

import pytest
import uvicorn
from uvicorn.server import ServerState

from app.api.http_call import HttpCall
from app.api.http_protocol import http_protocol_class
from app.api.inference_protocol import InferenceProtocol
from providers.transport.write_batcher import WriteBatcher

ASK = b"POST /ask HTTP/1.1\r\ncontent-length: 2\r\n\r\nhi"
IDLE_S = 0.3


async def _no_app(scope: object, receive: object, send: object) -> None:
    raise AssertionError("all that is asked here is for the Door")


class Doorway:
    """A server whose Door tells the body back, once `open` is set. `made`: the protocols of its connections."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.made: list[InferenceProtocol] = []
        self.most_waiting = 0
        self.port = 0

    async def answer(self, call: HttpCall) -> None:
        body = await call.read(1_000_000)
        if body == b"go":
            await call.begin_stream(200, b"", b"gone")
        await self.open.wait()
        self.most_waiting = max(self.most_waiting, *(len(each.pipeline) for each in self.made))
        await (call.end_stream(b"") if call.response_started else call.send_response(200, b"", body))

    def connected(self, config: uvicorn.Config, protocol: type[InferenceProtocol]) -> InferenceProtocol:
        self.made.append(protocol(config, ServerState(), {}))
        return self.made[-1]


@pytest.fixture
async def doorway() -> AsyncGenerator[Doorway]:
    made = Doorway()
    protocol = http_protocol_class(WriteBatcher(), 5, {"/ask": lambda call: made.answer(call)})
    assert issubclass(protocol, InferenceProtocol)
    config = uvicorn.Config(_no_app, ws="none", lifespan="off", log_config=None)
    config.load()
    config.timeout_keep_alive = IDLE_S  # pyright: ignore[reportAttributeAccessIssue]
    server = await asyncio.get_running_loop().create_server(lambda: made.connected(config, protocol), "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    yield made
    server.close()


async def told(reader: asyncio.StreamReader) -> bytes:
    """The body of an answer with a length of one digit."""
    async with asyncio.timeout(2):
        fields = await reader.readuntil(b"\r\n\r\n")
        return await reader.readexactly(int(fields.partition(b"content-length: ")[2][:1]))


async def test_a_request_that_has_begun_keeps_its_connection(doorway: Doorway):
    reader, writer = await asyncio.open_connection("127.0.0.1", doorway.port)
    for _ in range(2):
        writer.write(ASK[:20])
        await asyncio.sleep(IDLE_S * 0.7)
        writer.write(ASK[20:])
        assert await told(reader) == b"hi"
        await asyncio.sleep(IDLE_S * 0.6)
    async with asyncio.timeout(2):
        assert await reader.read() == b""  # and one that is idle does not
    writer.close()


async def test_however_many_requests_are_sent_at_once_few_are_held(doorway: Doorway):
    """What is read at once may hold thousands; while these wait, no more is read."""
    reader, writer = await asyncio.open_connection("127.0.0.1", doorway.port)
    count = 30_000
    writer.write(ASK * count)
    async with asyncio.timeout(20):
        for _ in range(count):
            await reader.readuntil(b"\r\n\r\nhi")
    assert doorway.most_waiting < 2 * 256 * 1024 / len(ASK)
    writer.close()


async def test_nothing_is_written_into_an_answer_when_what_follows_makes_no_sense(doorway: Doorway):
    doorway.open.clear()
    reader, writer = await asyncio.open_connection("127.0.0.1", doorway.port)
    writer.write(ASK.replace(b"hi", b"go"))
    await reader.readuntil(b"gone\r\n")
    writer.write(ASK + b"nonsense\r\n\r\n")
    async with asyncio.timeout(2):
        assert await reader.read() == b""
    writer.close()


async def test_a_body_in_many_small_pieces_takes_no_more_memory_than_in_one(doorway: Doorway):
    reader, writer = await asyncio.open_connection("127.0.0.1", doorway.port)
    sent = b"POST /ask HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n" + b"2\r\nxy\r\n" * 20_000
    tracemalloc.start()
    try:
        writer.write(sent)
        await asyncio.sleep(0.3)
        writer.write(b"0\r\n\r\n")
        async with asyncio.timeout(5):
            await reader.readuntil(b"xyxyxy")
        assert tracemalloc.get_traced_memory()[1] < 6 * len(sent)
    finally:
        tracemalloc.stop()
    writer.close()


async def test_who_was_not_told_to_send_the_body_is_not_waited_for(doorway: Doorway):
    """A refusal in its place ends the connection: what comes next might be the body, or another request."""

    async def refuse(call: HttpCall) -> None:
        await call.send_response(401, b"", b"no")

    doorway.answer = refuse
    reader, writer = await asyncio.open_connection("127.0.0.1", doorway.port)
    writer.write(b"POST /ask HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
    async with asyncio.timeout(2):
        assert b"connection: close" in await reader.read()
    writer.close()
