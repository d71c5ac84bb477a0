"""Packing of content: zlib, or a zero byte and the plain bytes where compression would not make them smaller.

A zlib stream never begins with a zero byte (its first byte names the method, 8: RFC 1950), so the two are told apart by it.
"""

import asyncio
import zlib
from collections.abc import Iterable

UNCOMPRESSED_PREFIX = b"\x00"
_AT_ONCE_BYTES = 64 * 1024  # more than that is packed and unpacked in a thread
MIN_COMPRESS_BYTES = 200  # below, zlib saves a few bytes for ten microseconds


def pack(data: bytes) -> bytes:
    return UNCOMPRESSED_PREFIX + data if len(data) < MIN_COMPRESS_BYTES else zlib.compress(data, 1)


async def pack_beside_loop(data: bytes) -> bytes:
    """Like pack(); a large content is packed in a thread."""
    return pack(data) if len(data) <= _AT_ONCE_BYTES else await asyncio.to_thread(pack, data)


async def unpack_beside_loop(packed: bytes) -> bytes:
    """Like unpack(); a content that is large once it is unpacked, which its packed size does not tell, is unpacked in a thread."""
    data = unpack_within(packed, _AT_ONCE_BYTES)
    return await asyncio.to_thread(unpack, packed) if data is None else data


def pack_pieces(pieces: Iterable[bytes]) -> bytes:
    """Like pack(), for content that is too long to be held in memory at once."""
    stream = zlib.compressobj(1)
    return b"".join([*[stream.compress(piece) for piece in pieces], stream.flush()])


def unpack(data: bytes) -> bytes:
    return data[1:] if data[:1] == UNCOMPRESSED_PREFIX else zlib.decompress(data)


def unpack_beginning(packed: bytes, max_bytes: int) -> bytes:
    """Unpack at most so many bytes of content."""
    if packed[:1] == UNCOMPRESSED_PREFIX:
        return packed[1 : max_bytes + 1]
    return zlib.decompressobj().decompress(packed, max_bytes)


def unpack_within(packed: bytes, max_bytes: int) -> bytes | None:
    """Unpack content. None: it is longer than `max_bytes`.

    A few bytes may unpack to a gigabyte of the same letter, so no more is unpacked than is wanted.
    """
    if packed[:1] == UNCOMPRESSED_PREFIX:
        return packed[1:] if len(packed) <= max_bytes + 1 else None
    unpacked = zlib.decompressobj().decompress(packed, max_bytes + 1)
    return unpacked if len(unpacked) <= max_bytes else None
