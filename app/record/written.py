"""Written: whether what this machine's spool holds has come into Postgres."""

import asyncio
import os
import time
from collections.abc import Mapping
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from app.record.segment import EXCHANGE, HEAD_BYTES, HEADER, MAGIC, MAX_BODY, RESERVE_SUFFIX, SUFFIX, listing, unpack_head
from app.store.tables import spool_positions

_LOOK_EVERY_S = 0.05


async def spool_written(folder: Path, database: AsyncEngine, *, patience_s: float) -> bool:
    """Waits until every exchange that had ended in this spool at the call is in Postgres (or set aside); False: not within `patience_s`.

    True says that sums asked for from now on hold them all. One that was set aside counts as soon as a good one behind it is stored, or
    its segment is done with. Raises one of AWAY where Postgres cannot be asked.
    """
    until = time.monotonic() + patience_s
    await asyncio.sleep(0)  # what has ended in this turn of the loop is in the spool when it ends
    ends = await asyncio.to_thread(_ends, folder)
    while True:
        ends = await _missing(folder, database, ends)
        if not ends:
            return True
        if time.monotonic() >= until:
            return False
        await asyncio.sleep(min(_LOOK_EVERY_S, max(0.0, until - time.monotonic())))


def _ends(folder: Path) -> dict[str, int]:
    """Where the last exchange of each segment ends; without segments in which none has ended."""
    return {each.name: end for each in listing(folder) if (end := _end(folder, each.name))}


def _end(folder: Path, name: str) -> int:
    """Walks from head to head. What is no record (half of one, or damage) is the writer's to judge; behind it may be more."""
    fd = _open(folder, name)
    if fd is None:
        return 0
    try:
        size = os.fstat(fd).st_size
        at, end = len(HEADER), 0
        while len(first := os.pread(fd, HEAD_BYTES, at)) == HEAD_BYTES:
            magic, kind, _, _, length, _, _ = unpack_head(first)
            after = at + HEAD_BYTES + length
            if magic != MAGIC or length > MAX_BODY or after > size:
                return size if any(first) else end  # zeros are space allocated ahead
            at = after
            end = at if kind == EXCHANGE else end
        return end
    finally:
        os.close(fd)


def _open(folder: Path, name: str) -> int | None:
    """None: it is gone. A reserve is renamed when its worker lets it go, so it is looked for in this order."""
    for suffix in (RESERVE_SUFFIX, SUFFIX):
        try:
            return os.open(folder / (name + suffix), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
    return None


async def _missing(folder: Path, database: AsyncEngine, ends: Mapping[str, int]) -> dict[str, int]:
    """Those of the segments that are still there and not read so far. One that is gone was stored before."""
    if not ends:
        return {}
    of = spool_positions.c
    async with database.connect() as connection:
        rows = await connection.execute(select(of.segment, of.read_to).where(of.segment.in_(list(ends))))
        positions = {row.segment: row.read_to for row in rows}
    behind = {name: end for name, end in ends.items() if positions.get(name, 0) < end}
    return {name: end for name, end in behind.items() if _is_there(folder, name)}


def _is_there(folder: Path, name: str) -> bool:
    return any((folder / (name + suffix)).exists() for suffix in (RESERVE_SUFFIX, SUFFIX))
