"""Disk space: how much the spool folder holds, and whether the disk takes more."""

import os
import secrets
import time
from pathlib import Path

from app.recording.spool.segment_format import list_segments

REFRESH_EVERY_S = 0.5
PROBE_BYTES = 256 * 1024


class DiskSpace:
    """The state of the folder, at most half a second old; bytes appended by this worker are added at once.

    `size_bytes` leaves out the space allocated ahead, which was taken when the workers started and does not grow.
    """

    def __init__(self, folder: Path, max_bytes: int, min_free_bytes: int) -> None:
        self.size_bytes = 0
        self.disk_is_full = False
        self._folder = folder
        self._max_bytes = max_bytes
        self._min_free_bytes = min_free_bytes
        self.next_refresh = 0.0  # when the state is older than REFRESH_EVERY_S, by the monotonic clock

    @property
    def is_over_limit(self) -> bool:
        return self.size_bytes >= self._max_bytes

    @property
    def is_full(self) -> bool:
        return self.disk_is_full or self.size_bytes >= self._max_bytes

    def refresh(self) -> None:
        self.next_refresh = time.monotonic() + REFRESH_EVERY_S
        self.size_bytes = sum(each.size for each in list_segments(self._folder) if not each.is_reserve)
        disk = os.statvfs(self._folder)
        free = disk.f_bavail * disk.f_frsize
        self.disk_is_full = free < self._min_free_bytes or (self.disk_is_full and not self._can_allocate())

    def _can_allocate(self) -> bool:
        # Tried, not computed: a quota or a limit on file sizes does not show in free blocks.
        path = self._folder / f"probe-{secrets.token_hex(4)}"
        try:
            fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(fd, 0, PROBE_BYTES)
            finally:
                os.close(fd)
                path.unlink()
        except OSError:
            return False
        return True
