"""HTTP/1.1 requests as bytes: checked, framed and written. No I/O."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import cast

import httpx2

PIECE_BYTES = 256 * 1024  # a longer body is written in pieces: one write would block the loop and copy it

_TOKEN = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_FIELD_BYTES = bytes(byte for byte in range(256) if byte == 0x09 or (byte >= 0x20 and byte != 0x7F))
_TARGET_BYTES = bytes(range(0x21, 0x7F))
_FRAMING_HEADERS = frozenset({b"host", b"content-length", b"transfer-encoding", b"connection"})


@dataclass(slots=True)
class OutgoingRequest:
    """A request in the bytes that are sent."""

    head: bytes
    body: bytes | None  # complete and framed; None: it comes in pieces, from the request's stream
    length: int | None  # of all pieces together; None: each is sent as a chunk
    keep_alive: bool
    is_head_request: bool  # its response has no body, whatever the headers say


def write_request(request: httpx2.Request) -> OutgoingRequest:
    """The request's bytes. Host and Content-Length are added where missing, and no other header, not even Accept-Encoding.

    Raises httpx2.LocalProtocolError, before a byte is sent, for what the server could read as another request: control characters in a
    header or the target, two framings at once, a Content-Length that is not the body's. A `target` in request.extensions replaces the
    URL's path and query byte for byte, for hosts that verify a signature over the exact path.
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
                raise httpx2.LocalProtocolError(f"More than one {key.decode()} header in a request", request=request)
            framing[key] = value
        names.append(name)
        lines.append(name + b": " + value)
    if b"host" not in framing:
        lines.insert(1, b"Host: " + request.url.netloc)

    body, length = _frame(request, framing, lines)
    lines += (b"", b"")
    head = b"\r\n".join(lines)
    # After all legal bytes are deleted, exactly the line ends that we wrote are left. Anything more is a request-smuggling attempt.
    if (
        head.translate(None, _FIELD_BYTES) != b"\r\n" * (len(lines) - 1)
        or b"".join(names).translate(None, _TOKEN)
        or target.translate(None, _TARGET_BYTES)
        or not all(names)
    ):
        raise _illegal_bytes_error(request, method, target)
    return OutgoingRequest(head, body, length, b"close" not in framing.get(b"connection", b"").lower(), method == b"HEAD")


class SharedHead:
    """The head that all requests to one address with one credential share, written and checked once.

    In request.extensions["shared_head"] it replaces the request's method, URL and headers; the body is the request's own, complete.
    request.extensions["added_lines"] has header lines of this request alone, each with its line end, which whoever adds them has checked.
    Raises as write_request() does.
    """

    __slots__ = ("_head", "_keep_alive", "address")

    def __init__(self, url: httpx2.URL, headers: list[tuple[bytes, bytes]]) -> None:
        outgoing = write_request(httpx2.Request("POST", url, headers=headers, stream=httpx2.ByteStream(b"")))
        self._head = outgoing.head.removesuffix(b"Content-Length: 0\r\n\r\n")
        if self._head == outgoing.head:
            raise httpx2.LocalProtocolError("Shared headers cannot contain the length of a body")
        self._keep_alive = outgoing.keep_alive
        self.address = url.scheme, url.netloc, None, True  # of the origin of the requests

    def write(self, request: httpx2.Request) -> OutgoingRequest:
        body = b"".join(cast(httpx2.ByteStream, request.stream))
        added: bytes = request.extensions.get("added_lines", b"")
        head = b"%b%bContent-Length: %d\r\n\r\n" % (self._head, added, len(body))
        return OutgoingRequest(head, body, len(body), self._keep_alive, False)


def _frame(request: httpx2.Request, framing: dict[bytes, bytes], lines: list[bytes]) -> tuple[bytes | None, int | None]:
    """The body and length of an OutgoingRequest; adds the framing header to `lines` if the caller set none."""
    declared, coding = framing.get(b"content-length"), framing.get(b"transfer-encoding")
    length = None
    if coding is not None and (declared is not None or coding.lower() != b"chunked"):
        raise httpx2.LocalProtocolError("A request's Transfer-Encoding must be chunked, without a Content-Length", request=request)
    if declared is not None:
        if not declared.isdigit() or len(declared) > 18:
            raise httpx2.LocalProtocolError(f"A request's Content-Length must be a number, not {declared!r}", request=request)
        length = int(declared)

    if not isinstance(request.stream, httpx2.ByteStream):
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
        raise httpx2.LocalProtocolError(f"Content-Length is {length} and the body has {len(body)} bytes", request=request)
    return body, None


def write_chunk(piece: bytes) -> bytes:
    """One chunk of a body. `piece` must not be empty: an empty chunk ends the body."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)


async def write_pieces(request: httpx2.Request, outgoing: OutgoingRequest) -> AsyncGenerator[bytes | memoryview, None]:
    """The framed body, a piece at a time. Raises httpx2.LocalProtocolError if the pieces do not add up to the Content-Length."""
    if outgoing.body is not None:
        body = memoryview(outgoing.body)
        for start in range(0, len(body), PIECE_BYTES):
            yield body[start : start + PIECE_BYTES]
        return
    length, sent = outgoing.length, 0
    async for piece in _pieces(request):
        sent += len(piece)
        if length is None:
            yield write_chunk(piece)
        elif sent <= length:
            yield piece
        else:
            raise httpx2.LocalProtocolError(f"Content-Length is {length} and the body has more", request=request)
    if length is None:
        yield b"0\r\n\r\n"
    elif sent < length:
        raise httpx2.LocalProtocolError(f"Content-Length is {length} and the body has {sent} bytes", request=request)


async def _pieces(request: httpx2.Request) -> AsyncGenerator[bytes, None]:
    if isinstance(request.stream, httpx2.AsyncByteStream):
        async for piece in request.stream:
            if piece:
                yield piece
    else:
        for piece in request.stream:
            if piece:
                yield piece


def _illegal_bytes_error(request: httpx2.Request, method: bytes, target: bytes) -> httpx2.LocalProtocolError:
    """Names the offending part, and never a header's value: it may be a credential."""
    for name, value in request.headers.raw:
        if not name or name.translate(None, _TOKEN) or value.translate(None, _FIELD_BYTES):
            return httpx2.LocalProtocolError(f"Illegal bytes in the request header {name!r}", request=request)
    if target.translate(None, _TARGET_BYTES):
        return httpx2.LocalProtocolError(f"Illegal bytes in the request's target {target!r}", request=request)
    return httpx2.LocalProtocolError(f"Illegal request method {method!r}", request=request)
