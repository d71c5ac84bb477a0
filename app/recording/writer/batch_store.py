"""Storing a batch: its records, positions and sums in one transaction. A row that Postgres refuses is quarantined alone."""

import asyncio
import datetime
from collections.abc import Callable

from app.recording.rows.rollup_sums import RollupSummer
from app.recording.rows.usage_sums import sum_usage
from app.recording.spool.refusal_records import Refusals, sample_row
from app.recording.spool.segment_reader import SegmentReader
from app.recording.writer.batch import (
    Batch,
    InferenceRow,
    add_all_feedback,
    add_valid_feedback,
    copy_all,
    copy_valid_rows,
    record_byte_ranges,
)
from app.recording.writer.late_erasure import LateErasure
from app.recording.writer.text_rows import add_row_texts, add_valid_row_texts
from app.recording.writer.writer_state import WriterState
from app.recording.writes.feedback_pending import VERY_LATE, wake, wake_all
from app.recording.writes.inference_writes import ROW_ERRORS, add_usage, move_position
from app.recording.writes.refusal_writes import add_refusals
from app.settings import Settings
from app.store.experiment_units.touched_units import touch_units, touches_of
from app.store.postgres import partitions
from app.store.postgres.inference_columns import INFERENCE_COLUMNS
from app.store.postgres.partitions import Connection
from app.store.usage.rollups import RollupSums, add_rollups

STORE_TIMEOUT_S = 120.0

_ID, _TEAM_ID, _EPISODE_ID, _RECEIVED_AT = (INFERENCE_COLUMNS.index(name) for name in ("id", "team_id", "episode_id", "received_at"))

Quarantine = Callable[[SegmentReader, list[tuple[int, int]], str], None]


class BatchStore:
    """Stores batches over the connection of a session.

    `state` has the committed positions. `quarantine` gets the byte ranges of a record that cannot be stored, and why.
    """

    def __init__(self, settings: Settings, connection: Connection, spool_id: str, state: WriterState, quarantine: Quarantine) -> None:
        self._connection = connection
        self._spool_id = spool_id
        self._state = state
        self._quarantine = quarantine
        self._known_days: set[int] = set()
        self._rollups = RollupSummer(connection)
        self._late_erasure = LateErasure(connection, settings)

    async def store(self, batch: Batch) -> None:
        async with asyncio.timeout(STORE_TIMEOUT_S):
            await self.make_partitions(batch.days)
            try:
                async with self._connection.transaction():
                    await self._move_positions(batch)
                    rows = await self._late_erasure.apply(batch.rows)
                    await copy_all(self._connection, rows)
                    await add_row_texts(self._connection, rows)
                    await self._wake_feedback(rows)
                    batch.conflicts = await add_all_feedback(self._connection, await self._late_erasure.apply_to_feedback(batch.feedback))
                    sums = await self._add_refusals_and_sums(rows, batch.refusals)
                batch.rows = rows
            except ROW_ERRORS:
                self._known_days.clear()  # another machine's retention may have dropped one
                await self.make_partitions(batch.days)
                sums = await self._store_valid_rows(batch)
        self._rollups.mark_stored(sums)

    async def _store_valid_rows(self, batch: Batch) -> RollupSums:
        async with self._connection.transaction():
            await self._move_positions(batch)
            rows = await self._late_erasure.apply(batch.rows)
            rejected = await copy_valid_rows(self._connection, rows)
            for row, reason in rejected:
                self._quarantine(row.reader, record_byte_ranges(row.reader, row), reason)
            rejected_ids = {id(row) for row, _ in rejected}
            valid = [row for row in rows if id(row) not in rejected_ids]
            await add_valid_row_texts(self._connection, valid)
            await self._wake_feedback(valid)
            batch.feedback = await self._late_erasure.apply_to_feedback(batch.feedback)
            batch.conflicts, rejected_feedback = await add_valid_feedback(self._connection, batch.feedback)
            for feedback, reason in rejected_feedback:
                self._quarantine(feedback.reader, [(feedback.offset, feedback.end)], reason)
                batch.feedback.remove(feedback)
            sums = await self._add_refusals_and_sums(valid, batch.refusals)
        batch.rows = valid
        return sums

    async def _add_refusals_and_sums(self, rows: list[InferenceRow], refusals: list[Refusals]) -> RollupSums:
        """Add refusals and sums, at the end of the transaction: other machines' writers wait for the sums
        until it is committed.
        """
        await touch_units(self._connection, touches_of(row.inference for row in rows))
        await add_refusals(self._connection, [sample_row(sample) for each in refusals for sample in each.samples])
        sums = await self._rollups.sum([row.inference for row in rows], refusals)
        await add_rollups(self._connection, sums, self._rollups.stored_groups)
        await add_usage(self._connection, sum_usage(row.inference for row in rows))
        return sums

    async def _wake_feedback(self, rows: list[InferenceRow]) -> None:
        """Wake feedback that waits for these rows, perhaps for so long that it would not be looked for soon."""
        before = datetime.datetime.now(datetime.UTC) - VERY_LATE
        late, in_time = set[tuple[str, str]](), set[tuple[str, str]]()
        for row in rows:
            inference = row.inference
            targets = {(inference[_TEAM_ID], inference[_ID]), (inference[_TEAM_ID], inference[_EPISODE_ID])}
            (late if inference[_RECEIVED_AT] < before else in_time).update(targets)
        await wake(self._connection, in_time)
        await wake_all(self._connection, late)

    async def _move_positions(self, batch: Batch) -> None:
        for name, (_, position) in batch.positions.items():
            await move_position(self._connection, self._spool_id, name, self._state.committed.get(name), position)

    async def make_partitions(self, days: set[int]) -> None:
        missing = days - self._known_days
        if missing:
            await partitions.create_partitions(self._connection, missing)
            self._known_days |= missing
