"""An HTTP protocol with limits on what an unauthenticated connection may do; uvicorn itself has none.

A head of any length is parsed at quadratic cost: 200 MB of one header blocked a worker for 40 s (uvicorn 0.54, httptools 0.9).
"""

import asyncio
from typing import Any, cast

import httptools

from app.api.server.end_of_input import EndOfInputProtocol
from app.api.server.http_call import HttpCall
from providers import wire
from providers.canonical.errors import BodyTooLarge, InvalidRequest

MAX_HEAD_BYTES = 64 * 1024  # of a request's head, of its trailers, or of one chunk's header
# Proxies and SDKs send 20 to 60. Each takes a hundred times the memory of its bytes, and 64 KiB may be 16,000 of them.
MAX_HEADER_LINES = 200


class BoundedHttpProtocol(EndOfInputProtocol):
    """Limits the size of heads, the number of their lines, and the time that a write may block.

    A caller who does not read the response for `write_timeout_s` is disconnected; what waits to write would wait for ever.
    """

    waits_since: float | None = None  # when the rest of the newest head, then of its body, began to be waited for; None: it is not
    _head_bytes = 0  # received since the last piece of a body or end of a head
    _host_count = 0
    _codings: tuple[bytes, ...] = ()  # the fields Transfer-Encoding of the newest head
    _head_fault: InvalidRequest | None = None
    _write_timer: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._head_bytes += len(data)
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = self._decline_upgrade(data[upgrade.args[0] :])
            except httptools.HttpParserError:
                self.end_input(self._head_fault or self._too_many_lines() or InvalidRequest("This is not an HTTP/1.1 request."))
                return
            else:
                break
        if self.input_ended:
            return
        if self._head_bytes > MAX_HEAD_BYTES:
            self.end_input(_head_too_large(f"The head of the request is longer than {MAX_HEAD_BYTES} bytes."))
        elif self._in_head and (error := self._too_many_lines()) is not None:
            self.end_input(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_write_timer()
        super().connection_lost(exc)

    # Called by the parser

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # a trailer must not count as a header, such as a second Authorization
        name = name.lower()
        if name == b"host":
            self._host_count += 1
        elif name == b"transfer-encoding":
            self._codings += (value,)
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self.headers[MAX_HEADER_LINES:]:
            raise ValueError  # which ends the parsing with an error of the parser's own
        self._in_head = False
        self._head_bytes = 0
        self.waits_since = None
        if self._host_count != 1 or self._codings:
            self._check_head()
        self._host_count = 0
        if not self.parser.should_upgrade():
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._head_bytes = 0
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def _check_head(self) -> None:
        """Refuses what others on the way may read in another way than we do: which host is meant, and where the body ends.

        Source: RFC 9112, sections 3.2 and 6.1. What it raises ends the parsing, and data_received() answers with `_head_fault`.
        """
        version, hosts, codings = self.parser.get_http_version(), self._host_count, self._codings
        self._host_count, self._codings = 0, ()
        if hosts > 1:
            self._head_fault = InvalidRequest("The request has more than one Host header.")
        elif hosts == 0 and version != "1.0":
            self._head_fault = InvalidRequest("The request has no Host header, which HTTP/1.1 demands.")
        elif codings and version == "1.0":
            self._head_fault = InvalidRequest("HTTP/1.0 has no Transfer-Encoding: send Content-Length.")
        elif codings and b",".join(codings).strip().lower() != b"chunked":
            self._head_fault = InvalidRequest("Transfer-Encoding may be `chunked`, once, and nothing else.")
        if self._head_fault is not None:
            raise self._head_fault

    # Called by the transport

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(self.write_timeout_s, self.transport.abort)

    def resume_writing(self) -> None:
        self._cancel_write_timer()
        super().resume_writing()

    def _cancel_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _too_many_lines(self) -> BodyTooLarge | None:
        if not self._in_head or len(self.headers or ()) <= MAX_HEADER_LINES:
            return None
        return _head_too_large(f"The head of the request has more than {MAX_HEADER_LINES} header lines.")

    def _decline_upgrade(self, remaining: bytes) -> bytes:
        """Stay with HTTP/1.1 for a client that offers an upgrade, as Java's client offers h2c with its first request. Returns what is to
        be parsed next: the parser took what follows the head for the other protocol, so it reads the request once more, without the offer.
        """
        method = self.parser.get_method()
        if method == b"CONNECT":
            self.end_input(InvalidRequest("This is not a proxy: CONNECT is not supported."))
            return b""
        fields = [b"%b: %b" % field for field in _without_offer(self.headers)]
        self.parser = httptools.HttpRequestParser(self)
        return b"\r\n".join([b"%b %b HTTP/1.1" % (method, self.url), *fields, b"", b""]) + remaining


def _head_too_large(message: str) -> BodyTooLarge:
    error = BodyTooLarge(message)
    error.status = 431
    return error


def _without_offer(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers as those of a request that offers nothing. A WebSocket's keep `upgrade`, so that its route may refuse it by name."""
    if not any(name == b"upgrade" and value.lower() == b"websocket" for name, value in headers):
        return [field for field in headers if field[0] != b"upgrade"]
    kept: list[tuple[bytes, bytes]] = []
    for name, value in headers:
        if name == b"connection":  # without this option the parser sees no offer
            value = b", ".join(option for each in value.split(b",") if (option := each.strip()).lower() != b"upgrade")
        if name != b"connection" or value:
            kept.append((name, value))
    return kept


# The whole of a head and a body that is buffered whoever sends it.
_MOST_BYTES = 32 * 1024


class WholeRequestProtocol(BoundedHttpProtocol):
    """takes_whole() does what the parser's callbacks would do, for a call of an inference route that waits for nobody."""

    _in_request = True  # a connection that sends nothing counts as one that has begun a request

    def takes_whole(self, data: bytes) -> bool:
        """Whether the data was one request, and its call has begun. Nothing has changed if not."""
        previous: Any = self.cycle
        if previous is None:
            is_between = self.headers is None  # pyright: ignore[reportUnnecessaryComparison]
        else:
            is_between = not self._in_request and previous.response_complete and not previous.more_body
        if not is_between or self._head_bytes or self.pipeline or self.input_ended or len(data) > _MOST_BYTES:
            return False
        request = wire.parse_request(data)
        handler = None if request is None else self.call_handlers.get(request[0])
        if request is None or handler is None or self.transport.is_closing():
            return False
        path, self.headers, body = request
        self.url = path.encode("ascii")
        self._in_head = self._in_request = self.expect_100_continue = False
        self.waits_since = None
        peer = self.client[0] if self.client else None
        call = HttpCall(self, handler, "POST", path, self.headers, peer, http_1_0=False, keep_alive=True)
        self.cycle = self.active_cycle = cast(Any, call)
        call.receive_body(body)
        call.on_body_complete()
        return True
