"""HTTP/1.1 as bytes: a request is written, an answer is read. No I/O; nothing an engine says is believed unchecked."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import cast

import httptools
import httpx

# An answer's head (with every 1xx answer before it), its trailers, or one chunk's header: this long and no longer.
MAX_HEAD_BYTES = 64 * 1024
MAX_FIELDS = 200

PIECE_BYTES = 256 * 1024  # a longer body is written in pieces, so that neither the loop nor memory pays for it twice

_TOKEN = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_FIELD_BYTES = bytes(byte for byte in range(256) if byte == 0x09 or (byte >= 0x20 and byte != 0x7F))
_TARGET_BYTES = bytes(range(0x21, 0x7F))
_FRAMING_HEADERS = frozenset({b"host", b"content-length", b"transfer-encoding", b"connection"})


@dataclass(slots=True)
class OutgoingRequest:
    """A request as it goes over the wire."""

    head: bytes
    body: bytes | None  # whole and framed; None: it comes in pieces, from the request's stream
    length: int | None  # what the pieces must add up to; None: each is sent as a chunk
    keep_alive: bool
    is_head_request: bool  # a HEAD: its answer has no body, whatever its headers say


def write_request(request: httpx.Request) -> OutgoingRequest:
    """The request's bytes. Host and Content-Length are added where missing; no other header is, Accept-Encoding neither.

    Raises httpx.LocalProtocolError, before a byte is sent, for what the other end would read as something else: control
    characters in a header or the target, two framings at once, a Content-Length that is not the body's. A `target` in
    request.extensions replaces the URL's path and query byte for byte, for hosts that verify a signature over the exact path.
    """
    method = request.method.encode("utf-8")
    target: bytes = request.extensions.get("target") or request.url.raw_path
    names = [method]
    lines = [b"%b %b HTTP/1.1" % (method, target)]
    framing: dict[bytes, bytes] = {}
    for name, value in request.headers.raw:
        key = name.lower()
        if key in _FRAMING_HEADERS:
            if key in framing:
                raise httpx.LocalProtocolError(f"More than one {key.decode()} header in a request", request=request)
            framing[key] = value
        names.append(name)
        lines.append(name + b": " + value)
    if b"host" not in framing:
        lines.insert(1, b"Host: " + request.url.netloc)

    body, length = _frame(request, framing, lines)
    lines += (b"", b"")
    head = b"\r\n".join(lines)
    # What is left after deleting every legal byte is the line ends that we wrote; one more, or anything else, was smuggled in.
    if (
        head.translate(None, _FIELD_BYTES) != b"\r\n" * (len(lines) - 1)
        or b"".join(names).translate(None, _TOKEN)
        or target.translate(None, _TARGET_BYTES)
        or not all(names)
    ):
        raise _illegal_bytes_error(request, method, target)
    return OutgoingRequest(head, body, length, b"close" not in framing.get(b"connection", b"").lower(), method == b"HEAD")


class SharedHead:
    """The head that all requests to one address with one credential have in common, checked once. `address`: of their origin.

    In a request's extensions as "shared_head" it stands for its method, URL and headers; the body is the request's own, whole.
    Raises as write_request does.
    """

    __slots__ = ("_head", "_keep_alive", "address")

    def __init__(self, url: httpx.URL, headers: list[tuple[bytes, bytes]]) -> None:
        outgoing = write_request(httpx.Request("POST", url, headers=headers, stream=httpx.ByteStream(b"")))
        self._head = outgoing.head.removesuffix(b"Content-Length: 0\r\n\r\n")
        if self._head == outgoing.head:
            raise httpx.LocalProtocolError("Headers that all requests share cannot say how long a body is")
        self._keep_alive = outgoing.keep_alive
        self.address = url.scheme, url.netloc, None

    def write(self, request: httpx.Request) -> OutgoingRequest:
        body = b"".join(cast(httpx.ByteStream, request.stream))
        return OutgoingRequest(b"%bContent-Length: %d\r\n\r\n" % (self._head, len(body)), body, len(body), self._keep_alive, False)


def _frame(request: httpx.Request, framing: dict[bytes, bytes], lines: list[bytes]) -> tuple[bytes | None, int | None]:
    """The framed body and the declared length, as Outgoing has them; adds the framing header to `lines` if the caller gave none."""
    declared, coding = framing.get(b"content-length"), framing.get(b"transfer-encoding")
    length = None
    if coding is not None and (declared is not None or coding.lower() != b"chunked"):
        raise httpx.LocalProtocolError("A request's Transfer-Encoding must be chunked, without a Content-Length", request=request)
    if declared is not None:
        if not declared.isdigit() or len(declared) > 18:
            raise httpx.LocalProtocolError(f"A request's Content-Length must be a number, not {declared!r}", request=request)
        length = int(declared)

    if not isinstance(request.stream, httpx.ByteStream):
        if length is None and coding is None:
            lines.append(b"Transfer-Encoding: chunked")
        return None, length

    body = b"".join(request.stream)
    if coding is not None:
        return (b"%b0\r\n\r\n" % write_chunk(body) if body else b"0\r\n\r\n"), None
    if length is None:
        if body or request.method in ("POST", "PUT", "PATCH"):
            lines.append(b"Content-Length: %d" % len(body))
    elif length != len(body):
        raise httpx.LocalProtocolError(f"Content-Length says {length} and the body has {len(body)} bytes", request=request)
    return body, None


def write_chunk(piece: bytes) -> bytes:
    """One chunk of a body. `piece` must not be empty: an empty chunk is the body's end."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)


async def write_pieces(request: httpx.Request, outgoing: OutgoingRequest) -> AsyncGenerator[bytes | memoryview, None]:
    """The body, framed, a piece at a time. Raises LocalProtocolError if the caller's pieces do not add up to their Content-Length."""
    if outgoing.body is not None:
        whole = memoryview(outgoing.body)
        for start in range(0, len(whole), PIECE_BYTES):
            yield whole[start : start + PIECE_BYTES]
        return
    length, sent = outgoing.length, 0
    async for piece in _pieces(request):
        sent += len(piece)
        if length is None:
            yield write_chunk(piece)
        elif sent <= length:
            yield piece
        else:
            raise httpx.LocalProtocolError(f"Content-Length says {length} and the body has more", request=request)
    if length is None:
        yield b"0\r\n\r\n"
    elif sent < length:
        raise httpx.LocalProtocolError(f"Content-Length says {length} and the body has {sent} bytes", request=request)


async def _pieces(request: httpx.Request) -> AsyncGenerator[bytes, None]:
    if isinstance(request.stream, httpx.AsyncByteStream):
        async for piece in request.stream:
            if piece:
                yield piece
    else:
        for piece in request.stream:
            if piece:
                yield piece


def _illegal_bytes_error(request: httpx.Request, method: bytes, target: bytes) -> httpx.LocalProtocolError:
    """Names what is at fault, never a header's value: it may be a credential."""
    for name, value in request.headers.raw:
        if not name or name.translate(None, _TOKEN) or value.translate(None, _FIELD_BYTES):
            return httpx.LocalProtocolError(f"Illegal bytes in the request header {name!r}", request=request)
    if target.translate(None, _TARGET_BYTES):
        return httpx.LocalProtocolError(f"Illegal bytes in the request's target {target!r}", request=request)
    return httpx.LocalProtocolError(f"Illegal request method {method!r}", request=request)


class InvalidHttpResponse(Exception):
    """What the engine sent is not an answer; says at what."""


class ResponseReader:
    """Reads one final answer, fed with blocks split anywhere; earlier 1xx answers are skipped.

    After each feed() look, in this order, at: `status` (0 until the head is whole), `blocks` (body received and not yet taken;
    take them and reset `queued_bytes`), `complete`. What follows a complete answer only sets `surplus`.
    """

    __slots__ = (
        "_error_message",
        "_fields",
        "_headers_bytes",
        "_is_head_request",
        "_overhead_bytes",
        "_parser",
        "_until_eof",
        "blocks",
        "body_started",
        "complete",
        "headers",
        "keep_alive",
        "queued_bytes",
        "reason",
        "started",
        "status",
        "surplus",
        "version",
    )

    def __init__(self, is_head_request: bool = False) -> None:
        self.started = False  # a byte of an answer, be it a 1xx, has come
        self.body_started = False
        self.complete = False
        self.keep_alive = False
        self.surplus = False
        self.status = 0
        self.version = b""
        self.reason = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.blocks: list[bytes] = []
        self.queued_bytes = 0
        self._error_message = ""
        self._fields = 0
        self._headers_bytes = 0
        self._is_head_request = is_head_request
        self._overhead_bytes = 0
        self._until_eof = False
        # One parser per answer, not per connection: 0.4 µs, and nothing of one answer can leak into the next.
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        """Raises BadAnswer; what came before the fault is in `blocks`."""
        parser = self._parser
        if parser is None:
            self.surplus = True
            return
        # Bytes that bring neither body nor the end of a head or chunk header: a status line, fields and chunk extensions
        # without end arrive so, and the parser itself bounds none of them.
        self._overhead_bytes += len(data)
        try:
            parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as exc:
            if not self.complete:
                self._parser = None
                raise InvalidHttpResponse(self._error_message or f"not HTTP/1.1: {exc}") from exc
            self.surplus = True
        if self.complete:
            self._parser = None  # breaks the circle of parser and reader: nothing waits for the collector
        elif self._overhead_bytes > MAX_HEAD_BYTES:
            self._parser = None
            raise InvalidHttpResponse(f"more than {MAX_HEAD_BYTES} bytes of head, trailers or chunk header")

    def feed_eof(self) -> None:
        """The engine closed its side. Raises BadAnswer unless this answer ends so."""
        self._parser = None
        if self._until_eof:
            self.complete = True
        elif not self.complete:
            where = "in the middle of the body" if self.status else "in the head" if self.started else "without an answer"
            raise InvalidHttpResponse(f"the engine closed the connection {where}")

    def discard(self) -> None:
        """Lets go of everything: the answer is no longer wanted."""
        self._parser = None
        self.blocks.clear()

    # Called by the parser

    def on_message_begin(self) -> None:
        self.started = True
        if self.complete:
            self.surplus = True

    def on_status(self, part: bytes) -> None:
        if not self.status:
            self.reason += part

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.complete:
            return
        self._fields += 1
        self._headers_bytes += len(name) + len(value) + 4
        if self._fields > MAX_FIELDS or self._headers_bytes > MAX_HEAD_BYTES:
            self._fail(f"more than {MAX_FIELDS} header fields, or {MAX_HEAD_BYTES} bytes of them")
        if not self.status:  # trailers count, and are dropped
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        parser = self._parser
        if self.complete or parser is None:
            return
        status = parser.get_status_code()
        version = parser.get_http_version()
        if version not in ("1.1", "1.0"):
            self._fail(f"HTTP/{version} is not spoken here")
        if status == 101 or status < 100:
            self._fail(f"status {status} is no answer to what was asked")
        if status < 200:  # to be skipped; its fields stay counted, so that they cannot come for ever
            self.headers.clear()
            self.reason = b""
            return
        self._overhead_bytes = 0
        self.version = b"HTTP/" + version.encode()
        self.keep_alive = parser.should_keep_alive()
        self._until_eof = self._ends_at_eof(status)
        self.status = status
        if self._is_head_request:
            self._until_eof = False
            self.complete = True

    def _ends_at_eof(self, status: int) -> bool:
        """Whether only the engine's hanging up ends the body. Refuses codings we would otherwise hand on as if they were the content."""
        coding: bytes | None = None
        sized = status in (204, 304)
        for name, value in self.headers:
            match name.lower():
                case b"transfer-encoding":
                    coding = value if coding is None else coding + b", " + value
                case b"content-length":
                    sized = True
                case _:
                    pass
        if coding is None or coding.lower() == b"identity":
            return not sized
        if coding.lower() != b"chunked":
            self._fail(f"Transfer-Encoding {coding!r} is not spoken here")
        return False

    def on_chunk_header(self) -> None:
        self._overhead_bytes = 0

    def on_body(self, block: bytes) -> None:
        if self.complete:
            self.surplus = True
            return
        self._overhead_bytes = 0
        self.body_started = True
        self.blocks.append(block)
        self.queued_bytes += len(block)

    def on_message_complete(self) -> None:
        if self.status:
            self._until_eof = False
            self.complete = True

    def _fail(self, message: str) -> None:
        """Stops the parser, which would swallow an exception's own words."""
        self._error_message = message
        raise InvalidHttpResponse(message)
