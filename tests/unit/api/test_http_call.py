"""HttpCall: when it reads from the caller's connection, which is also what notices a disconnect."""

import asyncio
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl

from app.api.http_call import HttpCall


class ScriptedTransport:
    """`is_reading`: whether what the caller sends, and that it leaves, would be noticed."""

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

    def on_response_complete(self) -> None:
        pass


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
