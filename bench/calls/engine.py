"""The engine behind the gateway whose calls are counted, and its client: in lock step, so that each chunk is read by itself."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from bench.calls.requests import CountedRequest
from bench.errors import BenchmarkError

_WORDS = "This is the mock engine speaking: a narthex is the hall before the nave. " * 3
_USAGE = b'"usage":{"prompt_tokens":42,"completion_tokens":50,"total_tokens":92}'
_RESPONSE = (
    b'{"id":"chatcmpl-1","object":"chat.completion","created":1790000000,"model":"mock","choices":[{"index":0,'
    b'"message":{"role":"assistant","content":"' + _WORDS.encode() + b'"},"finish_reason":"stop"}],' + _USAGE + b"}"
)
_CHUNK_HEAD = b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1790000000,"model":"mock",'
_CHUNK = _CHUNK_HEAD + b'"choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}\n\n'
_LAST_CHUNKS = (
    _CHUNK_HEAD + b'"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n' + _CHUNK_HEAD + b'"choices":[],' + _USAGE + b"}\n\n"
    b"data: [DONE]\n\n"
)
_MESSAGES_START = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"mock",'
    b'"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":42,"output_tokens":1}}}\n\n'
    b'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n'
)
_MESSAGES_CHUNK = (
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" word"}}\n\n'
)
_MESSAGES_END = (
    b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},'
    b'"usage":{"output_tokens":50}}\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n'
)
# Of a whole response, and of streams.
_ENDS = (b"}", b"data: [DONE]\n\n", b'{"type":"message_stop"}\n\n')
_TIMEOUT_S = 60


class LockStep:
    """A caller and an engine in one process: the engine sends its next chunk when the caller has the one before."""

    def __init__(self) -> None:
        self.chunks = 0
        self._received = asyncio.Event()

    @asynccontextmanager
    async def serve_engine(self) -> AsyncGenerator[int]:
        """The port at which the engine answers."""
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await _read_message(reader)) is not None:
            head, body = request
            if not head.startswith(b"POST"):
                writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}")
            elif b'"stream":true' not in body:
                writer.write(_http_response(_RESPONSE))
            else:
                is_messages = b"/v1/messages " in head.partition(b"\r\n")[0]
                begin, chunk, end = (_MESSAGES_START, _MESSAGES_CHUNK, _MESSAGES_END) if is_messages else (b"", _CHUNK, _LAST_CHUNKS)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
                for number in range(self.chunks):
                    self._received.clear()
                    writer.write(_http_chunk(chunk if number else begin + chunk))
                    await asyncio.wait_for(self._received.wait(), _TIMEOUT_S)
                writer.write(_http_chunk(end) + b"0\r\n\r\n")
            await writer.drain()

    async def call(self, port: int, key: str, counted: CountedRequest, count: int, *, chunks: int = 0) -> None:
        """Sends a request so many times over one connection, one after the other. `chunks` are those of each stream.

        Raises BenchmarkError for anything but a complete response.
        """
        self.chunks, body = chunks, counted.body
        request = (
            b"POST %s HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer %s\r\n"
            b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (counted.path.encode(), key.encode(), len(body), body)
        )
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            for _ in range(count):
                writer.write(request)
                answered = await asyncio.wait_for(self._read_response(reader), _TIMEOUT_S)
                if not answered.endswith(_ENDS):
                    raise BenchmarkError(f"The gateway answered {answered[-500:]!r}.")
        finally:
            writer.close()

    async def _read_response(self, reader: asyncio.StreamReader) -> bytes:
        """Raises BenchmarkError for another status than 200."""
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head.partition(b"\r\n")[0]:
            raise BenchmarkError(f"The gateway answered {head + await reader.read(1000)!r}.")
        if b"transfer-encoding: chunked" not in head.lower():
            return await reader.readexactly(_content_length(head))
        body = b""
        while (size := int((await reader.readuntil(b"\r\n")).strip(), 16)) != 0:
            body += (await reader.readexactly(size + 2))[:-2]
            self._received.set()
        await reader.readuntil(b"\r\n")
        return body


async def _read_message(reader: asyncio.StreamReader) -> tuple[bytes, bytes] | None:
    """The head and body of a request; None: the connection has ended."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        return head, await reader.readexactly(_content_length(head))
    except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):  # cancelled: the benchmark has ended
        return None


def _content_length(head: bytes) -> int:
    _, found, rest = head.lower().partition(b"content-length:")
    return int(rest.partition(b"\r\n")[0]) if found else 0


def _http_response(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


def _http_chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)
