"""A loopback engine that follows a script of bytes, pauses, resets and disconnects, and records the requests that it got."""

import asyncio
import re
import socket
import ssl
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any, TypeVar

import httpx2
import pytest
import uvloop

from providers.transport.transport import ResponseStream, Transport

T = TypeVar("T")
NewLoop = Callable[[], asyncio.AbstractEventLoop]

both_loops = pytest.mark.parametrize("new_loop", [uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def run(new_loop: NewLoop, main: Coroutine[Any, Any, T], within_s: float = 60.0) -> T:
    """Runs a test's coroutine. What a loop would only log (a failed callback, a task nobody awaited) fails the test, too."""
    loop_errors: list[dict[str, Any]] = []

    async def watched() -> T:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: loop_errors.append(context))
        async with asyncio.timeout(within_s):
            result = await main
        remaining_tasks = other_tasks()
        for _ in range(1000):  # generators and handshakes that were cancelled need a few turns
            if remaining_tasks:
                await asyncio.sleep(0.002)
                remaining_tasks = other_tasks()
        assert not remaining_tasks, f"tasks left behind: {remaining_tasks}"
        return result

    with asyncio.Runner(loop_factory=new_loop) as runner:
        result = runner.run(watched())
    assert not loop_errors, loop_errors
    return result


def other_tasks() -> set[asyncio.Task[Any]]:
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}


class EngineConnection:
    """One connection, from the engine's side."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.requests: list[bytes] = []

    async def read_head(self) -> bytes:
        """The next request's head; b"" if the caller has disconnected."""
        try:
            return await self.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return b""

    async def read_request(self) -> bytes:
        """The next request, head and body with its framing; b"" if the caller has disconnected."""
        head = await self.read_head()
        body = b""
        if length := re.search(rb"(?i)\r\ncontent-length: (\d+)", head):
            body = await self.reader.readexactly(int(length[1]))
        elif b"\r\ntransfer-encoding: chunked" in head.lower():
            while not body.endswith(b"0\r\n\r\n"):
                size = await self.reader.readuntil(b"\r\n")
                body += size + await self.reader.readexactly(int(size, 16) + 2)
        if head:
            self.requests.append(head + body)
        return head + body

    async def send(self, *pieces: bytes) -> None:
        """Sends each piece by itself: the caller's loop turns between them."""
        for piece in pieces:
            if self.writer.is_closing():  # uvloop would answer the write with a RuntimeError
                raise ConnectionResetError
            self.writer.write(piece)
            await self.writer.drain()
            for _ in range(3):
                await asyncio.sleep(0)

    def reset(self) -> None:
        """Aborts the connection, so that the caller's next read is an error."""
        sock: socket.socket = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def sees_disconnect(self, within_s: float = 30.0) -> bool:
        """Returns whether the caller closes the connection, whatever it sends before."""
        try:
            async with asyncio.timeout(within_s):
                while await self.reader.read(65536):
                    pass
        except ConnectionError:
            return True
        except TimeoutError:
            return False
        return True


async def wait_until(condition: Callable[[], bool], within_s: float = 30.0) -> None:
    """Raises TimeoutError if the condition does not become true in time."""
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.002)


ConnectionScript = Callable[[EngineConnection], Awaitable[None]]


class ScriptedEngine:
    """The server's address, and its connections in order."""

    def __init__(self, port: int, scheme: str) -> None:
        self.port = port
        self.url = httpx2.URL(f"{scheme}://127.0.0.1:{port}/v1/chat/completions")
        self.connections: list[EngineConnection] = []

    @property
    def requests(self) -> list[bytes]:
        return [request for connection in self.connections for request in connection.requests]


@asynccontextmanager
async def start_engine(script: ConnectionScript, tls: ssl.SSLContext | None = None) -> AsyncGenerator[ScriptedEngine]:
    """Serves each connection with the script, then closes it. Errors of the script are raised at the end, except disconnects."""
    tasks: set[asyncio.Task[None]] = set()
    failures: list[BaseException] = []

    async def handle_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        connection = EngineConnection(reader, writer)
        served.connections.append(connection)
        try:
            await script(connection)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        except Exception as exc:
            failures.append(exc)
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(handle_connection, "127.0.0.1", 0, ssl=tls, limit=1 << 20)
    served = ScriptedEngine(server.sockets[0].getsockname()[1], "https" if tls else "http")
    try:
        yield served
    finally:
        server.close()
        if tasks:  # their scripts may still fail
            _, unfinished = await asyncio.wait(tasks, timeout=30)
            for task in unfinished:
                task.cancel()
                failures.append(AssertionError("A connection was left open, or a script does not end"))
            await asyncio.gather(*unfinished)
    if failures:
        raise failures[0]


def respond_in_order(*responses: bytes) -> ConnectionScript:
    """Responds to the requests of each connection with these, in order, and then disconnects."""

    async def serve(connection: EngineConnection) -> None:
        for response in responses:
            if not await connection.read_request():
                return
            await connection.send(response)

    return serve


def respond_always(response: bytes) -> ConnectionScript:
    async def serve(connection: EngineConnection) -> None:
        while await connection.read_request():
            await connection.send(response)

    return serve


def split_at(message: bytes, positions: Iterable[int]) -> list[bytes]:
    edges = [0, *sorted(positions), len(message)]
    return [message[start:end] for start, end in pairwise(edges) if start < end]


@asynccontextmanager
async def open_transport(**settings: Any) -> AsyncGenerator[Transport]:
    """A transport for a test, without the cost of loading the public authorities. In the end it must have no connection left."""
    opened = Transport(tls=settings.pop("tls", None) or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), **settings)
    try:
        yield opened
    finally:
        await opened.aclose()
        stats = opened.stats()
        assert (stats.idle, stats.busy) == (0, 0)


def post_request(url: httpx2.URL, body: bytes = b"{}", headers: Any = None, **timeout: float | None) -> httpx2.Request:
    return httpx2.Request("POST", url, headers=headers, content=body, extensions={"timeout": timeout} if timeout else None)


async def fetch(client: Transport, request: httpx2.Request) -> tuple[int, bytes]:
    """Status and body of the complete response."""
    response = await client.handle_async_request(request)
    return response.status_code, await response_stream(response).read_all(1 << 26)


def response_stream(response: httpx2.Response) -> ResponseStream:
    assert isinstance(response.stream, ResponseStream)
    return response.stream
