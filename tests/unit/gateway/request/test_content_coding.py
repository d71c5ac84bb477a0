"""Content codings of responses: decoded however they arrive, within a limit."""

import gzip
import tracemalloc
import zlib
from collections.abc import AsyncIterator

import pytest

from app.gateway.upstream.content_coding import decode_blocks
from providers.canonical.errors import InvalidUpstreamResponse

CONTENT = bytes(range(256)) * 3000 + b"the end"


async def _blocks(blocks: list[bytes]) -> AsyncIterator[bytes]:
    for block in blocks:
        yield block


async def decode(blocks: list[bytes], coding: bytes, limit_bytes: int = 10_000_000) -> bytes:
    return b"".join([piece async for piece in decode_blocks(_blocks(blocks), coding, limit_bytes)])


def _bare_deflate(content: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(content) + compressor.flush()


ENCODED = {
    "gzip": (b"gzip", gzip.compress(CONTENT)),
    "two members of gzip": (b"gzip", gzip.compress(CONTENT[:3]) + gzip.compress(CONTENT[3:])),
    "deflate": (b"deflate", zlib.compress(CONTENT)),
    "bare deflate": (b"deflate", _bare_deflate(CONTENT)),
}


@pytest.mark.parametrize("block_bytes", [1, 7, 1 << 30])
@pytest.mark.parametrize("name", ENCODED)
async def test_encoded_body_is_read_however_it_is_split(name: str, block_bytes: int) -> None:
    coding, encoded = ENCODED[name]
    blocks = [encoded[at : at + block_bytes] for at in range(0, len(encoded), block_bytes)]
    assert await decode(blocks, coding) == CONTENT


async def test_encoded_block_of_a_stream_is_decoded_before_the_next_comes() -> None:
    compressor = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    first = compressor.compress(b"first") + compressor.flush(zlib.Z_SYNC_FLUSH)
    pieces = decode_blocks(_blocks([first, compressor.compress(b"second") + compressor.flush()]), b"gzip", 100)
    assert [await anext(pieces), await anext(pieces)] == [b"first", b"second"]


async def test_small_body_that_decodes_to_a_large_one_is_refused_at_the_limit() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(InvalidUpstreamResponse, match="larger than 1000000 bytes"):
            await decode([bomb], b"gzip", 1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("body", "message"),
    [(b"not gzip", "is not the gzip"), (gzip.compress(b"Hello" * 99)[:-9], "in the middle")],
    ids=["not gzip", "cut off"],
)
async def test_invalid_encoding_is_an_error_of_the_host(body: bytes, message: str) -> None:
    with pytest.raises(InvalidUpstreamResponse, match=message):
        await decode([body], b"gzip")
