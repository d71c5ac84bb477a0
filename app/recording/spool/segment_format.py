"""The format of spool segments: their names, and the records in them.

    segment  =  HEADER, then records one after another, until zeros (space allocated ahead) or the end of the file
    record   =  head: magic, kind, flags, length of the body, time (Unix ms), CRC-32 of these and the body; then the body
    PART     =  id of the exchange, offset of its previous part (0: this is the first), bytes of its request or response
    EXCHANGE =  length of the metadata, length of the request, offset of its last part (0: it has none), metadata, request, response
    REFUSALS =  counts and samples of refused requests (refusal_records.py), in segments of their own: older writers do not know them
    FEEDBACK =  one feedback of a caller (feedback_records.py), in segments of their own for the same reason

Parts and the exchange that ends them are in one segment, linked backwards: the reader of an exchange finds its parts by their offsets
and keeps nothing in memory for other exchanges. The CRC starts from the segment's name, which nobody can guess: bytes of a caller that
look like a record are not taken for one, not even where damage makes the reader search for the next record.
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
ANY_HEADER = re.compile(rb"NARTHEX-SPOOL-[0-9A-Z]\n")  # of any version: segments of other versions are left alone
MAGIC = b"\xa7NTX"
SUFFIX = ".spool"
RESERVE_SUFFIX = ".reserve"
REFUSALS_SUFFIX = ".refusals"
FEEDBACK_SUFFIX = ".feedback"

PART_OF_REQUEST, PART_OF_RESPONSE, EXCHANGE, REFUSALS, FEEDBACK = 1, 2, 3, 4, 5
CONTENT_LOST = 1  # flag of an EXCHANGE: there was no space for its request and response

MAX_BODY_BYTES = 64 * 1024 * 1024  # the spool never writes a longer one, so it is damage

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
    """A globally unique name; names sort by time."""
    return f"{time.time_ns() // 1000:014x}-{secrets.token_hex(8)}"


def segment_created_ms(name: str) -> int:
    """Returns when the segment was created, in milliseconds of Unix time."""
    return int(name[:14], 16) // 1000


def crc_seed(name: str) -> int:
    """The initial value of the CRCs of a segment's records."""
    return zlib.crc32(name.encode())


def encode_head(kind: int, flags: int, body: bytes, initial_crc: int) -> bytes:
    """Returns the head of a record with this body. `initial_crc` is the segment's crc_seed()."""
    fields = _FIELDS.pack(MAGIC, kind, flags, 0, len(body), time.time_ns() // 1_000_000)
    return fields + _CRC.pack(zlib.crc32(body, zlib.crc32(fields, initial_crc)))


class SegmentFile(NamedTuple):
    """A segment in the folder.

    If `is_reserve`, its size is space allocated ahead, and says nothing about its content.
    """

    name: str
    path: str
    size: int
    changed_at: float
    is_reserve: bool


def list_segments(folder: Path) -> Iterator[SegmentFile]:
    """Every segment in the folder, unordered; segments that are removed meanwhile may be missing."""
    with os.scandir(folder) as entries:
        for entry in entries:
            is_reserve = entry.name.endswith(RESERVE_SUFFIX)
            if is_reserve or entry.name.endswith((SUFFIX, REFUSALS_SUFFIX, FEEDBACK_SUFFIX)):
                try:
                    stat = entry.stat()
                except FileNotFoundError:
                    continue
                yield SegmentFile(entry.name.partition(".")[0], entry.path, stat.st_size, stat.st_mtime, is_reserve)


def exchange_body(meta: bytes, request: bytes, response: bytes, last_part: int = 0) -> bytes:
    """Returns the body of a record of an exchange. Its content is in it, or in parts of which `last_part` is the last."""
    return b"%b%b%b%b" % (pack_exchange(len(meta), len(request), last_part), meta, request, response)
