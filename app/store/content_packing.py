"""Packing of content: zlib, or a zero byte and the plain bytes where compression would not make them smaller.

A zlib stream never begins with a zero byte (its first byte names the method, 8: RFC 1950), so the two are told apart by it.
"""

import zlib
from collections.abc import Iterable

UNCOMPRESSED_PREFIX = b"\x00"
MIN_COMPRESS_BYTES = 200  # below, zlib saves a few bytes for ten microseconds


def pack(data: bytes) -> bytes:
    return UNCOMPRESSED_PREFIX + data if len(data) < MIN_COMPRESS_BYTES else zlib.compress(data, 1)


def pack_pieces(pieces: Iterable[bytes]) -> bytes:
    """Like pack(), for content that is too long to be held in memory at once."""
    stream = zlib.compressobj(1)
    return b"".join([*[stream.compress(piece) for piece in pieces], stream.flush()])


def unpack(data: bytes) -> bytes:
    return data[1:] if data[:1] == UNCOMPRESSED_PREFIX else zlib.decompress(data)


def unpack_within(packed: bytes, max_bytes: int) -> bytes | None:
    """Unpack content. None: it is longer than `max_bytes`.

    A few bytes may unpack to a gigabyte of the same letter, so no more is unpacked than is wanted.
    """
    if packed[:1] == UNCOMPRESSED_PREFIX:
        return packed[1:] if len(packed) <= max_bytes + 1 else None
    unpacked = zlib.decompressobj().decompress(packed, max_bytes + 1)
    return unpacked if len(unpacked) <= max_bytes else None
