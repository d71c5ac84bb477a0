"""Progress of the spool: whether this machine's records have been stored in Postgres."""

import asyncio
import os
import time
from collections.abc import Mapping
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from app.recording.spool.segment_format import (
    EXCHANGE,
    HEAD_BYTES,
    HEADER,
    MAGIC,
    MAX_BODY_BYTES,
    RESERVE_SUFFIX,
    SUFFIX,
    list_segments,
    unpack_head,
)
from app.store.postgres.tables import spool_positions

_POLL_EVERY_S = 0.05


async def wait_until_stored(folder: Path, database: AsyncEngine, *, timeout_s: float) -> bool:
    """Wait until every exchange that had ended in this spool at the call is in Postgres or quarantined.

    True means that sums read from now on include them all. A quarantined record counts once a good one behind it is stored, or its
    segment is finished. Returns False after `timeout_s`. Raises one of DB_UNAVAILABLE_ERRORS.
    """
    deadline = time.monotonic() + timeout_s
    await asyncio.sleep(0)  # exchanges that ended in this iteration of the loop are written to the spool at its end
    unstored = await asyncio.to_thread(_last_exchange_ends, folder)
    while True:
        unstored = await _unstored(folder, database, unstored)
        if not unstored:
            return True
        if time.monotonic() >= deadline:
            return False
        await asyncio.sleep(min(_POLL_EVERY_S, max(0.0, deadline - time.monotonic())))


def _last_exchange_ends(folder: Path) -> dict[str, int]:
    """Returns where the last exchange of each segment ends, without segments in which no exchange has ended."""
    return {each.name: end for each in list_segments(folder) if (end := _last_exchange_end(folder, each.name))}


def _last_exchange_end(folder: Path, name: str) -> int:
    """Returns where the last exchange of a segment ends, found by its heads, or 0 if there is none, or no
    segment.

    Bytes that are not a record (a partial one, or damage) are the writer's to judge; more may follow, so the
    file's end counts.
    """
    fd = _open_segment(folder, name)
    if fd is None:
        return 0
    try:
        size = os.fstat(fd).st_size
        at, end = len(HEADER), 0
        while len(record_head := os.pread(fd, HEAD_BYTES, at)) == HEAD_BYTES:
            magic, kind, _, _, length, _, _ = unpack_head(record_head)
            next_record = at + HEAD_BYTES + length
            if magic != MAGIC or length > MAX_BODY_BYTES or next_record > size:
                return size if any(record_head) else end  # zeros are space allocated ahead
            at = next_record
            end = at if kind == EXCHANGE else end
        return end
    finally:
        os.close(fd)


def _open_segment(folder: Path, name: str) -> int | None:
    """Opens a segment; returns None if it is gone.

    A reserve is renamed when its worker closes it, so the names are tried in this order.
    """
    for suffix in (RESERVE_SUFFIX, SUFFIX):
        try:
            return os.open(folder / (name + suffix), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
    return None


async def _unstored(folder: Path, database: AsyncEngine, ends: Mapping[str, int]) -> dict[str, int]:
    """Returns the segments that still exist and are not read so far. One that is gone was stored."""
    if not ends:
        return {}
    columns = spool_positions.c
    async with database.connect() as connection:
        rows = await connection.execute(select(columns.segment, columns.stored_bytes).where(columns.segment.in_(list(ends))))
        positions = {row.segment: row.stored_bytes for row in rows}
    unread = {name: end for name, end in ends.items() if positions.get(name, 0) < end}
    return {name: end for name, end in unread.items() if _exists(folder, name)}


def _exists(folder: Path, name: str) -> bool:
    return any((folder / (name + suffix)).exists() for suffix in (RESERVE_SUFFIX, SUFFIX))
