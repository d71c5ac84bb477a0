"""A batch: records of the spool as rows, and how far they advance each segment; stored in one transaction, or not at all."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from app.domain.exchange import Exchange
from app.recording.rows.inference_rows import PackedContent, content_row, inference_row
from app.recording.spool.exchange_encoding import decode_exchange
from app.recording.spool.feedback_records import Feedback, decode_feedback, feedback_row
from app.recording.spool.refusal_records import Refusals
from app.recording.spool.segment_reader import SegmentReader
from app.recording.spool.segment_records import BrokenPartChain, ExchangeRecord, FeedbackRecord, PartLocation
from app.recording.writes.feedback_writes import add_feedback
from app.recording.writes.inference_writes import ROW_ERRORS, copy_rows
from app.store.formats.content_packing import pack, pack_pieces
from app.store.postgres.partitions import Connection, day_of

ROW_OVERHEAD_BYTES = 2048  # about the size of a row without its content
UNUSABLE_RECORD_ERRORS = (msgspec.DecodeError, ValueError, OverflowError, RecursionError)


class InferenceRow(msgspec.Struct, frozen=True):
    """An inference ready to be stored, and where it was read."""

    inference: tuple[Any, ...]
    content: tuple[Any, ...]
    day: int
    reader: SegmentReader
    offset: int
    end: int
    last_part: int
    exchange: Exchange | None = None  # None if nobody needs it once the row is made


class FeedbackRow(msgspec.Struct, frozen=True):
    """Feedback ready to be stored, and where it was read."""

    feedback: Feedback
    row: tuple[Any, ...]
    day: int
    reader: SegmentReader
    offset: int
    end: int


class Batch:
    """Rows of several segments.

    `positions` has each segment's reader, with the position up to which the segment is in this batch.
    """

    def __init__(self) -> None:
        self.rows: list[InferenceRow] = []
        self.refusals: list[Refusals] = []
        self.feedback: list[FeedbackRow] = []
        self.conflicts = 0  # feedback with the id of other feedback, once it is stored
        self.size_bytes = 0
        self.positions: dict[str, tuple[SegmentReader, int]] = {}

    def add(self, row: InferenceRow) -> None:
        self.rows.append(row)
        self.size_bytes += ROW_OVERHEAD_BYTES + len(row.content[2] or b"") + len(row.content[3] or b"")

    def add_refusals(self, refusals: Refusals, size_bytes: int) -> None:
        self.refusals.append(refusals)
        self.size_bytes += size_bytes

    def add_feedback(self, row: FeedbackRow) -> None:
        self.feedback.append(row)
        self.size_bytes += row.end - row.offset

    @property
    def is_empty(self) -> bool:
        return not self.rows and not self.refusals and not self.feedback

    @property
    def records(self) -> int:
        return len(self.rows) + len(self.refusals) + len(self.feedback)

    @property
    def days(self) -> set[int]:
        days = {row.day for row in (*self.rows, *self.feedback)}
        return days.union(*(each.days for each in self.refusals))

    @property
    def lost_content(self) -> int:
        return sum(row.content[1] == "lost" for row in self.rows)


def fold_record(reader: SegmentReader, record: ExchangeRecord, *, keep_exchange: bool = False) -> InferenceRow:
    """The row of a record, with its parts. Raises one of UNUSABLE_RECORD_ERRORS for a record that cannot be a row."""
    exchange = decode_exchange(record.meta)
    day = day_of(exchange.id)
    content = content_row(exchange.id, _content(reader, record, exchange))
    kept = exchange if keep_exchange else None
    return InferenceRow(inference_row(exchange), content, day, reader, record.offset, record.end, record.last_part, kept)


def fold_feedback(reader: SegmentReader, record: FeedbackRecord) -> FeedbackRow:
    """Raises one of UNUSABLE_RECORD_ERRORS for a record that cannot be a row."""
    feedback = decode_feedback(record.body)
    return FeedbackRow(feedback, feedback_row(feedback), day_of(feedback.id), reader, record.offset, record.end)


def record_byte_ranges(reader: SegmentReader, record: InferenceRow | ExchangeRecord) -> list[tuple[int, int]]:
    """The byte ranges of an exchange in its segment: of its parts, as far as they can be found, then of its record."""
    try:
        parts = reader.parts(record.last_part)
    except BrokenPartChain:
        parts = []
    return [*((part.offset, part.end) for part in parts), (record.offset, record.end)]


async def copy_all(connection: Connection, rows: list[InferenceRow]) -> None:
    if rows:
        await copy_rows(connection, [row.inference for row in rows], [row.content for row in rows])


async def copy_valid_rows(connection: Connection, rows: list[InferenceRow]) -> list[tuple[InferenceRow, str]]:
    """Copy every valid row, by halving batches that fail; returns the invalid rows, each with the reason."""
    try:
        async with connection.transaction():
            await copy_all(connection, rows)
    except ROW_ERRORS as error:
        if len(rows) == 1:
            return [(rows[0], f"{type(error).__name__}: {error}")]
        middle = len(rows) // 2
        return [*await copy_valid_rows(connection, rows[:middle]), *await copy_valid_rows(connection, rows[middle:])]
    return []


async def add_all_feedback(connection: Connection, feedback: list[FeedbackRow]) -> int:
    """Returns how many have the id of other feedback."""
    repeatable = {each.feedback.id for each in feedback if each.feedback.is_repeatable}
    return await add_feedback(connection, [each.row for each in feedback], repeatable)


async def add_valid_feedback(connection: Connection, feedback: list[FeedbackRow]) -> tuple[int, list[tuple[FeedbackRow, str]]]:
    """Add all that is valid, by halving batches that fail; returns what add_all_feedback() does, and the rest, each with the reason."""
    try:
        async with connection.transaction():
            return await add_all_feedback(connection, feedback), []
    except ROW_ERRORS as error:
        if len(feedback) == 1:
            return 0, [(feedback[0], f"{type(error).__name__}: {error}")]
        middle = len(feedback) // 2
        halves = [await add_valid_feedback(connection, half) for half in (feedback[:middle], feedback[middle:])]
        return sum(conflicts for conflicts, _ in halves), [each for _, rejected in halves for each in rejected]


def _content(reader: SegmentReader, record: ExchangeRecord, exchange: Exchange) -> PackedContent:
    if record.is_content_lost:
        return PackedContent("lost")
    if exchange.content == "none":
        return PackedContent("none")
    if not record.last_part:
        return PackedContent(exchange.content, pack(record.request), pack(record.response))
    try:
        parts = reader.parts(record.last_part)
        request = pack_pieces(_content_pieces(reader, (part for part in parts if part.is_request), record.request))
        response = pack_pieces(_content_pieces(reader, (part for part in parts if not part.is_request), record.response))
    except BrokenPartChain:
        return PackedContent("lost")
    return PackedContent(exchange.content, request, response)


def _content_pieces(reader: SegmentReader, parts: Iterable[PartLocation], remainder: bytes) -> Iterator[bytes]:
    for part in parts:
        yield reader.part_content(part)
    yield remainder
