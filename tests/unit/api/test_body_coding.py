"""Compressed bodies of callers: decoded whole, in pieces, and never beyond what a body may take."""

import gzip
import tracemalloc
import zlib

import pytest
from backports import zstd

from app.api.server.body_coding import decode_body, read_coding
from providers.canonical.errors import BodyMemoryExceeded, BodyTooLarge, InvalidRequest, NarthexError, UnsupportedMediaType

CONTENT = bytes(range(256)) * 3000 + b"the end"


def bare_deflate(content: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(content) + compressor.flush()


ENCODED = {
    "gzip": ("gzip", gzip.compress(CONTENT)),
    "members of gzip": ("gzip", gzip.compress(CONTENT[:3]) + gzip.compress(b"") + gzip.compress(CONTENT[3:])),
    "deflate": ("deflate", zlib.compress(CONTENT)),
    "bare deflate": ("deflate", bare_deflate(CONTENT)),
    "zstd": ("zstd", zstd.compress(CONTENT)),
    "frames of zstd": ("zstd", zstd.compress(CONTENT[:3]) + zstd.compress(b"") + zstd.compress(CONTENT[3:])),
    "the strongest zstd": ("zstd", zstd.compress(CONTENT, 19)),
}
WRITERS = {"gzip": gzip.compress, "deflate": zlib.compress, "zstd": zstd.compress}


class Turns:
    """Turns of the event loop. `claimed` is the newest size, and `taken` how often others had their turn."""

    def __init__(self) -> None:
        self.claimed = self.taken = 0

    def claim(self, size_bytes: int) -> None:
        self.claimed = size_bytes

    async def wait(self) -> None:
        self.taken += 1


async def decode(raw: bytes, coding: str, limit_bytes: int = 10_000_000, turns: Turns | None = None) -> bytes:
    turns = turns or Turns()
    return await decode_body(raw, coding, limit_bytes, turns.claim, turns.wait)


@pytest.mark.parametrize("name", ENCODED)
async def test_body_is_decoded_in_turns_and_counted(name: str) -> None:
    coding, raw = ENCODED[name]
    turns = Turns()
    assert await decode(raw, coding, turns=turns) == CONTENT
    assert turns.taken >= len(CONTENT) // (100 * 1024) and turns.claimed > len(CONTENT) - 100_000


@pytest.mark.parametrize("coding", WRITERS)
async def test_small_body_takes_no_turn_and_an_empty_one_is_empty(coding: str) -> None:
    turns = Turns()
    assert await decode(WRITERS[coding](b"{}"), coding, turns=turns) == b"{}" and not turns.taken and not turns.claimed
    assert await decode(WRITERS[coding](b""), coding) == b""


@pytest.mark.parametrize("coding", WRITERS)
async def test_bomb_ends_at_the_limit_without_its_memory(coding: str) -> None:
    bomb = WRITERS[coding](bytes(200_000_000))
    tracemalloc.start()
    with pytest.raises(BodyTooLarge):
        await decode(bomb, coding, 1_000_000)
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
async def test_many_empty_parts_are_refused_before_they_cost_time(coding: str) -> None:
    with pytest.raises(InvalidRequest, match="compressed parts"):
        await decode(WRITERS[coding](b"") * 300_000, coding)


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_others_have_their_turn_while_a_body_decodes_to_nothing(coding: str) -> None:
    empty_blocks = int(("010" + "0000000") * 4, 2)  # four of ten bits, of deflate's fixed codes: https://www.rfc-editor.org/rfc/rfc1951
    blocks = int(f"{empty_blocks:040b}"[::-1], 2).to_bytes(5, "little") * 200_000 + b"\x01\x00\x00\xff\xff"
    ends = {"gzip": (b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", bytes(8)), "deflate": (b"\x78\x9c", b"\x00\x00\x00\x01")}
    head, tail = ends[coding]
    turns = Turns()
    assert await decode(head + blocks + tail, coding, turns=turns) == b"" and turns.taken >= len(blocks) // (100 * 1024)


@pytest.mark.parametrize("coding", WRITERS)
@pytest.mark.parametrize("raw", [b"{}", b"x" * 40_000, CONTENT], ids=["short", "long", "other"])
async def test_body_of_another_coding_is_refused_by_its_name(coding: str, raw: bytes) -> None:
    with pytest.raises(InvalidRequest, match=coding):
        await decode(raw, coding)


@pytest.mark.parametrize("coding", WRITERS)
async def test_body_that_breaks_off_is_refused(coding: str) -> None:
    raw = WRITERS[coding](CONTENT)
    for end in (1, len(raw) // 2, len(raw) - 1):
        with pytest.raises(InvalidRequest, match=r"middle|not the"):
            await decode(raw[:end], coding)


async def test_zstd_with_a_window_of_its_own_memory_is_refused() -> None:
    compressor = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: 27})
    raw = compressor.compress(CONTENT * 20) + compressor.flush()
    with pytest.raises(InvalidRequest, match="zstd"):
        await decode(raw, "zstd", 100_000_000)


async def test_memory_that_is_not_there_ends_the_decoding() -> None:
    def refuse(size_bytes: int) -> None:
        raise BodyMemoryExceeded("No.", retry_after_s=1)

    with pytest.raises(BodyMemoryExceeded):
        await decode_body(gzip.compress(CONTENT), "gzip", 10_000_000, refuse, Turns().wait)


@pytest.mark.parametrize(
    ("header", "coding"),
    [(None, None), (b"", None), (b"identity", None), (b" GZIP ", "gzip"), (b"x-gzip", "gzip"), (b"zstd", "zstd"), (b"deflate", "deflate")],
)
def test_coding_is_read_in_any_letters(header: bytes | None, coding: str | None) -> None:
    assert read_coding(header) == coding


@pytest.mark.parametrize("header", [b"br", b"gzip, gzip", b"aws-chunked", b"\xff"])
def test_unknown_coding_is_refused_with_those_that_are_known(header: bytes) -> None:
    with pytest.raises(UnsupportedMediaType, match="gzip, deflate, zstd") as refused:
        read_coding(header)
    assert isinstance(refused.value, NarthexError) and (refused.value.status, refused.value.accepted) == (415, "gzip, deflate, zstd")
