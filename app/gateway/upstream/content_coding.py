"""Content codings that engines use although `Accept-Encoding: identity` requests none: gzip and deflate are decoded, within a limit."""

import asyncio
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Iterator

from providers.canonical.errors import InvalidUpstreamResponse

CODINGS = frozenset({b"gzip", b"x-gzip", b"deflate"})

# Decoded at a time; other requests are served in between.
_PIECE_BYTES = 16 * 1024


async def decode_blocks(blocks: AsyncIterable[bytes], coding: bytes, limit_bytes: int) -> AsyncIterator[bytes]:
    """The decoded body, as it arrives. Raises InvalidUpstreamResponse beyond the limit, for a few bytes may decode to any number."""
    inflater = Inflater(coding)
    size_bytes = 0
    try:
        async for block in blocks:
            for piece in inflater.feed(block):
                size_bytes += len(piece)
                if size_bytes > limit_bytes:
                    raise InvalidUpstreamResponse(f"The engine's answer is larger than {limit_bytes} bytes when decoded.")
                yield piece
                if len(piece) == _PIECE_BYTES:
                    await asyncio.sleep(0)
    except zlib.error as error:
        raise InvalidUpstreamResponse(f"The engine's answer is not the {coding.decode()} that it says: {error}.") from None
    if not inflater.complete:
        raise InvalidUpstreamResponse(f"The engine's answer ends in the middle of its {coding.decode()} encoding.")


class Inflater:
    """Decodes one body, and raises zlib.error for what cannot be.

    The coding `deflate` is zlib's format by the standard, and the bare one at some servers. Source:
    https://www.rfc-editor.org/rfc/rfc9110#section-8.4.1, read 2026-11.
    """

    def __init__(self, coding: bytes) -> None:
        self.members = 1  # how many of gzip's have begun
        self._coding = coding
        self._decompressor = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self._started = False
        # The first byte of `deflate`, until the second says which of the formats it is.
        self._head = b""

    @property
    def complete(self) -> bool:
        return self._decompressor.eof or not (self._started or self._head)

    def feed(self, block: bytes) -> Iterator[bytes]:
        """The bytes that are decoded now, in pieces."""
        pending = self._head + block
        if self._coding == b"deflate" and not self._started:
            self._head = pending if len(pending) < 2 else b""
            if self._head:
                return
            has_header = pending[0] & 0x0F == 8 and int.from_bytes(pending[:2]) % 31 == 0
            self._decompressor = zlib.decompressobj(zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)
        while pending:
            if self._decompressor.eof:  # gzip allows several members
                self._decompressor = zlib.decompressobj(zlib.MAX_WBITS | 16)
                self.members += 1
            piece = self._decompressor.decompress(pending, _PIECE_BYTES)
            self._started = True
            if piece:
                yield piece
            pending = self._decompressor.unused_data if self._decompressor.eof else self._decompressor.unconsumed_tail
            if self._decompressor.eof and self._coding == b"deflate":
                return
        # What a full piece held back is still inside the decompressor.
        while not self._decompressor.eof and (piece := self._decompressor.decompress(b"", _PIECE_BYTES)):
            yield piece
