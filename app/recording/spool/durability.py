"""Durability: when appended records are synced to disk."""

import asyncio
import logging
import os
from pathlib import Path
from typing import Literal

from app.recording.spool.open_segment import OpenSegment

logger = logging.getLogger(__name__)


class Durability:
    """Syncs segments as the mode says: mark_dirty() after each append, then wait_until_durable().

    A failed fsync is counted and logged, not raised: the record survives kill -9 all the same, and the response is good.
    """

    def __init__(self, mode: Literal["never", "group", "always"], group_ms: float) -> None:
        self.failed = 0
        self.is_awaited = mode != "never"
        self._mode = mode
        self._group_s = group_ms / 1000
        self._dirty: set[OpenSegment] = set()
        self._pending_group: asyncio.Task[None] | None = None
        self._syncing: asyncio.Task[None] | None = None

    def sync_folder(self, folder: Path) -> None:
        """Sync the folder after a segment was created: its name must survive too."""
        if self._mode != "never":
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                self._sync(fd)
            finally:
                os.close(fd)

    def mark_dirty(self, segment: OpenSegment) -> None:
        if self._mode == "always":
            self._sync(segment.fd)
        elif self._mode == "group" and segment not in self._dirty:
            segment.hold()
            self._dirty.add(segment)

    async def wait_until_durable(self) -> None:
        if self._dirty:
            if self._pending_group is None:
                self._pending_group = asyncio.create_task(self._sync_group())
            await asyncio.shield(self._pending_group)
        elif self._syncing is not None:
            await asyncio.shield(self._syncing)

    def close(self) -> None:
        """Sync everything that is still dirty, now."""
        dirty, self._dirty = self._dirty, set()
        for segment in dirty:
            self._sync(segment.fd)
            segment.release()

    async def _sync_group(self) -> None:
        await asyncio.sleep(self._group_s)
        dirty, self._dirty = self._dirty, set()
        self._syncing, self._pending_group = self._pending_group, None
        try:
            await asyncio.to_thread(self._sync_all, [segment.fd for segment in dirty])
        except Exception:  # such as no thread to be had
            self.failed += 1
            logger.exception("the spool could not be synced: its last records would not survive a loss of power")
        finally:
            for segment in dirty:
                segment.release()
            if self._syncing is asyncio.current_task():
                self._syncing = None

    def _sync_all(self, fds: list[int]) -> None:
        for fd in fds:
            self._sync(fd)

    def _sync(self, fd: int) -> None:
        try:
            os.fsync(fd)
        except OSError:
            self.failed += 1
            logger.exception("fsync of the spool failed: its last records would not survive a loss of power")
