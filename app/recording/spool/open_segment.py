"""An open segment: one that is being written, locked for as long as it is open."""

import errno
import fcntl
import logging
import os
from collections.abc import Sequence
from pathlib import Path

from app.recording.spool.segment_format import HEAD_BYTES, HEADER, RESERVE_SUFFIX, SUFFIX, crc_seed, encode_head, new_segment_name

logger = logging.getLogger(__name__)

_MAX_BUFFERS = 1024  # that a kernel takes in one write


class OpenSegment:
    """One open segment. Each user holds it; once it is retired and nobody holds it, it is closed, which
    unlocks it.

    `suffix` is that of its file. If `allocate_bytes` is above 0, it is a reserve, whose space is allocated
    now, and which never grows beyond it. Raises OSError if it cannot be created; then nothing is left of it.
    """

    def __init__(self, folder: Path, allocate_bytes: int = 0, *, suffix: str = SUFFIX) -> None:
        self.name = new_segment_name()
        self.path = folder / (self.name + (RESERVE_SUFFIX if allocate_bytes else suffix))
        self.size = 0
        self._folder = folder
        self._max_bytes = allocate_bytes or None
        self._seed = crc_seed(self.name)
        self._holders = 0
        self._retired = False
        # Under another name until it is locked and has its header: an unlocked segment counts as one whose worker has exited.
        draft = folder / f"{self.name}.new"
        self.fd = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if allocate_bytes:
                os.posix_fallocate(self.fd, 0, allocate_bytes)
            self._write((HEADER,), len(HEADER))
            draft.rename(self.path)
        except OSError:
            os.close(self.fd)
            draft.unlink(missing_ok=True)
            raise

    @property
    def has_records(self) -> bool:
        return self.size > len(HEADER)

    def append(self, kind: int, flags: int, body: bytes) -> int:
        """Append a record; returns its offset. Raises OSError if there is no space; then the segment is unchanged."""
        record_head = encode_head(kind, flags, body, self._seed)
        offset = self.size
        self._write((record_head, body), HEAD_BYTES + len(body))
        return offset

    def append_all(self, kind: int, bodies: Sequence[bytes]) -> None:
        """Append many records in one write: all of them, or none. Raises as append() does."""
        buffers = [piece for body in bodies for piece in (encode_head(kind, 0, body, self._seed), body)]
        length = sum(map(len, buffers))
        self._write(buffers if len(buffers) <= _MAX_BUFFERS else (b"".join(buffers),), length)

    def hold(self) -> None:
        self._holders += 1

    def release(self) -> None:
        self._holders -= 1
        self._close_if_free()

    def retire(self) -> None:
        """Take no new exchanges; those that hold the segment may still end in it."""
        if not self._retired:
            self._retired = True
            self._close_if_free()

    def _close_if_free(self) -> None:
        if not self._retired or self._holders:
            return
        try:
            self._close_file()
        except OSError:  # a failing disk; whoever releases a segment still has records of its own to write
            logger.exception("a segment of the spool could not be closed properly")

    def _close_file(self) -> None:
        try:
            if self._max_bytes is not None and not self.has_records:
                self.path.unlink(missing_ok=True)
            elif self._max_bytes is not None:
                # The unused space goes back to the disk; from here on this is a segment like any other.
                os.ftruncate(self.fd, self.size)
                self.path.rename(self._folder / (self.name + SUFFIX))
        finally:
            os.close(self.fd)

    def _write(self, buffers: Sequence[bytes], length: int) -> None:
        if self._max_bytes is not None and self.size + length > self._max_bytes:
            raise OSError(errno.ENOSPC, "The reserve is full")
        written = 0
        try:
            written = os.pwritev(self.fd, buffers, self.size)
            if written != length:  # a partial write; writing the rest raises the reason
                joined = b"".join(buffers)
                while written != length:
                    written += os.pwrite(self.fd, joined[written:], self.size + written)
        except OSError:
            if written:
                self._roll_back()
            raise
        self.size += length

    def _roll_back(self) -> None:
        # If this fails too, the partial record is overwritten by the next one, or skipped as the torn tail of the segment.
        try:
            os.ftruncate(self.fd, self.size)
        except OSError:
            return
        if self._max_bytes is not None:
            self._max_bytes = self.size
