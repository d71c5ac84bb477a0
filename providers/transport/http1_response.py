"""HTTP/1.1 responses: a head and a body read from bytes. No I/O; everything that an engine sends is checked and bounded."""

import httptools

from providers import wire

# The most of a response's head (with the 1xx responses before it), of its trailers, or of one chunk's header.
MAX_HEAD_BYTES = 64 * 1024
MAX_FIELDS = 200


class InvalidHttpResponse(Exception):
    """The engine did not send an HTTP response; the message says what is wrong."""


class ResponseReader:
    """Reads one final response from blocks split anywhere; 1xx responses before it are skipped.

    After each feed() check, in this order: `status` (0 until the head is complete), `blocks` (the body that was received and not yet
    taken; take it and reset `queued_bytes`), `complete`. Bytes after a complete response only set `surplus`.
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
        "is_between_chunks",
        "keep_alive",
        "queued_bytes",
        "reason",
        "started",
        "status",
        "surplus",
        "version",
    )

    def __init__(self, is_head_request: bool = False) -> None:
        self.started = False  # a byte of a response, even of a 1xx, has come
        self.body_started = False
        self.is_between_chunks = False  # whether what comes next is a chunk from its first byte on
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
        # One parser per response, not per connection: it costs 0.4 µs, and nothing of one response can leak into the next.
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        """Raises InvalidHttpResponse; the body before the invalid bytes is in `blocks`."""
        parser = self._parser
        if parser is None:
            self.surplus = True
            return
        if not self.started and not self._is_head_request and (whole := wire.parse_response(data)) is not None:
            self._parser = None
            self.started = self.body_started = self.keep_alive = self.complete = True
            self.version = b"HTTP/1.1"
            self.status, self.reason, self.headers, body = whole
            self.blocks.append(body)
            self.queued_bytes = len(body)
            return
        # Bytes that are neither body nor complete a head or chunk header: an endless status line, field or chunk extension arrives so,
        # and the parser bounds none of them.
        self._overhead_bytes += len(data)
        try:
            parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as exc:
            if not self.complete:
                self._parser = None
                raise InvalidHttpResponse(self._error_message or f"not HTTP/1.1: {exc}") from exc
            self.surplus = True
        if self.is_between_chunks and data[-2:] != b"\r\n":  # the next one has begun
            self.is_between_chunks = False
        if self.complete:
            self._parser = None  # breaks the reference cycle of parser and reader, which would wait for the garbage collector
        elif self._overhead_bytes > MAX_HEAD_BYTES:
            self._parser = None
            raise InvalidHttpResponse(f"more than {MAX_HEAD_BYTES} bytes of head, trailers or chunk header")

    def feed_eof(self) -> None:
        """The engine closed its side. Raises InvalidHttpResponse unless the response is delimited by that."""
        self._parser = None
        if self._until_eof:
            self.complete = True
        elif not self.complete:
            where = "in the middle of the body" if self.status else "in the head" if self.started else "without a response"
            raise InvalidHttpResponse(f"the engine closed the connection {where}")

    def discard(self) -> None:
        """Drops everything: the response is no longer needed."""
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
            self._fail(f"HTTP/{version} is not supported")
        if status == 101 or status < 100:
            self._fail(f"status {status} is not a response to this request")
        if status < 200:  # skipped; its fields stay counted, so that 1xx responses cannot come for ever
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
        """Whether only the end of the connection ends the body. Fails for transfer codings, which would be passed on as content."""
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
            self._fail(f"Transfer-Encoding {coding!r} is not supported")
        return False

    def on_chunk_header(self) -> None:
        self._overhead_bytes = 0
        self.is_between_chunks = False

    def on_chunk_complete(self) -> None:
        self.is_between_chunks = not self.complete

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
        """Stops the parser. It hides the message of an exception raised in a callback, so feed() raises it again."""
        self._error_message = message
        raise InvalidHttpResponse(message)
