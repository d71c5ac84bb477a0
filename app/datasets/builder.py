"""The builder: makes versions of datasets, piece by piece, in each writer's process. Several writers share the work.

A piece reads some inferences, the newest first, and stores their rows with the position that it has come to, in one transaction: whoever
is killed, the next one goes on from there. Nothing holds more than one piece in memory.
"""

import asyncio
import contextlib
import logging
import traceback
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from app.datasets.history import HistoryReader
from app.datasets.new_rows import MAX_ROW_BYTES, check_content, new_row, parse_row
from app.datasets.piece import PIECE_S, Piece
from app.datasets.read_recorded import read_example, refers_to_earlier_turns, render_request
from app.datasets.reasons import DESCRIPTIONS, Skipped
from app.domain.errors import InvalidKeyField
from app.gateway.functions.function_table import CompiledFunction, compile_function
from app.gateway.large_body.large_requests import LargeRequests
from app.process.background_tasks import BackgroundTask
from app.settings import Settings
from app.store.datasets import builds as store
from app.store.datasets.builds import DueVersion, FoundContent, Source
from app.store.datasets.selection import check_conditions, matching_feedback
from app.store.postgres.database import create_database_engine
from app.store.postgres.db_errors import DB_UNAVAILABLE_ERRORS, RecordsUnavailable, describe_without_values
from app.store.postgres.outage_log import OutageLog
from app.store.records.inference_queries import search_inferences
from providers.canonical.errors import Unavailable
from providers.transport.loop_turns import LoopTurns

T = TypeVar("T")

logger = logging.getLogger(__name__)

POLL_S = 1.0
RECONNECT_S = 2.0
PAGE_ROWS = 200
_QUERY_TIMEOUT_S = 120.0
_MAX_RETRY = timedelta(minutes=5)
_MAX_FUNCTIONS = 32

_DATABASE_ERRORS = (*DB_UNAVAILABLE_ERRORS, RecordsUnavailable)


@contextlib.asynccontextmanager
async def datasets_in_background(settings: Settings) -> AsyncGenerator[None]:
    """Builds what is due, until it is left. What was not built then is built by the next process."""
    # A second connection reads the history of conversations. They are opened when they are first needed.
    database = create_database_engine(settings.database_url, command_timeout_s=_QUERY_TIMEOUT_S, pool_size=2, max_overflow=0)
    builder = DatasetBuilder(settings, database)
    task = BackgroundTask("datasets", builder.run)
    task.start()
    try:
        yield
    finally:
        await task.stop()
        await builder.stop()
        await database.dispose()


class DatasetBuilder:
    """run() never returns. A version that fails is tried again later, and holds up no other."""

    def __init__(self, settings: Settings, database: AsyncEngine) -> None:
        self._settings = settings
        self._database = database
        self._history = HistoryReader(settings, database, MAX_ROW_BYTES)
        self._large_requests = LargeRequests(settings, LoopTurns())  # its processes start with the first template that needs one
        self._functions = OrderedDict[tuple[str, str], CompiledFunction | None]()
        self._current: str | None = None

    async def stop(self) -> None:
        self._history.close()
        await self._large_requests.stop()

    async def run(self) -> None:
        outages = OutageLog(logger, "Datasets cannot be built", "Datasets are built again")
        while True:
            try:
                has_more = await self.advance()
                outages.note_success()
                await asyncio.sleep(0 if has_more else POLL_S)
            except _DATABASE_ERRORS as error:
                outages.note_failure(error)
                await asyncio.sleep(RECONNECT_S)

    async def advance(self) -> bool:
        """Do one piece of what is due; False: nothing is. Raises what the database does while it cannot be reached."""
        self._current = None
        try:
            async with self._database.begin() as connection:
                version = await store.lock_due_version(connection)
                if version is None:
                    return False
                self._current = version.id
                if version.status == "building":
                    await self._build(connection, version)
                elif await store.purge_rows(connection, version.id):
                    await store.wait_for_next(connection, version.id)
        except Exception as error:
            if self._current is None:
                raise
            if not isinstance(error, _DATABASE_ERRORS):
                _log_bug("a piece of a dataset failed: %s", error)
            async with self._database.begin() as connection:
                await store.note_failure(connection, self._current, describe_without_values(error), _MAX_RETRY)
        return True

    async def _build(self, connection: AsyncConnection, version: DueVersion) -> None:
        await store.keep_out_erasures(connection)
        selection = version.selection
        try:
            conditions = await check_conditions(connection, selection.feedback)
        except InvalidKeyField as fault:  # the metric was removed meanwhile
            await store.advance_version(connection, version, status="failed", error=str(fault), continues=None)
            return
        page = await search_inferences(
            connection,
            selection.filter(version.team_id),
            keep_hours_days=self._settings.keep_hours_days,
            before=version.position,
            limit=PAGE_ROWS,
            search_s=PIECE_S,
        )
        taken = await matching_feedback(connection, conditions, [row for row in page.rows if selection.takes(row)])
        demonstrations = await store.newest_demonstrations(connection, taken)
        if selection.output == "demonstration":
            taken = [row for row in taken if row["id"] in demonstrations]
        contents = await store.find_contents(connection, taken)
        piece = Piece(version)
        for row in taken:
            if version.rows + len(piece.rows) >= selection.max_rows or piece.is_full:
                break
            await self._add_row(connection, piece, row, contents.get(row["id"]), demonstrations.get(row["id"]))
        await store.store_piece(connection, version, piece.rows, piece.sources, piece.listed_skips)
        done = piece.advanced(page, taken)
        is_over = done.rows >= selection.max_rows or (page.next is None and piece.has_all(taken))
        if not is_over:
            await store.advance_version(connection, done, status="building", error=None, continues=timedelta(0))
        elif done.rows or done.last_row:
            await store.advance_version(connection, done, status="complete", error=None, continues=None)
        else:
            await store.advance_version(connection, done, status="failed", error=_why_empty(done), continues=None)

    async def _add_row(
        self,
        connection: AsyncConnection,
        piece: "Piece",
        row: Mapping[str, Any],
        content: FoundContent | None,
        demonstration_id: str | None,
    ) -> None:
        try:
            kept = check_content(content)
            packed = await store.read_content(connection, row["id"])
            demonstration = None if demonstration_id is None else await store.read_demonstration(connection, demonstration_id)
            function = None
            if row["function"] is not None:
                function = await self._function(connection, row["snapshot"], row["function"])
                if function is None:
                    raise Skipped("template")
            recorded, request = await _in_thread(lambda: parse_row(row, packed, demonstration, function))
            earlier: Sequence[str] = ()
            if refers_to_earlier_turns(request):
                earlier = await self._history.add_to(request, row["team_id"])
            rendered = await _read(render_request(recorded, request, self._large_requests.of_team(row["team_id"])))
            new = await _in_thread(lambda: new_row(piece, row, kept.policy, read_example(recorded, rendered)))
        except Skipped as skipped:
            piece.skip(row["id"], skipped)
            return
        sources = await store.read_sources(connection, earlier, new.number)
        sources.append(Source(new.number, row["id"], row["team_id"], row["episode_id"], row["end_user"], row["tags"]))
        if demonstration is not None:
            sources.append(Source(new.number, demonstration.id, row["team_id"], None, None, demonstration.tags))
        piece.add(new, sources)

    async def _function(self, connection: AsyncConnection, snapshot: str, name: str) -> CompiledFunction | None:
        key = (snapshot, name)
        if key not in self._functions:
            config = await store.read_function(connection, snapshot, name)
            self._functions[key] = None if config is None else await asyncio.to_thread(compile_function, name, config)
            while len(self._functions) > _MAX_FUNCTIONS:
                self._functions.popitem(last=False)
        return self._functions[key]


def _why_empty(version: DueVersion) -> str:
    skipped = version.counts.skipped
    reasons = ", ".join(f"{count:,} because {DESCRIPTIONS.get(reason, reason)}" for reason, count in skipped.items())
    if not reasons:
        return f"{version.examined:,} inferences matched the filters, and none of them the other conditions."
    return f"No inference that matched could become a row: {reasons}."


async def _in_thread(work: Callable[[], T]) -> T:
    """Raises Skipped, as _read() does."""
    return await _read(asyncio.to_thread(work))


async def _read(reading: Awaitable[T]) -> T:
    """Raises Skipped for what is so unusual that reading it fails: one inference must not hold up all others for ever."""
    try:
        return await reading
    except (Skipped, Unavailable):
        raise
    except Exception as error:
        _log_bug("an inference could not be read for a dataset: %s", error)
        raise Skipped("unreadable") from None


def _log_bug(message: str, error: Exception) -> None:
    """Logs an error with its frames only: its own traceback may quote what was written."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    logger.error(message, type(error).__name__, extra={"traceback": frames})
