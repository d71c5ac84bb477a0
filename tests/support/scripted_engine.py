"""A scripted engine: a real HTTP server whose responses a test writes."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, cast


@dataclass
class ReceivedRequest:
    """One received request, and the means to respond to it. `disconnected` is set when the gateway closes the connection."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    raw: bytes
    writer: asyncio.StreamWriter
    disconnected: asyncio.Event = field(default_factory=asyncio.Event)

    def write(self, data: bytes) -> None:
        self.writer.write(data)

    async def respond(self, status: int, body: bytes, headers: str = "content-type: application/json\r\n") -> None:
        self.write(f"HTTP/1.1 {status} X\r\n{headers}content-length: {len(body)}\r\n\r\n".encode() + body)
        await self.writer.drain()

    async def respond_completion(self, content: str = "Hello.", **message: Any) -> None:
        await self.respond(200, json.dumps(completion(content, **message)).encode())

    def begin_stream(self, content_type: str = "text/event-stream") -> None:
        self.write(f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n".encode())

    def send_chunk(self, data: bytes) -> None:
        self.write(b"%x\r\n%s\r\n" % (len(data), data))

    def send_event(self, body: Any) -> None:
        self.send_chunk(b"data: " + (body if isinstance(body, bytes) else json.dumps(body).encode()) + b"\n\n")

    def end_stream(self) -> None:
        self.write(b"0\r\n\r\n")

    def reset_connection(self) -> None:
        """Aborts the connection, as a killed engine does."""
        self.writer.transport.abort()


_CHAT_PATHS = ("/chat/completions", "/generate", "/api/chat")

Script = Callable[[ReceivedRequest], Awaitable[None]]


class ScriptedEngine:
    """An engine whose `script` responds to each request; `requests` are those received since the test began.

    GET requests, which probe what an engine is, are apart: `get_responses` has a JSON value, bytes or a script for each path, any other
    path is 404, and `get_requests` are those received. Empty requests are refused, as every engine does, and are apart, too.
    """

    def __init__(self) -> None:
        self.requests: list[ReceivedRequest] = []
        self.get_responses: dict[str, Any] = {}
        self.get_requests: list[ReceivedRequest] = []
        self.script: Script = ReceivedRequest.respond_completion
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def start(self) -> None:
        """Starts the server; after stop(), it starts again at the same address."""
        self._server = await asyncio.start_server(self._handle_connection, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self._abort_connections()
        await asyncio.sleep(0.05)
        self._abort_connections()  # what was accepted a moment before, and not handled yet

    def _abort_connections(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _handle_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
                raw = await reader.readexactly(int(headers.get("content-length", 0)))
                request = ReceivedRequest(head[0].split(" ")[1], headers, json.loads(raw) if raw[:1] in (b"{", b"[") else {}, raw, writer)
                if head[0].startswith("GET "):
                    self.get_requests.append(request)
                    await self._respond_to_get(request)
                    continue
                if raw == b"{}" and request.path.endswith(_CHAT_PATHS):  # The gateway asks whether there is an API at all.
                    await request.respond(422, b'{"error": {"message": "Field required: messages"}}')
                    continue
                self.requests.append(request)
                watching = asyncio.create_task(self._watch_disconnect(reader, request))
                await self.script(request)
                watching.cancel()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _respond_to_get(self, request: ReceivedRequest) -> None:
        response = self.get_responses.get(request.path)
        if callable(response):
            return await cast("Script", response)(request)
        body = response if isinstance(response, bytes) else json.dumps({"detail": "Not Found"} if response is None else response).encode()
        await request.respond(404 if response is None else 200, body)

    async def _watch_disconnect(self, reader: asyncio.StreamReader, request: ReceivedRequest) -> None:
        while not reader.at_eof() and reader.exception() is None:
            await asyncio.sleep(0.005)
        request.disconnected.set()


def completion(content: str | None = "Hello.", **message: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-engine",
        "object": "chat.completion",
        "created": 1750000000,
        "model": "engine-model",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content, **message},
                "finish_reason": "tool_calls" if "tool_calls" in message else "stop",
                "logprobs": None,
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    }


def chunk(delta: dict[str, Any] | None = None, finish_reason: str | None = None, **more: Any) -> dict[str, Any]:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish_reason}]
    return {
        "id": "chatcmpl-engine",
        "object": "chat.completion.chunk",
        "created": 1750000000,
        "model": "engine-model",
        "choices": choices,
        **more,
    }


def stream_script(*frames: Any, done: bool = True) -> Script:
    """A script that streams these frames, then [DONE] if `done`."""

    async def script(request: ReceivedRequest) -> None:
        request.begin_stream()
        for body in frames:
            request.send_event(body)
            await request.writer.drain()
        if done:
            request.send_event(b"[DONE]")
        request.end_stream()
        await request.writer.drain()

    return script


HELLO = (
    chunk({"role": "assistant", "content": ""}),
    chunk({"content": "Hel"}),
    chunk({"content": "lo."}),
    chunk({}, "stop"),
    chunk(None, usage={"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}),
)
