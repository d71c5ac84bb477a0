"""Reader: the records of one segment, in order, while its worker still writes them or after it is gone."""

import fcntl
import os
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from app.record.segment import (
    ANY_HEADER,
    EXCHANGE,
    EXCHANGE_BYTES,
    FIELDS_BYTES,
    HEAD_BYTES,
    HEADER,
    LOST,
    MAGIC,
    MAX_BODY,
    PART_BYTES,
    PART_OF_ASK,
    PART_OF_REPLY,
    seed,
    unpack_exchange,
    unpack_head,
    unpack_part,
)

CHUNK = 256 * 1024
DOUBT_S = 1.0
NO_KEY = b""


class Ended(Struct, frozen=True):
    """The record of an exchange, at [`offset`, `end`). `last_part` 0: `ask` and `reply` are all of its content."""

    offset: int
    end: int
    at_ms: int
    is_lost: bool
    last_part: int
    meta: bytes
    ask: bytes
    reply: bytes


class Damaged(Struct, frozen=True):
    """Bytes that are no record of this segment, up to the next one that is."""

    offset: int
    end: int
    reason: str


class Part(Struct, frozen=True):
    """Where bytes of an ask or reply lie: the whole record is at [`offset`, `end`)."""

    offset: int
    end: int
    is_ask: bool


class BrokenChain(Exception):
    """An exchange whose parts cannot all be read."""


class ForeignSegment(Exception):
    """A segment of another version of this software, which will read it when it is back."""


class Reader:
    """Reads on from `committed`, an offset at which an earlier reader stopped. read() until is_finished; parts and pieces as needed.

    While the worker lives, what cannot be read is taken as not yet written, until a good record behind it has proved otherwise for a
    second. Once it is gone (its lock is free) the rest is settled: a half record at the end is torn, anything else is damage.
    """

    def __init__(self, path: Path, committed: int) -> None:
        self.name = path.name.partition(".")[0]
        self.path = path
        self.position = len(HEADER)
        self.torn = 0
        self.is_finished = False
        self._committed = committed
        self._seed = seed(self.name)
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._is_live = True
        self._open_parts: dict[bytes, int] = {}
        self._doubted_since: float | None = None
        try:
            if self._is_foreign():
                raise ForeignSegment(f"{path} was written by another version and is left as it is")
        except BaseException:
            os.close(self._fd)
            raise

    @property
    def unended_parts(self) -> int:
        """Parts read so far whose exchange has not ended."""
        return sum(self._open_parts.values())

    def close(self) -> None:
        os.close(self._fd)

    def read(self, most: int) -> list[Ended | Damaged]:
        """Up to `most` further records; empty: nothing new for now, or is_finished."""
        found: list[Ended | Damaged] = []
        while not self.is_finished and len(found) < most:
            size = os.fstat(self._fd).st_size
            self._read_on(size, most, found)
            if len(found) < most and not self._settle(size, found):
                break
        return found

    def parts(self, last: int) -> list[Part]:
        """The parts of an exchange in order. Raises BrokenChain if one is not there."""
        found: list[Part] = []
        key = NO_KEY
        while last:
            first = os.pread(self._fd, HEAD_BYTES + PART_BYTES, last)
            if len(first) < HEAD_BYTES + PART_BYTES:
                raise BrokenChain(f"No part at {last}")
            magic, kind, _, _, length, _, _ = unpack_head(first)
            its_key, previous = unpack_part(first, HEAD_BYTES)
            if (
                magic != MAGIC
                or kind not in (PART_OF_ASK, PART_OF_REPLY)
                or length < PART_BYTES
                or previous >= last
                or its_key != (key or its_key)
            ):
                raise BrokenChain(f"No part of this exchange at {last}")
            key = its_key
            found.append(Part(last, last + HEAD_BYTES + length, kind == PART_OF_ASK))
            last = previous
        return found[::-1]

    def piece(self, part: Part) -> bytes:
        """The bytes of the ask or reply. Raises BrokenChain if they are damaged."""
        record = self.raw(part.offset, part.end)
        if not self._is_good(record):
            raise BrokenChain(f"The part at {part.offset} is damaged")
        return record[HEAD_BYTES + PART_BYTES :]

    def raw(self, offset: int, end: int) -> bytes:
        return os.pread(self._fd, end - offset, offset)

    def _is_foreign(self) -> bool:
        header = os.pread(self._fd, len(HEADER), 0)
        # One that is damaged in its header alone has records of ours.
        return header != HEADER and ANY_HEADER.fullmatch(header) is not None and self._next_good(os.fstat(self._fd).st_size) is None

    def _read_on(self, size: int, most: int, found: list[Ended | Damaged]) -> None:
        while len(found) < most and self.position < size:
            before = self.position
            needed = self._read_chunk(CHUNK, most, found)
            if self.position == before and CHUNK < needed <= size - before:
                self._read_chunk(needed, most, found)
            if self.position == before:
                return

    def _read_chunk(self, length: int, most: int, found: list[Ended | Damaged]) -> int:
        """Takes the good records at the position. How many bytes the record needs that was not whole; 0 if none was begun there."""
        base = self.position
        chunk = os.pread(self._fd, length, base)
        view = memoryview(chunk)
        at = 0
        while len(found) < most and at + HEAD_BYTES <= len(chunk):
            magic, kind, flags, _, length, at_ms, crc = unpack_head(chunk, at)
            if magic != MAGIC or length > MAX_BODY:
                return 0
            body = at + HEAD_BYTES
            end = body + length
            if end > len(chunk):
                return HEAD_BYTES + length
            if zlib.crc32(view[body:end], zlib.crc32(view[at : at + FIELDS_BYTES], self._seed)) != crc:
                return 0
            record = self._take(kind, flags, at_ms, chunk, body, end, base)
            self.position = base + end
            self._doubted_since = None
            if record is not None and base + at >= self._committed:
                found.append(record)
            at = end
        return 0

    def _take(self, kind: int, flags: int, at_ms: int, chunk: bytes, body: int, end: int, base: int) -> Ended | Damaged | None:
        offset = base + body - HEAD_BYTES
        if kind in (PART_OF_ASK, PART_OF_REPLY) and end - body >= PART_BYTES:
            key, _ = unpack_part(chunk, body)
            self._open_parts[key] = self._open_parts.get(key, 0) + 1
            return None
        if kind != EXCHANGE or end - body < EXCHANGE_BYTES:
            return Damaged(offset, base + end, f"a record of unknown kind {kind}")
        meta_length, ask_length, last_part = unpack_exchange(chunk, body)
        meta = body + EXCHANGE_BYTES
        ask = meta + meta_length
        reply = ask + ask_length
        if reply > end:
            return Damaged(offset, base + end, "a record whose lengths do not fit")
        if last_part:
            self._open_parts.pop(os.pread(self._fd, 16, last_part + HEAD_BYTES), None)
        return Ended(offset, base + end, at_ms, bool(flags & LOST), last_part, chunk[meta:ask], chunk[ask:reply], chunk[reply:end])

    def _settle(self, size: int, found: list[Ended | Damaged]) -> bool:
        """Decides about what does not read as a record: still to come, torn, or damaged. Whether there is more to read now."""
        if self._is_live and self._worker_is_gone():
            self._is_live = False
            return True  # what it wrote since the last look
        if self._is_live and (self.position >= size or not self._doubts_long_enough()):
            return False
        following = self._next_good(size)
        if following is not None:
            self._damage(following, found)
            return True
        if not self._is_live:
            self._end(size, found)
        return False

    def _worker_is_gone(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _doubts_long_enough(self) -> bool:
        """Whether something that is no record has stood at the position for a while. Zeros are space allocated ahead."""
        if not any(os.pread(self._fd, HEAD_BYTES, self.position)):
            return False
        now = time.monotonic()
        if self._doubted_since is None:
            self._doubted_since = now
        if now - self._doubted_since < DOUBT_S:
            return False
        self._doubted_since = now
        return True

    def _end(self, size: int, found: list[Ended | Damaged]) -> None:
        self.is_finished = True
        if self.position >= size or self._is_zero(self.position, size):
            return
        first = os.pread(self._fd, HEAD_BYTES, self.position)
        if first[: len(MAGIC)] == MAGIC[: len(first)] and (
            len(first) < HEAD_BYTES or self.position + HEAD_BYTES + unpack_head(first)[4] > size
        ):
            self.torn += 1
        else:
            self._damage(size, found)

    def _damage(self, end: int, found: list[Ended | Damaged]) -> None:
        if self.position >= self._committed:
            found.append(Damaged(self.position, end, "bytes that are no record"))
        self.position = end
        self._doubted_since = None

    def _is_zero(self, start: int, end: int) -> bool:
        return not any(chunk.strip(b"\0") for _, chunk in self._chunks(start, end, 0))

    def _next_good(self, size: int) -> int | None:
        """The offset of the first good record behind the position."""
        for base, chunk in self._chunks(self.position + 1, size, len(MAGIC) - 1):
            at = chunk.find(MAGIC)
            while at >= 0:
                head = os.pread(self._fd, HEAD_BYTES, base + at)
                end = base + at + HEAD_BYTES + (unpack_head(head)[4] if len(head) == HEAD_BYTES else 0)
                if end <= min(size, base + at + HEAD_BYTES + MAX_BODY) and self._is_good(self.raw(base + at, end)):
                    return base + at
                at = chunk.find(MAGIC, at + 1)
        return None

    def _chunks(self, start: int, end: int, overlap: int) -> Iterator[tuple[int, bytes]]:
        while start < end:
            chunk = os.pread(self._fd, CHUNK + overlap, start)
            if not chunk:
                return
            yield start, chunk
            start += CHUNK

    def _is_good(self, record: bytes) -> bool:
        """Whether these bytes are one whole record of this segment."""
        if len(record) < HEAD_BYTES:
            return False
        magic, _, _, _, length, _, crc = unpack_head(record)
        if magic != MAGIC or HEAD_BYTES + length != len(record):
            return False
        view = memoryview(record)
        return zlib.crc32(view[HEAD_BYTES:], zlib.crc32(view[:FIELDS_BYTES], self._seed)) == crc
