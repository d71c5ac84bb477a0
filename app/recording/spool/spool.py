"""The spool: a durable queue on this machine's disk. A response is in it before the caller has its last byte; the writer stores it."""

import logging
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from app.domain.callers import ContentPolicy, MaskConfig
from app.domain.exchange import Exchange
from app.recording.content.masking import compile_rules
from app.recording.spool.disk_space import DiskSpace
from app.recording.spool.durability import Durability
from app.recording.spool.exchange_encoding import encode_exchange
from app.recording.spool.open_segment import OpenSegment
from app.recording.spool.own_segments import OwnSegments
from app.recording.spool.segment_format import (
    CONTENT_LOST,
    EXCHANGE,
    FEEDBACK,
    HEAD_BYTES,
    MAX_BODY_BYTES,
    REFUSALS,
    exchange_body,
    pack_part,
)
from app.recording.spool.spool_record import SpoolRecord
from app.recording.spool.spool_stats import SpoolStats, oldest_record_s
from app.settings import Settings
from providers.transport.write_batcher import WriteBatcher

logger = logging.getLogger(__name__)

_DEFAULT_MASK = MaskConfig()
_MAX_RECORDS_PER_WRITE = 256  # two buffers a record, and a kernel takes at most 1024 in one write


class SpoolFull(Exception):
    """A new request cannot be recorded, so it is refused. The message is for its caller."""


class _FinishedRecord(Struct, frozen=True, gc=False):
    spool_record: SpoolRecord
    exchange: Exchange
    request: bytes
    response: bytes


class Spool:
    """The spool of one worker process, used by its event loop only; it writes a segment of its own in a folder that all workers share.

    Call admit() before a request is accepted and open() once it has a plan; then append_request(), append_response() and close() of the
    SpoolRecord; then `await wait_until_durable()`; then send the terminal frame. A full disk raises from none of these: the exchange was
    admitted, so what can be kept of it is kept (its metadata, in space allocated ahead) and what cannot is counted.

    A full segment is retired, but stays open until the exchanges that have parts in it have ended.

    With a `write_batcher`, by which the responses leave, the exchanges that end in one iteration of the event loop are written
    together at its end, before the responses leave.
    """

    def __init__(self, folder: Path, settings: Settings, write_batcher: WriteBatcher | None = None) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._home = settings.home
        self._refuses_when_full = settings.spool_when_full == "refuse"
        self._segment_bytes = settings.spool_segment_bytes
        self._part_bytes = max(1, min(settings.spool_part_bytes, MAX_BODY_BYTES // 8))
        self._reserve_bytes = settings.spool_reserve_bytes
        self._durability = Durability(settings.spool_fsync, settings.spool_group_ms)
        self._space = DiskSpace(folder, settings.spool_max_bytes, settings.spool_reserve_bytes)
        self._lost_content = 0
        self._lost_records = 0
        self._segment: OpenSegment | None = None
        self._reserve: OpenSegment | None = None
        self._own_segments = OwnSegments(folder, self._segment_bytes, self._durability)
        self._has_logged_failure = False
        self._write_batcher = write_batcher
        self._finished: list[_FinishedRecord] = []
        self._refresh_space()
        try:
            self._current_segment()
        except OSError as error:
            self._handle_disk_error(error)

    def check_space(self) -> None:
        """Raises SpoolFull if there is no space for a record and `spool_when_full` is "refuse"."""
        if time.monotonic() >= self._space.next_refresh:
            self._refresh_space()
        if self._refuses_when_full and self._space.is_full:
            raise SpoolFull("This gateway cannot record requests at the moment: its spool is full. Try again later.")

    def open(self, id: str, policy: ContentPolicy, mask: MaskConfig = _DEFAULT_MASK) -> SpoolRecord:
        """Open the record of one exchange. `mask` is what the policy `masked` finds."""
        return SpoolRecord(self, id, policy, self._part_bytes, compile_rules(mask) if policy == "masked" else None)

    async def wait_until_durable(self) -> None:
        """Returns once every record closed so far is as durable as `spool_fsync` says, or will be at the end of the loop's iteration."""
        if self._durability.is_awaited:
            self._write_finished()
        await self._durability.wait_until_durable()

    def stats(self) -> SpoolStats:
        if time.monotonic() >= self._space.next_refresh:
            self._refresh_space()
        oldest_s = oldest_record_s(self._home, self._folder)
        return SpoolStats(self._space.size_bytes, self._lost_content, self._lost_records, oldest_s, self._durability.failed)

    def close(self) -> None:
        """Release the segments, so that the writer can finish them; a segment with parts of an open exchange once that has ended."""
        self._write_finished()
        self._durability.close()
        for segment in (self._segment, self._reserve):
            if segment is not None:
                segment.retire()
        self._segment = self._reserve = None
        self._own_segments.retire_all()

    def append_part(self, spool_record: SpoolRecord, kind: int, data: bytes) -> None:
        """Called by SpoolRecord: write `data` as a part, or mark the record's content as lost."""
        if self._space.is_full and not self._refuses_when_full:
            self._lose_content(spool_record)
            return
        body = pack_part(spool_record.part_key, spool_record.last_part) + data
        try:
            segment = spool_record.segment or self._current_segment()
            spool_record.last_part = segment.append(kind, 0, body)
        except OSError as error:
            self._handle_disk_error(error)
            self._lose_content(spool_record)
            return
        if spool_record.segment is None:
            spool_record.segment = segment
            segment.hold()
        self._after_append(segment, len(body))

    def append_refusals(self, body: bytes) -> bool:
        """Write a record of refused requests. Returns False if there is no space: try again later."""
        return self._append_own(REFUSALS, [body])

    def append_feedback(self, bodies: Sequence[bytes]) -> bool:
        """Write records of feedback: all of them, or none. Returns False if there is no space."""
        return self._append_own(FEEDBACK, bodies)

    def _append_own(self, kind: int, bodies: Sequence[bytes]) -> bool:
        if time.monotonic() >= self._space.next_refresh:
            self._refresh_space()
        if self._space.is_full:
            return False
        try:
            self._own_segments.append(kind, bodies)
        except OSError as error:
            self._handle_disk_error(error)
            return False
        self._space.size_bytes += sum(map(len, bodies)) + HEAD_BYTES * len(bodies)
        return True

    def finish_record(self, spool_record: SpoolRecord, exchange: Exchange, request: bytes, response: bytes) -> None:
        """Called by SpoolRecord: write the record that ends the exchange."""
        self._finished.append(_FinishedRecord(spool_record, exchange, request, response))
        if self._write_batcher is None:
            self._write_finished()
        elif len(self._finished) == 1:
            self._write_batcher.call_before_flush(self._write_finished)

    def _write_finished(self) -> None:
        finished, self._finished = self._finished, []
        for start in range(0, len(finished), _MAX_RECORDS_PER_WRITE):
            batch = finished[start : start + _MAX_RECORDS_PER_WRITE]
            if len(batch) == 1 or not self._write_together(batch):
                for each in batch:
                    self._write_record(each.spool_record, each.exchange, each.request, each.response)

    def _write_together(self, batch: "list[_FinishedRecord]") -> bool:
        """Write a batch at once. Returns False for one that _write_record() must handle: parts elsewhere, a full disk, a bad record."""
        if (
            self._space.is_full
            or self._segment is None
            or any(each.spool_record.is_content_lost or each.spool_record.segment is not None for each in batch)
        ):
            return False
        try:
            bodies = [exchange_body(encode_exchange(each.exchange), each.request, each.response) for each in batch]
            if max(map(len, bodies)) > MAX_BODY_BYTES:
                return False
            self._segment.append_all(EXCHANGE, bodies)
        except Exception:
            return False
        self._after_append(self._segment, sum(map(len, bodies)) + HEAD_BYTES * (len(bodies) - 1))
        return True

    def _write_record(self, spool_record: SpoolRecord, exchange: Exchange, request: bytes, response: bytes) -> None:
        try:
            meta = encode_exchange(exchange)
            body = exchange_body(meta, request, response, spool_record.last_part)
            size_bytes = len(body)
            if size_bytes > MAX_BODY_BYTES:
                self._lose_content(spool_record)
            if (
                not spool_record.is_content_lost
                and (self._refuses_when_full or not self._space.is_full)
                and self._write_in_segment(spool_record, body, size_bytes)
            ):
                return
            if request or response or spool_record.last_part:
                self._lose_content(spool_record)
            self._write_without_content(spool_record, meta)
        except Exception:
            self._lost_records += 1
            logger.critical("A record is lost: the exchange %s could not be written", spool_record.id, exc_info=True)
        finally:
            if spool_record.segment is not None:
                spool_record.segment.release()

    def _write_in_segment(self, spool_record: SpoolRecord, body: bytes, size_bytes: int) -> bool:
        try:
            segment = spool_record.segment or self._segment or self._current_segment()
            segment.append(EXCHANGE, 0, body)
        except OSError as error:
            self._handle_disk_error(error)
            return False
        self._after_append(segment, size_bytes)
        return True

    def _write_without_content(self, spool_record: SpoolRecord, meta: bytes) -> None:
        body = exchange_body(meta, b"", b"")
        flags = CONTENT_LOST if spool_record.is_content_lost else 0
        if not self._space.is_full:
            try:
                segment = self._current_segment()
                segment.append(EXCHANGE, flags, body)
            except OSError as error:
                self._handle_disk_error(error)
            else:
                self._after_append(segment, len(body))
                return
        try:
            if self._reserve is None:
                raise OSError("There was no space to allocate a reserve")
            self._reserve.append(EXCHANGE, flags, body)
        except OSError:
            self._lost_records += 1
            logger.critical("A record is lost: the spool and its reserve are full, and the exchange %s is not recorded", spool_record.id)
        else:
            self._durability.mark_dirty(self._reserve)

    def _current_segment(self) -> OpenSegment:
        if self._segment is None:
            self._segment = OpenSegment(self._folder)
            self._durability.sync_folder(self._folder)
        return self._segment

    def _after_append(self, segment: OpenSegment, size_bytes: int) -> None:
        self._space.size_bytes += HEAD_BYTES + size_bytes
        if self._durability.is_awaited:
            self._durability.mark_dirty(segment)
        if segment is self._segment and segment.size >= self._segment_bytes:
            self._retire_segment()

    def _retire_segment(self) -> None:
        if self._segment is not None:
            self._segment.retire()
            self._segment = None

    def _handle_disk_error(self, error: OSError) -> None:
        self._space.disk_is_full = True
        # Even if the disk takes more again, this file may not grow: a limit on file sizes is such a case.
        self._retire_segment()
        self._own_segments.retire_all()
        if not self._has_logged_failure:
            self._has_logged_failure = True
            logger.error(
                "The spool cannot be written: %s. %s", error, "Refusing requests" if self._refuses_when_full else "Keeping metadata only"
            )

    def _refresh_space(self) -> None:
        self._space.refresh()
        if self._space.is_over_limit:  # the writer can only remove complete segments
            if self._segment is not None and self._segment.has_records:
                self._retire_segment()
            self._own_segments.retire_all()
        if self._space.is_full:
            return
        self._has_logged_failure = False
        if self._reserve is not None and self._reserve.has_records:
            self._reserve.retire()
            self._reserve = None
        if self._reserve is None and self._reserve_bytes:
            try:
                self._reserve = OpenSegment(self._folder, self._reserve_bytes)
                self._durability.sync_folder(self._folder)
            except OSError as error:
                logger.warning("No space for the spool's reserve of %d bytes: %s", self._reserve_bytes, error)

    def _lose_content(self, spool_record: SpoolRecord) -> None:
        if not spool_record.is_content_lost:
            spool_record.is_content_lost = True
            self._lost_content += 1
