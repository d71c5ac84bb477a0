"""The spool's folder, as the writer uses it: its lock, its id, and removal of files."""

import asyncio
import contextlib
import fcntl
import logging
import os
import time
import uuid
from collections.abc import AsyncGenerator
from pathlib import Path

from app.recording.spool.segment_format import FEEDBACK_SUFFIX, HEAD_BYTES, MAGIC, REFUSALS_SUFFIX, RESERVE_SUFFIX, SUFFIX, unpack_head

logger = logging.getLogger(__name__)

STALE_FILE_S = 60.0


@contextlib.asynccontextmanager
async def exclusive_lock(folder: Path, stop: asyncio.Event) -> AsyncGenerator[bool]:
    """Hold the spool's lock; yields False if `stop` was set before it was free."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    fd = os.open(folder / "writer.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        has_waited = False
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not has_waited:
                    logger.warning("Another writer is running for %s; waiting for it to end", folder)
                    has_waited = True
            else:
                yield True
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), 0.2)
                yield False
                return
    finally:
        os.close(fd)


def spool_id(folder: Path) -> str:
    """The id of this spool, which tells it from other machines' in the database; created once."""
    path = folder / "id"
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        draft = folder / "id.new"
        draft.write_text(str(uuid.uuid4()))
        draft.rename(path)
        return path.read_text().strip()


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def record_written_ms(path: str, position: int) -> int:
    """Returns when the record at a position was written, in milliseconds of Unix time, or 0 if there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        record_head = os.pread(fd, HEAD_BYTES, position)
    finally:
        os.close(fd)
    if len(record_head) < HEAD_BYTES or record_head[: len(MAGIC)] != MAGIC:
        return 0
    return unpack_head(record_head)[5]


def remove_segment(folder: Path, name: str) -> None:
    """Remove a finished segment, durably: it does not come back after a loss of power."""
    # A reserve is renamed when its worker closes it, and keeps its name if that was killed.
    for suffix in (SUFFIX, REFUSALS_SUFFIX, FEEDBACK_SUFFIX, RESERVE_SUFFIX):
        (folder / (name + suffix)).unlink(missing_ok=True)
    _sync_folder(folder)


def remove_stale_files(folder: Path) -> None:
    """Remove unfinished files that a killed worker left; they hold no records."""
    for path in [*folder.glob("*.new"), *folder.glob("probe-*")]:
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_mtime < time.time() - STALE_FILE_S:
                path.unlink()
