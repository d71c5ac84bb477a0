"""The reader of a segment: its records in order, while its worker still writes them or after it has exited."""

import fcntl
import os
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

from app.recording.spool.segment_format import (
    ANY_HEADER,
    CONTENT_LOST,
    EXCHANGE,
    EXCHANGE_BYTES,
    FEEDBACK,
    FIELDS_BYTES,
    HEAD_BYTES,
    HEADER,
    MAGIC,
    MAX_BODY_BYTES,
    PART_BYTES,
    PART_OF_REQUEST,
    PART_OF_RESPONSE,
    REFUSALS,
    crc_seed,
    unpack_exchange,
    unpack_head,
    unpack_part,
)
from app.recording.spool.segment_records import (
    BrokenPartChain,
    DamagedBytes,
    ExchangeRecord,
    FeedbackRecord,
    PartLocation,
    Record,
    RefusalsRecord,
    UnknownSegmentVersion,
)

CHUNK_BYTES = 256 * 1024
UNREADABLE_GRACE_S = 1.0
UNKNOWN_KEY = b""


class SegmentReader:
    """Reads one segment: read() until is_finished; parts() and part_content() as needed.

    Records before `committed`, where an earlier reader stopped, are skipped. While the worker lives, bytes that are not a record count
    as not yet written, until a good record behind them has been there for a second. Once it has exited (its lock is free) what is left
    is final: a partial record at the end is torn, anything else is damage.
    """

    def __init__(self, path: Path, committed: int) -> None:
        self.name = path.name.partition(".")[0]
        self.path = path
        self.position = len(HEADER)
        self.torn_records = 0
        self.is_finished = False
        self._committed_position = committed
        self._seed = crc_seed(self.name)
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._is_worker_alive = True
        self._open_parts: dict[bytes, int] = {}
        self._unreadable_since: float | None = None
        try:
            if self._is_other_version():
                raise UnknownSegmentVersion(f"{path} was written by another version and is left alone")
        except BaseException:
            os.close(self._fd)
            raise

    @property
    def unfinished_parts(self) -> int:
        """The number of parts that were read whose exchange has not ended."""
        return sum(self._open_parts.values())

    def close(self) -> None:
        os.close(self._fd)

    def read(self, max_records: int) -> list[Record]:
        """Returns up to `max_records` further records.

        If there are none, there is nothing new for now, or is_finished.
        """
        records: list[Record] = []
        while not self.is_finished and len(records) < max_records:
            size = os.fstat(self._fd).st_size
            self._read_records(size, max_records, records)
            if len(records) < max_records and not self._resolve_unreadable(size, records):
                break
        return records

    def parts(self, last_part: int) -> list[PartLocation]:
        """The parts of an exchange in order. Raises BrokenPartChain if one is missing."""
        chain: list[PartLocation] = []
        key = UNKNOWN_KEY
        while last_part:
            head = os.pread(self._fd, HEAD_BYTES + PART_BYTES, last_part)
            if len(head) < HEAD_BYTES + PART_BYTES:
                raise BrokenPartChain(f"No part at {last_part}")
            magic, kind, _, _, length, _, _ = unpack_head(head)
            part_key, previous = unpack_part(head, HEAD_BYTES)
            if (
                magic != MAGIC
                or kind not in (PART_OF_REQUEST, PART_OF_RESPONSE)
                or length < PART_BYTES
                or previous >= last_part
                or part_key != (key or part_key)
            ):
                raise BrokenPartChain(f"No part of this exchange at {last_part}")
            key = part_key
            chain.append(PartLocation(last_part, last_part + HEAD_BYTES + length, kind == PART_OF_REQUEST))
            last_part = previous
        return chain[::-1]

    def part_content(self, part: PartLocation) -> bytes:
        """The bytes of a request or response in a part. Raises BrokenPartChain if they are damaged."""
        record = self.raw_bytes(part.offset, part.end)
        if not self._is_good(record):
            raise BrokenPartChain(f"The part at {part.offset} is damaged")
        return record[HEAD_BYTES + PART_BYTES :]

    def raw_bytes(self, offset: int, end: int) -> bytes:
        return os.pread(self._fd, end - offset, offset)

    def _is_other_version(self) -> bool:
        header = os.pread(self._fd, len(HEADER), 0)
        # A segment of this version whose header alone is damaged still has good records.
        return header != HEADER and ANY_HEADER.fullmatch(header) is not None and self._find_next_good(os.fstat(self._fd).st_size) is None

    def _read_records(self, size: int, max_records: int, records: list[Record]) -> None:
        while len(records) < max_records and self.position < size:
            start = self.position
            needed = self._read_chunk(CHUNK_BYTES, max_records, records)
            if self.position == start and CHUNK_BYTES < needed <= size - start:
                self._read_chunk(needed, max_records, records)
            if self.position == start:
                return

    def _read_chunk(self, length: int, max_records: int, records: list[Record]) -> int:
        """Read the good records at the position. Returns how many bytes an incomplete record needs; 0 if there is none."""
        base = self.position
        chunk = os.pread(self._fd, length, base)
        view = memoryview(chunk)
        at = 0
        while len(records) < max_records and at + HEAD_BYTES <= len(chunk):
            magic, kind, flags, _, length, at_ms, crc = unpack_head(chunk, at)
            if magic != MAGIC or length > MAX_BODY_BYTES:
                return 0
            body = at + HEAD_BYTES
            end = body + length
            if end > len(chunk):
                return HEAD_BYTES + length
            if zlib.crc32(view[body:end], zlib.crc32(view[at : at + FIELDS_BYTES], self._seed)) != crc:
                return 0
            record = self._parse_record(kind, flags, at_ms, chunk, body, end, base)
            self.position = base + end
            self._unreadable_since = None
            if record is not None and base + at >= self._committed_position:
                records.append(record)
            at = end
        return 0

    def _parse_record(self, kind: int, flags: int, at_ms: int, chunk: bytes, body: int, end: int, base: int) -> Record | None:
        offset = base + body - HEAD_BYTES
        if kind in (PART_OF_REQUEST, PART_OF_RESPONSE) and end - body >= PART_BYTES:
            key, _ = unpack_part(chunk, body)
            self._open_parts[key] = self._open_parts.get(key, 0) + 1
            return None
        if kind == REFUSALS:
            return RefusalsRecord(offset, base + end, chunk[body:end])
        if kind == FEEDBACK:
            return FeedbackRecord(offset, base + end, chunk[body:end])
        if kind != EXCHANGE or end - body < EXCHANGE_BYTES:
            return DamagedBytes(offset, base + end, f"a record of unknown kind {kind}")
        meta_length, request_length, last_part = unpack_exchange(chunk, body)
        meta = body + EXCHANGE_BYTES
        request = meta + meta_length
        response = request + request_length
        if response > end:
            return DamagedBytes(offset, base + end, "a record whose lengths do not fit")
        if last_part:
            self._open_parts.pop(os.pread(self._fd, 16, last_part + HEAD_BYTES), None)
        return ExchangeRecord(
            offset,
            base + end,
            at_ms,
            bool(flags & CONTENT_LOST),
            last_part,
            chunk[meta:request],
            chunk[request:response],
            chunk[response:end],
        )

    def _resolve_unreadable(self, size: int, records: list[Record]) -> bool:
        """Decide about bytes that are not a record: not yet written, torn, or damaged. Returns whether there is more to read now."""
        if self._is_worker_alive and self._has_worker_exited():
            self._is_worker_alive = False
            return True  # it may have written more since the last look
        if self._is_worker_alive and (self.position >= size or not self._is_unreadable_long_enough()):
            return False
        next_good = self._find_next_good(size)
        if next_good is not None:
            self._skip_damage(next_good, records)
            return True
        if not self._is_worker_alive:
            self._finish(size, records)
        return False

    def _has_worker_exited(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _is_unreadable_long_enough(self) -> bool:
        """Returns whether bytes that are not a record have been at the position for a while.

        Zeros are space allocated ahead.
        """
        if not any(os.pread(self._fd, HEAD_BYTES, self.position)):
            return False
        now = time.monotonic()
        if self._unreadable_since is None:
            self._unreadable_since = now
        if now - self._unreadable_since < UNREADABLE_GRACE_S:
            return False
        self._unreadable_since = now
        return True

    def _finish(self, size: int, records: list[Record]) -> None:
        self.is_finished = True
        if self.position >= size or self._is_zero(self.position, size):
            return
        head = os.pread(self._fd, HEAD_BYTES, self.position)
        if head[: len(MAGIC)] == MAGIC[: len(head)] and (
            len(head) < HEAD_BYTES or self.position + HEAD_BYTES + unpack_head(head)[4] > size
        ):
            self.torn_records += 1
        else:
            self._skip_damage(size, records)

    def _skip_damage(self, end: int, records: list[Record]) -> None:
        if self.position >= self._committed_position:
            records.append(DamagedBytes(self.position, end, "bytes that are not a record"))
        self.position = end
        self._unreadable_since = None

    def _is_zero(self, start: int, end: int) -> bool:
        return not any(chunk.strip(b"\0") for _, chunk in self._chunks(start, end, 0))

    def _find_next_good(self, size: int) -> int | None:
        """The offset of the first good record behind the position."""
        for base, chunk in self._chunks(self.position + 1, size, len(MAGIC) - 1):
            at = chunk.find(MAGIC)
            while at >= 0:
                head = os.pread(self._fd, HEAD_BYTES, base + at)
                end = base + at + HEAD_BYTES + (unpack_head(head)[4] if len(head) == HEAD_BYTES else 0)
                if end <= min(size, base + at + HEAD_BYTES + MAX_BODY_BYTES) and self._is_good(self.raw_bytes(base + at, end)):
                    return base + at
                at = chunk.find(MAGIC, at + 1)
        return None

    def _chunks(self, start: int, end: int, overlap: int) -> Iterator[tuple[int, bytes]]:
        while start < end:
            chunk = os.pread(self._fd, CHUNK_BYTES + overlap, start)
            if not chunk:
                return
            yield start, chunk
            start += CHUNK_BYTES

    def _is_good(self, record: bytes) -> bool:
        """Returns whether these bytes are one complete record of this segment."""
        if len(record) < HEAD_BYTES:
            return False
        magic, _, _, _, length, _, crc = unpack_head(record)
        if magic != MAGIC or HEAD_BYTES + length != len(record):
            return False
        view = memoryview(record)
        return zlib.crc32(view[HEAD_BYTES:], zlib.crc32(view[:FIELDS_BYTES], self._seed)) == crc
