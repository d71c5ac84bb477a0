"""The format of spool segments: their names, and the records in them.

    segment  =  HEADER, then records one after another; zeros (space allocated ahead) or the end of the file end it
    record   =  head: magic, kind, flags, length of the body, when (Unix ms), CRC-32 of all that and the body; then the body
    PART     =  id of the exchange, offset of its previous part (0: this is the first), bytes of its ask or reply
    EXCHANGE =  length of the metadata, length of the ask, offset of its last part (0: it has none), metadata, ask, reply

Parts and the exchange that ends them lie in one segment, linked backwards: whoever reads an exchange finds its parts by their offsets and
keeps nothing in memory for the others. The CRC starts from the segment's name, which nobody can guess: bytes of a caller that look like a
record are none, also where damage makes a reader search for the next one.
"""

import os
import re
import secrets
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HEADER = b"NARTHEX-SPOOL-1\n"
ANY_HEADER = re.compile(rb"NARTHEX-SPOOL-[0-9A-Z]\n")  # of all versions: a segment of another one is left alone
MAGIC = b"\xa7NTX"
SUFFIX = ".spool"
RESERVE_SUFFIX = ".reserve"

PART_OF_REQUEST, PART_OF_RESPONSE, EXCHANGE = 1, 2, 3
CONTENT_LOST = 1  # flag of an EXCHANGE: there was no space for its ask and reply

MAX_BODY_BYTES = 64 * 1024 * 1024  # a longer one is damage; the spool writes none

_FIELDS = struct.Struct("<4sBBHIQ")
_CRC = struct.Struct("<I")
_PART = struct.Struct("<16sQ")
_EXCHANGE = struct.Struct("<IIQ")
FIELDS_BYTES = _FIELDS.size
HEAD_BYTES = _FIELDS.size + _CRC.size
PART_BYTES = _PART.size

unpack_head = struct.Struct("<4sBBHIQI").unpack_from  # magic, kind, flags, 0, length, at_ms, crc
unpack_part = _PART.unpack_from
unpack_exchange = _EXCHANGE.unpack_from
EXCHANGE_BYTES = _EXCHANGE.size
pack_part = _PART.pack
pack_exchange = _EXCHANGE.pack


def new_segment_name() -> str:
    """Globally unique, and sorted by time."""
    return f"{time.time_ns() // 1000:014x}-{secrets.token_hex(8)}"


def segment_created_ms(name: str) -> int:
    """When the segment was begun, as Unix time."""
    return int(name[:14], 16) // 1000


def crc_seed(name: str) -> int:
    """Where the CRCs of a segment's records start."""
    return zlib.crc32(name.encode())


def encode_head(kind: int, flags: int, body: bytes, initial_crc: int) -> bytes:
    """What stands before `body` in a segment whose seed is `begin`."""
    fields = _FIELDS.pack(MAGIC, kind, flags, 0, len(body), time.time_ns() // 1_000_000)
    return fields + _CRC.pack(zlib.crc32(body, zlib.crc32(fields, initial_crc)))


class SegmentFile(NamedTuple):
    """A segment in the folder. `reserved`: its size is space allocated ahead, and says nothing about what is in it."""

    name: str
    path: str
    size: int
    changed_at: float
    is_reserve: bool


def list_segments(folder: Path) -> Iterator[SegmentFile]:
    """Every segment in the folder, in no order; those that end meanwhile may be missing."""
    with os.scandir(folder) as entries:
        for entry in entries:
            is_reserve = entry.name.endswith(RESERVE_SUFFIX)
            if is_reserve or entry.name.endswith(SUFFIX):
                try:
                    stat = entry.stat()
                except FileNotFoundError:
                    continue
                yield SegmentFile(entry.name.partition(".")[0], entry.path, stat.st_size, stat.st_mtime, is_reserve)
