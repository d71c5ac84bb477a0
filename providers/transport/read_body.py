"""Read a response's body up to a limit, whichever transport sent it."""

from collections.abc import AsyncIterable, AsyncIterator

import httpx2

from providers.transport.response_stream import ResponseTooLarge


async def read_body(response: httpx2.Response, limit_bytes: int) -> bytes:
    """The body as it was sent; no content encoding is undone. Raises ResponseTooLarge as soon as it exceeds the limit."""
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    return b"".join([block async for block in limit_blocks(response.stream, limit_bytes)])


async def limit_blocks(blocks: AsyncIterable[bytes], limit_bytes: int) -> AsyncIterator[bytes]:
    """The same blocks. Raises ResponseTooLarge in place of the block that exceeds the limit."""
    size_bytes = 0
    async for block in blocks:
        size_bytes += len(block)
        if size_bytes > limit_bytes:
            raise ResponseTooLarge(f"The response is longer than {limit_bytes} bytes")
        yield block
