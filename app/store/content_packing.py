"""How asks and replies lie in Postgres: zlib, or as they are behind a zero byte where that would not make them smaller.

A zlib stream never begins with a zero byte (its first byte names the method, 8: RFC 1950), so a reader can tell.
"""

import zlib
from collections.abc import Iterable

UNCOMPRESSED_PREFIX = b"\x00"
MIN_COMPRESS_BYTES = 200  # below, zlib saves a few bytes for ten microseconds


def pack(data: bytes) -> bytes:
    return UNCOMPRESSED_PREFIX + data if len(data) < MIN_COMPRESS_BYTES else zlib.compress(data, 1)


def pack_pieces(pieces: Iterable[bytes]) -> bytes:
    """Like pack(), for what is too long to be held whole."""
    stream = zlib.compressobj(1)
    return b"".join([*[stream.compress(piece) for piece in pieces], stream.flush()])


def unpack(data: bytes) -> bytes:
    """The bytes as they passed."""
    return data[1:] if data[:1] == UNCOMPRESSED_PREFIX else zlib.decompress(data)
