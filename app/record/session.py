"""A session of the writer: its work over one connection, from the committed positions on."""

import asyncio
import contextlib
import logging
import time
from pathlib import Path

from msgspec import Struct, field

from app.record.batch import NOT_A_ROW, Batch, Row, copy_all, copy_the_good, fold, ranges
from app.record.folder import remove, spool_id
from app.record.quarantine import set_aside
from app.record.reader import Damaged, Ended, ForeignSegment, Reader
from app.record.segment import listing
from app.record.sums import sums
from app.settings import Settings
from app.store import partitions
from app.store.partitions import Connection
from app.store.recorded import FAULTS_OF_A_ROW, add_usage, forget_positions, load_positions, move_position

logger = logging.getLogger(__name__)

IDLE_POLL_S = 0.05
DRAINING_POLL_S = 0.005
HOUSEKEEPING_EVERY_S = 3600.0
STORE_TIMEOUT_S = 120.0
TURN_ROWS = 200  # folded between two looks at the socket
MOST_BYTES = 16 * 1024 * 1024  # of a batch
MOST_SEGMENTS = 256  # read at a time, the oldest first; more may be waiting


class Tally(Struct):
    """What outlives a session: counts since the writer's start, committed positions, and segments that wait (see QuarantineFailed).

    `last_error`: since a batch was last stored.
    """

    rows: int = 0
    quarantined: int = 0
    dropped_parts: int = 0
    torn: int = 0
    lost_content: int = 0
    last_error: str | None = None
    committed: dict[str, int] = field(default_factory=dict[str, int])
    held_until: dict[str, float] = field(default_factory=dict[str, float])


class Session:
    """work() until all is done; any error ends it, and the next session starts anew from what was committed."""

    def __init__(self, settings: Settings, stop: asyncio.Event, connection: Connection, tally: Tally) -> None:
        self.has_stored = False
        self._settings = settings
        self._stop = stop
        self._connection = connection
        self._tally = tally
        self._folder = settings.home / "spool"
        self._quarantine = settings.home / "quarantine"
        self._spool = spool_id(self._folder)
        self._readers: dict[str, Reader] = {}
        self._ignored: set[str] = set()
        self._batch = Batch()
        self._due = 0.0
        self._stored = Batch()
        self._storing: asyncio.Task[None] | None = None
        self._gone: list[str] = []
        self._days: set[int] = set()
        self._housekeeping_due = 0.0

    async def work(self) -> None:
        """Until a stop, and then until everything is written."""
        await self._begin()
        while True:
            has_read = self._read_on()
            if self._is_due():
                await self._send()
            elif self._storing is not None and self._storing.done():
                await self._settle()
            if has_read:
                await asyncio.sleep(0)  # the socket's turn
                continue
            await self._keep_house()
            if self._stop.is_set() and not self._batch.rows and self._storing is None:
                return
            await self._pause()

    async def close(self) -> None:
        if self._storing is not None:
            self._storing.cancel()
            await asyncio.gather(self._storing, return_exceptions=True)
        for reader in self._readers.values():
            reader.close()

    async def _begin(self) -> None:
        there = {each.name for each in listing(self._folder)}
        self._tally.committed = await load_positions(self._connection, self._spool, there)
        self._gone = [segment for segment in self._tally.committed if segment not in there]

    async def _pause(self) -> None:
        if self._stop.is_set():
            await asyncio.sleep(DRAINING_POLL_S)
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), min(IDLE_POLL_S, self._settings.writer_batch_ms / 1000))

    def _read_on(self) -> bool:
        """Reads on in every segment; whether there was anything."""
        self._look_for_segments()
        has_read = False
        for reader in self._readers.values():
            room = min(TURN_ROWS, self._settings.writer_batch_rows - len(self._batch.rows))
            if room <= 0 or self._batch.size_bytes >= MOST_BYTES:
                return True
            if not self._is_held(reader.name):
                has_read = self._read(reader, room) or has_read
        return has_read

    def _look_for_segments(self) -> None:
        unknown = [each for each in listing(self._folder) if each.name not in self._readers and each.name not in self._ignored]
        for each in sorted(unknown)[: MOST_SEGMENTS - len(self._readers)]:
            try:
                self._readers[each.name] = Reader(Path(each.path), self._tally.committed.get(each.name, 0))
            except ForeignSegment as error:
                self._ignored.add(each.name)
                logger.error("%s", error)
            except FileNotFoundError:
                continue  # renamed a moment ago; the next look sees it

    def _is_held(self, name: str) -> bool:
        until = self._tally.held_until.get(name)
        if until is not None and time.monotonic() < until:
            return True
        self._tally.held_until.pop(name, None)
        return False

    def _read(self, reader: Reader, room: int) -> bool:
        position, torn, was_empty = reader.position, reader.torn, not self._batch.rows
        for record in reader.read(room):
            row = self._row(reader, record)
            if row is not None:
                self._batch.add(row)
        self._tally.torn += reader.torn - torn
        if reader.position == position:
            return False
        self._batch.moves[reader.name] = (reader, reader.position)
        if was_empty and self._batch.rows:
            self._due = time.monotonic() + self._settings.writer_batch_ms / 1000
        return True

    def _row(self, reader: Reader, record: Ended | Damaged) -> Row | None:
        if isinstance(record, Damaged):
            self._set_aside(reader, [(record.offset, record.end)], record.reason)
            return None
        try:
            row = fold(reader, record)
        except NOT_A_ROW as error:
            self._set_aside(reader, ranges(reader, record), f"{type(error).__name__}: {error}")
            return None
        if not partitions.is_plausible(row.day, self._settings.keep_inferences_days, partitions.today()):
            self._set_aside(reader, ranges(reader, record), "the time in its id is not one at which it can have been recorded")
            return None
        return row

    def _set_aside(self, reader: Reader, where: list[tuple[int, int]], reason: str) -> None:
        if set_aside(self._quarantine, reader, where, reason):
            self._tally.quarantined += 1
            logger.error("A record was set aside (segment %s, offset %d): %s", reader.name, where[-1][0], reason)

    def _is_due(self) -> bool:
        batch = self._batch
        if not batch.rows:
            return False
        is_large = len(batch.rows) >= self._settings.writer_batch_rows or batch.size_bytes >= MOST_BYTES
        return is_large or time.monotonic() >= self._due or self._stop.is_set()

    async def _send(self) -> None:
        """Hands the batch to Postgres. While it works, the next one is read."""
        await self._settle()
        await self._keep_house()  # here too, lest it wait for ever where there is always something to read
        self._stored, self._batch = self._batch, Batch()
        self._storing = asyncio.create_task(self._store(self._stored))

    async def _settle(self) -> None:
        if self._storing is None:
            return
        storing, self._storing = self._storing, None
        await storing
        batch, self._stored = self._stored, Batch()
        self.has_stored = True
        self._tally.committed |= {name: position for name, (_, position) in batch.moves.items()}
        self._tally.rows += len(batch.rows)
        self._tally.lost_content += batch.lost_content
        self._tally.last_error = None

    async def _store(self, batch: Batch) -> None:
        async with asyncio.timeout(STORE_TIMEOUT_S):
            await self._make_partitions(batch.days)
            try:
                async with self._connection.transaction():
                    await self._move(batch)
                    await copy_all(self._connection, batch.rows)
                    await self._add_usage(batch.rows)
            except FAULTS_OF_A_ROW:
                self._days.clear()  # another machine's retention may have dropped one
                await self._make_partitions(batch.days)
                await self._store_the_good(batch)

    async def _store_the_good(self, batch: Batch) -> None:
        async with self._connection.transaction():
            await self._move(batch)
            bad = await copy_the_good(self._connection, batch.rows)
            for row, reason in bad:
                self._set_aside(row.reader, ranges(row.reader, row), reason)
            at_fault = {id(row) for row, _ in bad}
            good = [row for row in batch.rows if id(row) not in at_fault]
            await self._add_usage(good)
        batch.rows = good

    async def _add_usage(self, rows: list[Row]) -> None:
        await add_usage(self._connection, sums(row.inference for row in rows))

    async def _move(self, batch: Batch) -> None:
        for name, (_, position) in batch.moves.items():
            await move_position(self._connection, self._spool, name, self._tally.committed.get(name), position)

    async def _make_partitions(self, days: set[int]) -> None:
        missing = days - self._days
        if missing:
            await partitions.ensure(self._connection, missing)
            self._days |= missing

    async def _keep_house(self) -> None:
        """Ends what is finished, makes and drops partitions. It waits while the connection is in use."""
        if self._storing is not None:
            return
        for reader in list(self._readers.values()):
            if reader.is_finished and not (reader.name in self._batch.moves and self._batch.rows):
                self._finish(reader)
        if self._gone:
            await forget_positions(self._connection, self._gone)
            for name in self._gone:
                self._tally.committed.pop(name, None)
            self._gone.clear()
        if time.monotonic() >= self._housekeeping_due:
            self._housekeeping_due = time.monotonic() + HOUSEKEEPING_EVERY_S
            now = partitions.today()
            await self._make_partitions({now, now + 1})
            await partitions.expire(self._connection, "inferences", self._settings.keep_inferences_days, now)
            await partitions.expire(self._connection, "inference_content", self._settings.keep_content_days, now)

    def _finish(self, reader: Reader) -> None:
        """Removes the file, and only then its position: should the file outlive it, it would be read as a new one."""
        self._tally.dropped_parts += reader.unended_parts
        self._batch.moves.pop(reader.name, None)
        remove(self._folder, reader.name)
        reader.close()
        del self._readers[reader.name]
        if reader.name in self._tally.committed:
            self._gone.append(reader.name)
