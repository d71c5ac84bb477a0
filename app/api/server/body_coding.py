"""Content codings of callers' bodies: gzip, deflate and zstd are decoded piece by piece, within the bounds of a body that is not encoded.

A few bytes may decode to any number, and a body may consist of any number of empty members: both are bounded while it is decoded.
"""

import zlib
from collections.abc import Awaitable, Callable, Iterator
from io import BytesIO
from typing import Any, Protocol, cast

from app.api.server.http_call import body_too_large
from app.gateway.upstream.content_coding import Inflater
from providers.canonical.errors import InvalidRequest, UnsupportedMediaType

try:
    from compression import zstd  # pyright: ignore[reportMissingImports, reportUnknownVariableType]
except ImportError:
    try:
        from backports import zstd
    except ImportError:  # Python may be built without
        zstd = None
_zstd = cast("Any", zstd)

# A coding applied twice is none of these: nobody does so.
CODINGS = ("gzip", "deflate", *(("zstd",) if _zstd is not None else ()))
_FAULTS: tuple[type[Exception], ...] = (zlib.error,) if _zstd is None else (zlib.error, _zstd.ZstdError)
_ALIASES = {"x-gzip": "gzip"}
_BLOCK_BYTES = 16 * 1024
_PIECE_BYTES = 16 * 1024
# Decoded, or read, before others have their turn.
_BYTES_AT_ONCE = 64 * 1024
# Of gzip, and frames of zstd. Clients write one; tools that compress in parallel write one a MiB or so.
_MAX_MEMBERS = 64
# The window that decoders have to have, https://www.rfc-editor.org/rfc/rfc9659, read 2026-11: a larger one would be memory of its own.
_ZSTD_WINDOW_LOG = 23


class _Decoder(Protocol):
    """Decodes a body, which may be several members in a row."""

    members: int  # how many have begun

    @property
    def complete(self) -> bool: ...  # the last of the members has ended

    def feed(self, block: bytes) -> Iterator[bytes]: ...


def read_coding(header: bytes | None) -> str | None:
    """The coding that is to be decoded; None: there is none. Raises UnsupportedMediaType for another."""
    name = b"" if header is None else header.strip().lower()
    if name in (b"", b"identity"):
        return None
    text = name.decode("latin-1")
    coding = _ALIASES.get(text, text)
    if coding not in CODINGS:
        raise UnsupportedMediaType(
            f"Content-Encoding {text:.40} is not supported: send the body uncompressed, or with one of {', '.join(CODINGS)}.",
            accepted=", ".join(CODINGS),
        )
    return coding


async def decode_body(
    raw: bytes, coding: str, limit_bytes: int, claim: Callable[[int], None], wait_for_turn: Callable[[], Awaitable[None]]
) -> bytes:
    """The decoded body. `claim` is called with its size as it grows beyond what is decoded at once; what it raises ends the decoding.

    Raises BodyTooLarge beyond the limit, InvalidRequest for what is not of this coding.
    """
    decoder: _Decoder = _Unzstd() if coding == "zstd" else Inflater(coding.encode())
    decoded, since_turn = BytesIO(), 0
    try:
        for start in range(0, len(raw), _BLOCK_BYTES):
            block = raw[start : start + _BLOCK_BYTES]
            since_turn += len(block)
            for piece in decoder.feed(block):
                decoded.write(piece)
                since_turn += len(piece)
                size_bytes = decoded.tell()
                if size_bytes > limit_bytes:
                    raise body_too_large(limit_bytes)
                if since_turn > _BYTES_AT_ONCE:
                    claim(len(raw) + size_bytes)
                    since_turn = 0
                    await wait_for_turn()
            if since_turn > _BYTES_AT_ONCE:  # any number of blocks may decode to nothing, which takes its time, too
                since_turn = 0
                await wait_for_turn()
            if decoder.members > _MAX_MEMBERS:
                raise InvalidRequest(f"The body has more than {_MAX_MEMBERS} compressed parts; compress it as a whole.")
    except _FAULTS as error:
        raise InvalidRequest(f"The body is not the {coding} that its Content-Encoding says: {error}.") from None
    if not decoder.complete:
        raise InvalidRequest(f"The body ends in the middle of its {coding} encoding.")
    return decoded.getvalue()


class _Unzstd:
    """Decodes frames of zstd."""

    def __init__(self) -> None:
        self.members = 0
        self._decompressor: Any = None

    @property
    def complete(self) -> bool:
        return self._decompressor is None or self._decompressor.eof

    def feed(self, block: bytes) -> Iterator[bytes]:
        while block:
            if self.complete:
                options = {_zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG}
                self._decompressor = _zstd.ZstdDecompressor(options=options)
                self.members += 1
            decompressor = self._decompressor
            while True:
                if piece := decompressor.decompress(block, _PIECE_BYTES):
                    yield piece
                if decompressor.eof or decompressor.needs_input:
                    break
                block = b""  # it keeps what it has not decoded yet
            block = decompressor.unused_data if decompressor.eof else b""
