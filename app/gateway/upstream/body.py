"""Bodies of upstream responses: read whole up to a limit, or relayed block by block."""

from collections.abc import AsyncIterator

import httpx2

from app.gateway.large_body.large_requests import TeamLargeRequests
from app.gateway.upstream.content_coding import CODINGS, decode_blocks
from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.slow_numbers import check_response_numbers
from providers.canonical.sse import BOM, StreamUnwrapper
from providers.transport.response_stream import ResponseStream, ResponseTooLarge

_STREAM_CONTENT_TYPES = (b"text/event-stream", b"application/x-ndjson", b"application/vnd.amazon.eventstream")


# How a stream of events begins, whatever its content type says.
_EVENT_STREAM_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":", BOM + b"data:", BOM + b"event:")


async def read_body(response: httpx2.Response, limit_bytes: int, coding: bytes = b"") -> bytes:
    """The whole body, decoded. Raises InvalidUpstreamResponse over the limit."""
    stream = response_stream(response)
    try:
        raw = (
            b"".join([piece async for piece in decode_blocks(stream, coding, limit_bytes)])
            if coding
            else await stream.read_all(limit_bytes)
        )
    except ResponseTooLarge:
        raise InvalidUpstreamResponse(f"The engine's answer is larger than {limit_bytes} bytes.") from None
    return raw[len(BOM) :] if raw.startswith(BOM) else raw


async def read_whole_body(response: httpx2.Response, limit_bytes: int, coding: bytes, large_requests: TeamLargeRequests) -> bytes:
    """The whole body, whose numbers may be decoded. Raises InvalidUpstreamResponse if it is too large, or takes too long to decode."""
    raw = await read_body(response, limit_bytes, coding)
    await large_requests.run_on_body(raw, check_response_numbers, [raw])
    return raw


async def read_error_body(response: httpx2.Response, limit_bytes: int) -> bytes:
    """The body of an error, which is read as it is where its encoding is unknown."""
    try:
        coding = content_kind(response, False)[1]
    except InvalidUpstreamResponse:
        coding = b""
    return await read_body(response, limit_bytes, coding)


def content_kind(response: httpx2.Response, stream_requested: bool) -> tuple[bool, bytes]:
    """Whether the body is a stream, by its content type, or by what was requested where that does not tell; and the content encoding that
    is to be decoded, b"" if there is none.

    Raises InvalidUpstreamResponse for an encoding that is not decoded. Reads the headers as received: a look-up in httpx2.Headers guesses
    an encoding first.
    """
    content_type = coding = b""
    for name, value in response_stream(response).response.headers:
        match name.lower():
            case b"content-type":
                content_type = value.lower()
            case b"content-encoding" if value.lower() not in (b"identity", b""):
                coding = value.lower()
                if coding not in CODINGS:
                    raise InvalidUpstreamResponse(
                        f"The engine encoded its answer ({value.decode('latin-1'):.40}), which was not requested."
                    )
            case _:
                pass
    return content_type.startswith(_STREAM_CONTENT_TYPES) or (stream_requested and not content_type.startswith(b"application/")), coding


def is_event_stream(raw: bytes) -> bool:
    """Whether a body, or its beginning, is a stream of events: some hosts label theirs as JSON."""
    return raw.startswith(_EVENT_STREAM_STARTS)


def iter_blocks(response: httpx2.Response, unwrapping: StreamUnwrapper | None, coding: bytes, limit_bytes: int) -> AsyncIterator[bytes]:
    """The body as it arrives, decoded, and unwrapped from the frames that a host puts around it. `limit_bytes` bounds a decoded body."""
    blocks = aiter(response_stream(response))
    if coding:
        blocks = decode_blocks(blocks, coding, limit_bytes)
    return blocks if unwrapping is None else _unwrap(blocks, unwrapping)


async def _unwrap(blocks: AsyncIterator[bytes], unwrapping: StreamUnwrapper) -> AsyncIterator[bytes]:
    async for block in blocks:
        inner = unwrapping.feed(block)
        if inner:
            yield inner
    # A failure in the last block is raised by the call after it.
    if inner := unwrapping.feed(b""):
        yield inner


def response_stream(response: httpx2.Response) -> ResponseStream:
    assert isinstance(response.stream, ResponseStream)
    return response.stream
