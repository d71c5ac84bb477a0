"""A session of the writer: it stores records over one connection, from the committed positions on."""

import asyncio
import contextlib
import datetime
import logging
import time
from pathlib import Path

from app.otel.directory import Directory
from app.otel.exporter import Exporter
from app.recording.spool.quarantine import quarantine_record
from app.recording.spool.refusal_records import decode_refusals
from app.recording.spool.segment_format import FEEDBACK_SUFFIX, REFUSALS_SUFFIX, list_segments
from app.recording.spool.segment_reader import SegmentReader
from app.recording.spool.segment_records import DamagedBytes, ExchangeRecord, FeedbackRecord, Record, RefusalsRecord, UnknownSegmentVersion
from app.recording.spool.spool_folder import remove_segment, spool_id
from app.recording.writer.batch import UNUSABLE_RECORD_ERRORS, Batch, fold_feedback, fold_record, record_byte_ranges
from app.recording.writer.batch_store import BatchStore
from app.recording.writer.writer_state import WriterState
from app.recording.writes import retention
from app.recording.writes.export_names import read_adapters, read_team_names
from app.recording.writes.inference_writes import forget_positions, load_positions
from app.settings import Settings
from app.store.postgres import partitions
from app.store.postgres.partitions import Connection
from app.store.postgres.spools import report_stored_until

logger = logging.getLogger(__name__)

IDLE_POLL_S = 0.05
DRAINING_POLL_S = 0.005
HOUSEKEEPING_EVERY_S = 3600.0
REPORT_EVERY_S = 1.0
DIRECTORY_EVERY_S = 30.0
NEW_NAMES_EVERY_S = 1.0
MAX_ROWS_PER_READ = 200  # prepared before the event loop runs again
MAX_REFUSALS_PER_READ = 10  # records, each of up to some thousand counts
MAX_FEEDBACK_PER_READ = 50  # each of up to some hundred KiB
MAX_BATCH_BYTES = 16 * 1024 * 1024
MAX_OPEN_SEGMENTS = 256  # read at a time, the oldest first; others wait


class WriterSession:
    """run() stores until everything is done; any error ends it, and the next session starts from what was
    committed.

    `exporter` gets what was stored; if it is None, nothing is exported.
    """

    def __init__(
        self, settings: Settings, stop: asyncio.Event, connection: Connection, state: WriterState, exporter: Exporter | None = None
    ) -> None:
        self.has_stored = False
        self._settings = settings
        self._stop = stop
        self._connection = connection
        self._state = state
        self._exporter = exporter
        self._directory_read_s = float("-inf")
        self._folder = settings.home / "spool"
        self._quarantine_folder = settings.home / "quarantine"
        self._spool_id = spool_id(self._folder)
        self._readers: dict[str, SegmentReader] = {}
        self._unreadable_segments: set[str] = set()
        self._batch = Batch()
        self._batch_due = 0.0
        self._stored_batch = Batch()
        self._store_task: asyncio.Task[None] | None = None
        self._removed_segments: list[str] = []
        self._batch_store = BatchStore(settings, connection, self._spool_id, state, self._quarantine_record)
        # Everything that was in the spool then is read, is in the batch being stored, is stored.
        self._read_until = self._storing_until = self._stored_until = 0.0
        self._report_due = 0.0
        self._housekeeping_due = 0.0

    async def run(self) -> None:
        """Store records until `stop` is set, and then until everything is stored."""
        await self._load_positions()
        while True:
            began = time.time()
            has_read = self._read_segments()
            if not has_read and not self._state.postponed_until:
                self._read_until = began
            if self._is_batch_due():
                await self._start_store()
            elif self._store_task is not None and self._store_task.done():
                await self._complete_store()
            if has_read:
                await asyncio.sleep(0)  # lets the connection work
                continue
            await self._do_housekeeping()
            if self._stop.is_set() and self._batch.is_empty and self._store_task is None:
                return
            await self._pause()

    async def close(self) -> None:
        if self._store_task is not None:
            self._store_task.cancel()
            await asyncio.gather(self._store_task, return_exceptions=True)
        for reader in self._readers.values():
            reader.close()

    async def _load_positions(self) -> None:
        names = {each.name for each in list_segments(self._folder)}
        self._state.committed = await load_positions(self._connection, self._spool_id, names)
        self._removed_segments = [segment for segment in self._state.committed if segment not in names]

    async def _pause(self) -> None:
        if self._stop.is_set():
            await asyncio.sleep(DRAINING_POLL_S)
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), min(IDLE_POLL_S, self._settings.writer_batch_ms / 1000))

    def _read_segments(self) -> bool:
        """Read further in every segment; returns whether there was anything."""
        self._open_new_segments()
        has_read = False
        for reader in self._readers.values():
            max_rows = min(MAX_ROWS_PER_READ, self._settings.writer_batch_rows - self._batch.records)
            if max_rows <= 0 or self._batch.size_bytes >= MAX_BATCH_BYTES:
                return True
            if not self._is_postponed(reader.name):
                has_read = self._read_segment(reader, max_rows) or has_read
        return has_read

    def _open_new_segments(self) -> None:
        unknown = [
            each for each in list_segments(self._folder) if each.name not in self._readers and each.name not in self._unreadable_segments
        ]
        for each in sorted(unknown)[: MAX_OPEN_SEGMENTS - len(self._readers)]:
            try:
                self._readers[each.name] = SegmentReader(Path(each.path), self._state.committed.get(each.name, 0))
            except UnknownSegmentVersion as error:
                self._unreadable_segments.add(each.name)
                logger.error("%s", error)
            except FileNotFoundError:
                continue  # renamed a moment ago; the next look sees it

    def _is_postponed(self, name: str) -> bool:
        until = self._state.postponed_until.get(name)
        if until is not None and time.monotonic() < until:
            return True
        self._state.postponed_until.pop(name, None)
        return False

    def _read_segment(self, reader: SegmentReader, max_rows: int) -> bool:
        if reader.path.suffix == REFUSALS_SUFFIX:
            max_rows = min(max_rows, MAX_REFUSALS_PER_READ)
        elif reader.path.suffix == FEEDBACK_SUFFIX:
            max_rows = min(max_rows, MAX_FEEDBACK_PER_READ)
        position, torn_records, was_empty = reader.position, reader.torn_records, self._batch.is_empty
        for record in reader.read(max_rows):
            self._add_or_quarantine(reader, record)
        self._state.torn_records += reader.torn_records - torn_records
        if reader.position == position:
            return False
        self._batch.positions[reader.name] = (reader, reader.position)
        if was_empty and not self._batch.is_empty:
            self._batch_due = time.monotonic() + self._settings.writer_batch_ms / 1000
        return True

    def _add_or_quarantine(self, reader: SegmentReader, record: Record) -> None:
        reason = self._add(reader, record)
        if reason is not None:
            byte_ranges = record_byte_ranges(reader, record) if isinstance(record, ExchangeRecord) else [(record.offset, record.end)]
            self._quarantine_record(reader, byte_ranges, reason)

    def _add(self, reader: SegmentReader, record: Record) -> str | None:
        """Add a record to the batch. Returns why it cannot be stored, or None if it can."""
        try:
            match record:
                case DamagedBytes():
                    return record.reason
                case ExchangeRecord():
                    row = fold_record(reader, record, keep_exchange=self._exporter is not None)
                    if not self._are_plausible({row.day}):
                        return "it cannot have been recorded at the time in its id"
                    self._batch.add(row)
                case RefusalsRecord():
                    refusals = decode_refusals(record.body)
                    if not self._are_plausible(refusals.days):
                        return "its requests cannot have been refused at these times"
                    self._batch.add_refusals(refusals, len(record.body))
                case FeedbackRecord():
                    feedback = fold_feedback(reader, record)
                    if not self._are_plausible({feedback.day}):
                        return "it cannot have been received at the time in its id"
                    self._batch.add_feedback(feedback)
        except UNUSABLE_RECORD_ERRORS as error:
            return f"{type(error).__name__}: {error}"
        return None

    def _are_plausible(self, days: set[int]) -> bool:
        today = partitions.today()
        return all(partitions.is_plausible(day, self._settings.keep_inferences_days, today) for day in days)

    def _quarantine_record(self, reader: SegmentReader, byte_ranges: list[tuple[int, int]], reason: str) -> None:
        if quarantine_record(self._quarantine_folder, reader, byte_ranges, reason):
            self._state.quarantined += 1
            logger.error("A record was quarantined (segment %s, offset %d): %s", reader.name, byte_ranges[-1][0], reason)

    def _is_batch_due(self) -> bool:
        batch = self._batch
        if batch.is_empty:
            return False
        is_large = batch.records >= self._settings.writer_batch_rows or batch.size_bytes >= MAX_BATCH_BYTES
        return is_large or time.monotonic() >= self._batch_due or self._stop.is_set()

    async def _start_store(self) -> None:
        """Start storing the batch. While Postgres works, the next one is read."""
        await self._complete_store()
        await self._do_housekeeping()  # here too, or it would never run where there is always something to read
        self._stored_batch, self._batch = self._batch, Batch()
        self._storing_until = self._read_until
        self._store_task = asyncio.create_task(self._batch_store.store(self._stored_batch))

    async def _complete_store(self) -> None:
        if self._store_task is None:
            return
        store_task, self._store_task = self._store_task, None
        await store_task
        batch, self._stored_batch = self._stored_batch, Batch()
        self.has_stored = True
        self._state.committed |= {name: position for name, (_, position) in batch.positions.items()}
        self._state.rows += len(batch.rows)
        self._state.feedback += len(batch.feedback)
        self._state.conflicting_feedback += batch.conflicts
        self._state.lost_content += batch.lost_content
        self._stored_until = self._storing_until
        self._state.last_error = None
        if self._exporter is not None:
            exchanges = [row.exchange for row in batch.rows if row.exchange is not None]
            try:
                await self._read_directory(self._exporter.directory.names_all(exchanges))
            finally:
                self._exporter.add(exchanges)

    async def _do_housekeeping(self) -> None:
        """Remove finished segments, create and drop partitions; postponed while the connection is in use."""
        if self._store_task is not None:
            return
        await self._report_stored_until()
        for reader in list(self._readers.values()):
            if reader.is_finished and not (reader.name in self._batch.positions and not self._batch.is_empty):
                self._finish_segment(reader)
        if self._removed_segments:
            await forget_positions(self._connection, self._removed_segments)
            for name in self._removed_segments:
                self._state.committed.pop(name, None)
            self._removed_segments.clear()
        if time.monotonic() >= self._housekeeping_due:
            self._housekeeping_due = time.monotonic() + HOUSEKEEPING_EVERY_S
            today = partitions.today()
            await self._batch_store.make_partitions({today, today + 1})
            await retention.delete_expired(self._connection, self._settings)

    async def _report_stored_until(self) -> None:
        if self._batch.is_empty:
            self._stored_until = self._read_until
        if self._stored_until and time.monotonic() >= self._report_due:
            self._report_due = time.monotonic() + REPORT_EVERY_S
            await report_stored_until(self._connection, self._spool_id, datetime.datetime.fromtimestamp(self._stored_until, datetime.UTC))

    async def _read_directory(self, names_all: bool) -> None:
        """Read what the exported telemetry calls teams and providers, unless that was read recently.

        `names_all` says that what is known of them names all that is to be exported.
        """
        age_s = time.monotonic() - self._directory_read_s
        if self._exporter is None or age_s < (DIRECTORY_EVERY_S if names_all else NEW_NAMES_EVERY_S):
            return
        self._directory_read_s = time.monotonic()
        self._exporter.directory = Directory(await read_team_names(self._connection), await read_adapters(self._connection))

    def _finish_segment(self, reader: SegmentReader) -> None:
        """Remove the file, and only then its position: a file that outlives its position would be read as a new one."""
        self._state.unfinished_parts += reader.unfinished_parts
        self._batch.positions.pop(reader.name, None)
        remove_segment(self._folder, reader.name)
        reader.close()
        del self._readers[reader.name]
        if reader.name in self._state.committed:
            self._removed_segments.append(reader.name)
