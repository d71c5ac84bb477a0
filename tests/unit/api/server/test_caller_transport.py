"""CallerTransport: its writes keep their order, whichever of them waits for the end of the event loop's iteration."""

import asyncio
from typing import Any

from app.api.server.http_protocol import CallerTransport
from providers.transport.loop_turns import LoopTurns
from providers.transport.write_batcher import WriteBatcher
from tests.unit.api.test_http_call import WrittenTransport


class Transport(WrittenTransport):
    def is_closing(self) -> bool:
        return False


async def test_write_at_once_goes_past_the_iteration_and_never_past_an_earlier_write():
    transport: Any = Transport()
    caller = CallerTransport(transport, WriteBatcher(), LoopTurns())
    caller.write_at_once(b"1")
    assert transport.written == [b"1"]
    caller.write(b"2")
    caller.write_at_once(b"3")
    assert transport.written == [b"1"]
    await asyncio.sleep(0)
    caller.write_at_once(b"4")
    assert transport.written == [b"1", b"23", b"4"]
