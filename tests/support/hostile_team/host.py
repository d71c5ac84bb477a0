"""The host behind the hostile team's models. It reads no body, so that it costs little, and keeps the small ones."""

import asyncio
import contextlib
import json

from tests.support.scripted_engine import completion

_SMALL_BYTES = 10_000
_COMPLETION = json.dumps(completion()).encode()
_MESSAGE = json.dumps(
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "Hello."}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 2},
    }
).encode()


class HostileHost:
    """The host of a hostile team. If it is `silent`, it answers nothing.

    `streams` says that the answer is a stream of events, and `breaks_off` that it ends before its end.
    """

    def __init__(self) -> None:
        self.answer: tuple[int, bytes] | None = None  # the status and body for all requests, None for completions
        self.silent = self.streams = self.breaks_off = False
        self.delay_s = 0.0  # so long it waits, and does not count what it answered then, as a hedged request has two answers
        self.bodies: list[bytes] = []  # the small ones
        self.received = 0
        self.answered = 0
        self.port = 0

    async def start(self) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 20)
        self.port = server.sockets[0].getsockname()[1]

    def reset(self) -> None:
        self.answer, self.silent, self.streams, self.bodies, self.received, self.answered = None, False, False, [], 0, 0
        self.breaks_off, self.delay_s = False, 0.0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                left = length = int(head.partition("\r\ncontent-length: ")[2].partition("\r\n")[0] or 0)
                body = b""
                while left:
                    block = await reader.read(min(left, 1 << 20))
                    if not block:
                        return
                    left -= len(block)
                    if length <= _SMALL_BYTES:
                        body += block
                if head.startswith("get "):
                    await self._respond(writer, 404, b"{}")
                    continue
                if body == b"{}":  # the gateway asks whether there is an API at all, as every engine refuses it
                    await self._respond(writer, 422, b'{"error": {"message": "Field required: messages"}}')
                    continue
                self.received += 1
                if body:
                    self.bodies.append(body)
                if self.silent:
                    await reader.read()
                    return
                status, sent = self.answer or (200, _MESSAGE if "/messages" in head.partition("\r\n")[0] else _COMPLETION)
                await asyncio.sleep(self.delay_s)
                await self._respond(writer, status, sent)
                if self.breaks_off:
                    break
                self.answered += status == 200 and not self.delay_s
        writer.close()

    async def _respond(self, writer: asyncio.StreamWriter, status: int, body: bytes) -> None:
        content_type = b"text/event-stream" if self.streams else b"application/json"
        length = len(body) + self.breaks_off
        writer.write(b"HTTP/1.1 %d X\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (status, content_type, length) + body)
        await writer.drain()
