"""Content codings of responses: JSON is sent compressed to clients that take it."""

import asyncio
import gzip

LEAST_BYTES = 1024  # less is not worth it
_BYTES_AT_ONCE = 64 * 1024  # more is compressed in a thread
_COMPRESSION_LEVEL = 5


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether the header allows it (RFC 9110, section 12.5.3). A client that does not say so gets the response as it is."""
    for each in accept_encoding.lower().split(","):
        coding, _, weight = each.partition(";")
        if coding.strip() in ("gzip", "x-gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


async def compress(content: bytes) -> bytes:
    if len(content) > _BYTES_AT_ONCE:
        return await asyncio.to_thread(_compress, content)
    return _compress(content)


def _compress(content: bytes) -> bytes:
    return gzip.compress(content, _COMPRESSION_LEVEL, mtime=0)
