"""Bodies of upstream responses: read whole up to a limit, or relayed block by block."""

from collections.abc import AsyncIterator

import httpx

from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.sse import StreamUnwrapper
from providers.transport.response_stream import ResponseStream, ResponseTooLarge

_STREAM_CONTENT_TYPES = (b"text/event-stream", b"application/x-ndjson", b"application/vnd.amazon.eventstream")


async def read_body(response: httpx.Response, limit_bytes: int) -> bytes:
    """The whole body. Raises InvalidUpstreamResponse over the limit."""
    try:
        return await response_stream(response).read_all(limit_bytes)
    except ResponseTooLarge:
        raise InvalidUpstreamResponse(f"The engine's answer is larger than {limit_bytes} bytes.") from None


def is_stream(response: httpx.Response, stream_requested: bool) -> bool:
    """Whether the body is a stream: by its content type, or by what was requested where that does not tell.

    Raises InvalidUpstreamResponse for a content encoding. Reads the headers as received: a look-up in httpx.Headers guesses an encoding
    first.
    """
    content_type = b""
    for name, value in response_stream(response).response.headers:
        match name.lower():
            case b"content-type":
                content_type = value.lower()
            case b"content-encoding" if value.lower() not in (b"identity", b""):
                raise InvalidUpstreamResponse(f"The engine encoded its answer ({value.decode('latin-1'):.40}), which was not requested.")
            case _:
                pass
    return content_type.startswith(_STREAM_CONTENT_TYPES) or (stream_requested and not content_type.startswith(b"application/"))


def iter_blocks(response: httpx.Response, unwrapping: StreamUnwrapper | None) -> AsyncIterator[bytes]:
    """The body as it arrives, undecoded (we accept no content encoding), and unwrapped from the frames that a host puts around it."""
    blocks = aiter(response_stream(response))
    return blocks if unwrapping is None else _unwrap(blocks, unwrapping)


async def _unwrap(blocks: AsyncIterator[bytes], unwrapping: StreamUnwrapper) -> AsyncIterator[bytes]:
    async for block in blocks:
        inner = unwrapping.feed(block)
        if inner:
            yield inner
    # A failure in the last block is raised by the call after it.
    if inner := unwrapping.feed(b""):
        yield inner


def response_stream(response: httpx.Response) -> ResponseStream:
    assert isinstance(response.stream, ResponseStream)
    return response.stream
