"""HttpCall: when it reads from the caller's connection, which is also what notices a disconnect, and how it writes."""

import asyncio
from typing import Any

import httptools
import pytest
from uvicorn.protocols.http.flow_control import FlowControl

from app.api.server.http_call import HttpCall
from providers.transport.loop_turns import PIECE_BYTES, LoopTurns
from providers.transport.write_batcher import WriteBatcher


class ScriptedTransport:
    """A transport whose `is_reading` tells whether what the caller sends, and that it leaves, would be noticed."""

    is_reading = True

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def close(self) -> None:
        pass


class Connection:
    def __init__(self) -> None:
        self.transport: Any = ScriptedTransport()
        self.flow = FlowControl(self.transport)
        self.loop = asyncio.get_running_loop()
        self.tasks: set[asyncio.Task[None]] = set()
        self.loop_turns = LoopTurns()
        self.write_timeout_s = 60.0
        self.loop_transport = self.transport
        self.write_batcher = WriteBatcher()

    def on_response_complete(self) -> None:
        pass

    def write_at_once(self, data: bytes) -> None:
        self.transport.write(data)


async def test_disconnect_can_be_noticed_after_a_large_body_that_nobody_read_while_it_came():
    connection, disconnected = Connection(), asyncio.Event()

    async def handle(call: HttpCall) -> None:
        assert len(await call.read(1_000_000)) == 200_000
        try:
            await asyncio.Event().wait()
        finally:
            disconnected.set()

    call = HttpCall(connection, handle, "POST", "/", [], None, http_1_0=False, keep_alive=True)
    call.on_head(expects_100=False, queued=False)
    call.receive_body(b"x" * 100_000)
    assert not connection.transport.is_reading, "until the caller is authenticated"
    call.receive_body(b"x" * 100_000)
    call.on_body_complete()
    assert connection.transport.is_reading
    await asyncio.sleep(0)
    call.on_disconnect()
    await asyncio.wait_for(disconnected.wait(), 60)


class WrittenTransport(ScriptedTransport):
    """Keeps what is written, at each turn of the event loop for itself."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)


class ReceivedBody:
    """The body of a response, as a parser reads it."""

    def __init__(self) -> None:
        self.blocks: list[bytes] = []
        self.is_complete = False

    def on_body(self, block: bytes) -> None:
        self.blocks.append(block)

    def on_message_complete(self) -> None:
        self.is_complete = True


@pytest.mark.parametrize("streams", [False, True])
async def test_large_response_is_written_in_pieces_until_the_caller_leaves(streams: bool):
    body = bytes(range(256)) * 4_000
    connection = Connection()
    connection.transport = transport = WrittenTransport()

    async def handle(call: HttpCall) -> None:
        if streams:
            await call.begin_stream(200, b"", body)
            await call.send(body)
            await call.end_stream(body)
        else:
            await call.send_response(200, b"", body)

    def start() -> HttpCall:
        call = HttpCall(connection, handle, "POST", "/", [], None, http_1_0=False, keep_alive=True)
        call.on_head(expects_100=False, queued=False)
        call.on_body_complete()
        return call

    call = start()
    while not call.response_complete:
        await asyncio.sleep(0)
    assert max(map(len, transport.written)) < PIECE_BYTES + 100
    received = ReceivedBody()
    httptools.HttpResponseParser(received).feed_data(b"".join(transport.written))
    assert received.is_complete and b"".join(received.blocks) == (body * 3 if streams else body)

    transport.written.clear()
    call = start()
    while len(transport.written) < 3:
        await asyncio.sleep(0)
    call.on_disconnect()
    for _ in range(20):
        await asyncio.sleep(0)
    assert sum(map(len, transport.written)) < 10 * PIECE_BYTES and not call.response_complete
