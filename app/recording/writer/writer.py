"""The writer: a process of its own that stores the spool's records in Postgres, each exchange exactly once.

Rows and the position up to which their segment is read are committed together. Whatever fails in between (this process, the
connection, Postgres), the writer starts again from the committed positions; memory holds nothing that the spool does not.
"""

import asyncio
import contextlib
import logging
import os
import random
import time
from collections.abc import AsyncGenerator

import asyncpg

from app.otel.exporter import Exporter
from app.process.background_tasks import BackgroundTask
from app.recording.erasure.runner import ErasureRunner
from app.recording.spool.quarantine import QuarantineFailed
from app.recording.spool.segment_format import HEADER, list_segments
from app.recording.spool.spool_folder import exclusive_lock, record_written_ms, remove_stale_files, spool_id
from app.recording.spool.writer_status import WriterStatus, write_status
from app.recording.writer.feedback_matcher import FeedbackMatcher
from app.recording.writer.writer_session import WriterSession
from app.recording.writer.writer_state import WriterState
from app.recording.writes.inference_texts import index_closed_days
from app.recording.writes.inference_writes import PositionTaken
from app.recording.writes.uncounted_spools import touch_uncounted
from app.settings import Settings
from app.store.postgres.database import connect
from app.store.postgres.outage_log import OutageLog
from app.store.postgres.partitions import Connection
from providers.transport.transport import Transport

logger = logging.getLogger(__name__)

STATUS_EVERY_S = 1.0
MAX_RETRY_WAIT_S = 5.0
POSTPONE_S = 2.0  # how long a segment waits for space to quarantine a record
CLOSE_TIMEOUT_S = 2.0
INDEX_EVERY_S = 300.0

RETRYABLE_ERRORS = (
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    PositionTaken,
    QuarantineFailed,
)


async def run_spool_writer(settings: Settings, *, stop: asyncio.Event) -> None:
    """Run the writer until `stop` is set and everything that was in the spool by then is in Postgres, or `drain_timeout_s` is over.

    There is one writer for a spool: a second one waits until the first has ended.
    """
    async with exclusive_lock(settings.home / "spool", stop) as has_lock:
        if has_lock:
            await Writer(settings, stop).run()


class Writer:
    """Runs sessions, one connection after the other, and reports its status in a file."""

    def __init__(self, settings: Settings, stop: asyncio.Event) -> None:
        self._settings = settings
        self._stop = stop
        self._folder = settings.home / "spool"
        self._state = WriterState()
        self._is_connected = False
        self._exporter: Exporter | None = None
        self._feedback_matcher = FeedbackMatcher(settings)
        self._outages = OutageLog(logger, "Records cannot be stored", "Records are stored again")

    async def run(self) -> None:
        remove_stale_files(self._folder)
        report_task = BackgroundTask("writer status", self._report_status)
        report_task.start()
        erasure_task = BackgroundTask("erasures", ErasureRunner(self._settings).run)
        erasure_task.start()
        feedback_task = BackgroundTask("feedback", self._feedback_matcher.run)
        feedback_task.start()
        if self._settings.otlp_endpoint:
            self._exporter = Exporter(self._settings, Transport(proxy=self._settings.proxy, ca_bundle=self._settings.ca_bundle or None))
            self._exporter.start()
        index_task = BackgroundTask("index of texts", self._index_texts)
        index_task.start()
        uncounted_task = BackgroundTask("uncounted records", self._touch_uncounted)
        uncounted_task.start()
        stop_task = asyncio.create_task(self._stop.wait())
        session_task = asyncio.create_task(self._run_sessions())
        try:
            await asyncio.wait((stop_task, session_task), return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait((session_task,), timeout=self._settings.drain_timeout_s)
        finally:
            for task in (stop_task, session_task):
                task.cancel()
            background = (report_task, index_task, erasure_task, feedback_task, uncounted_task)
            results = await asyncio.gather(*(task.stop() for task in background), stop_task, session_task, return_exceptions=True)
            if self._exporter is not None:
                await self._exporter.close()
            self._write_status()
        for outcome in results:
            if isinstance(outcome, Exception):
                raise outcome

    async def _run_sessions(self) -> None:
        """Run sessions until one has stored everything."""
        wait_s = 0.0
        while True:
            try:
                async with self._connection() as connection:
                    session = WriterSession(self._settings, self._stop, connection, self._state, self._exporter)
                    try:
                        await session.run()
                        return
                    finally:
                        wait_s = 0.0 if session.has_stored else wait_s
                        await session.close()
            except RETRYABLE_ERRORS as error:
                self._note_error(error)
            except Exception as error:  # the next session starts from what is committed
                logger.exception("a session of the writer failed")
                self._note_error(error)
            wait_s = min(MAX_RETRY_WAIT_S, max(0.1, wait_s * 2))
            await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncGenerator[Connection]:
        connection = await connect(self._settings.database_url)
        self._is_connected = True
        if self._outages.is_outage:
            self._outages.note_success()
        try:
            yield connection
            await connection.close(timeout=CLOSE_TIMEOUT_S)
        finally:
            self._is_connected = False
            connection.terminate()

    @contextlib.asynccontextmanager
    async def _connection_of_its_own(self) -> AsyncGenerator[Connection]:
        connection = await connect(self._settings.database_url)
        try:
            yield connection
            await connection.close(timeout=CLOSE_TIMEOUT_S)
        finally:
            connection.terminate()

    async def _index_texts(self) -> None:
        """Index texts over a connection of its own: building the index of a day may take minutes."""
        outages = OutageLog(logger, "The text of closed days cannot be indexed", "The text of closed days is indexed again")
        while True:
            await asyncio.sleep(INDEX_EVERY_S)
            try:
                async with self._connection_of_its_own() as connection:
                    await index_closed_days(connection)
                outages.note_success()
            except RETRYABLE_ERRORS as error:
                outages.note_failure(error)

    async def _touch_uncounted(self) -> None:
        """Touch uncounted units once, and here, where the spool's earlier writer has ended."""
        outages = OutageLog(logger, "What an earlier version stored cannot be counted", "What an earlier version stored is counted")
        has_more = True
        while has_more:
            try:
                async with self._connection_of_its_own() as connection:
                    while has_more:
                        has_more = await touch_uncounted(connection, spool_id(self._folder))
                outages.note_success()
            except RETRYABLE_ERRORS as error:
                outages.note_failure(error)
                await asyncio.sleep(MAX_RETRY_WAIT_S)
        await asyncio.Event().wait()

    def _note_error(self, error: Exception) -> None:
        if isinstance(error, QuarantineFailed):
            self._state.postponed_until[error.segment] = time.monotonic() + POSTPONE_S
        self._outages.note_failure(error)
        self._state.last_error = f"{type(error).__name__}: {error}"

    async def _report_status(self) -> None:
        while True:
            self._write_status()
            await asyncio.sleep(STATUS_EVERY_S)

    def _write_status(self) -> None:
        state = self._state
        segments = list(list_segments(self._folder))
        oldest_ms = min(
            (written_ms for each in segments if (written_ms := record_written_ms(each.path, state.committed.get(each.name, len(HEADER))))),
            default=None,
        )
        status = WriterStatus(
            at=time.time(),
            pid=os.getpid(),
            connected=self._is_connected,
            rows=state.rows,
            feedback=state.feedback,
            matched_feedback=self._feedback_matcher.matched,
            unmatched_feedback=self._feedback_matcher.unmatched,
            given_up_feedback=self._feedback_matcher.given_up,
            conflicting_feedback=state.conflicting_feedback,
            quarantined=state.quarantined,
            unfinished_parts=state.unfinished_parts,
            torn_records=state.torn_records,
            lost_content=state.lost_content,
            spool_bytes=sum(each.size for each in segments if not each.is_reserve),
            segments=len(segments),
            oldest_s=0.0 if oldest_ms is None else max(0.001, time.time() - oldest_ms / 1000),
            last_error=self._state.last_error,
            export=None if self._exporter is None else self._exporter.counts,
        )
        try:
            write_status(self._settings.home, status)
        except OSError as error:  # such as a full disk; storing continues
            logger.warning("The writer's status could not be written: %s", error)
