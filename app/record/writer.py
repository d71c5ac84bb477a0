"""The writer: a process of its own that takes what is in the spool into Postgres, each exchange exactly once.

Rows and the position up to which their segment is read are committed together. Whatever ends in between (this process, the connection,
Postgres) is followed by a new start from the committed positions; memory holds nothing that the spool does not.
"""

import asyncio
import contextlib
import logging
import os
import random
import time
from collections.abc import AsyncGenerator

import asyncpg

from app.record.folder import alone, at_ms, remove_leftovers
from app.record.quarantine import QuarantineFailed
from app.record.segment import HEADER, listing
from app.record.session import Session, Tally
from app.record.status import WriterStatus, write_status
from app.settings import Settings
from app.store.database import connect
from app.store.partitions import Connection
from app.store.recorded import PositionTaken

logger = logging.getLogger(__name__)

STATUS_EVERY_S = 1.0
LONGEST_WAIT_S = 5.0
HELD_S = 2.0  # how long a segment waits for space to set a record aside
GOODBYE_S = 2.0

NOT_NOW = (
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    PositionTaken,
    QuarantineFailed,
)


async def write(settings: Settings, *, stop: asyncio.Event) -> None:
    """Writes until `stop` is set and everything that was in the spool by then is in Postgres, or `drain_timeout_s` is over.

    One writer for one spool: a second one waits until the first has ended.
    """
    async with alone(settings.home / "spool", stop) as is_ours:
        if is_ours:
            await Writer(settings, stop).work()


class Writer:
    """Keeps a Session at work, over one connection after the other, and says in a file how it goes."""

    def __init__(self, settings: Settings, stop: asyncio.Event) -> None:
        self._settings = settings
        self._stop = stop
        self._folder = settings.home / "spool"
        self._tally = Tally()
        self._is_connected = False

    async def work(self) -> None:
        remove_leftovers(self._folder)
        reporting = asyncio.create_task(self._report())
        ending = asyncio.create_task(self._stop.wait())
        working = asyncio.create_task(self._keep_at_it())
        try:
            await asyncio.wait((ending, working), return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait((working,), timeout=self._settings.drain_timeout_s)
        finally:
            for task in (reporting, ending, working):
                task.cancel()
            done = await asyncio.gather(reporting, ending, working, return_exceptions=True)
            self._write_status()
        for outcome in done:
            if isinstance(outcome, Exception):
                raise outcome

    async def _keep_at_it(self) -> None:
        """Until a session says that all is done."""
        wait_s = 0.0
        while True:
            try:
                async with self._connection() as connection:
                    session = Session(self._settings, self._stop, connection, self._tally)
                    try:
                        await session.work()
                        return
                    finally:
                        wait_s = 0.0 if session.has_stored else wait_s
                        await session.close()
            except NOT_NOW as error:
                self._note(error)
            wait_s = min(LONGEST_WAIT_S, max(0.1, wait_s * 2))
            await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncGenerator[Connection]:
        connection = await connect(self._settings.database_url)
        self._is_connected = True
        try:
            yield connection
            await connection.close(timeout=GOODBYE_S)
        finally:
            self._is_connected = False
            connection.terminate()

    def _note(self, error: Exception) -> None:
        if isinstance(error, QuarantineFailed):
            self._tally.held_until[error.segment] = time.monotonic() + HELD_S
        text = f"{type(error).__name__}: {error}"
        if text != self._tally.last_error:
            logger.warning("Nothing can be written now, and it is tried again: %s", text)
        self._tally.last_error = text

    async def _report(self) -> None:
        while True:
            self._write_status()
            await asyncio.sleep(STATUS_EVERY_S)

    def _write_status(self) -> None:
        tally = self._tally
        segments = list(listing(self._folder))
        oldest_ms = min(
            (found for each in segments if (found := at_ms(each.path, tally.committed.get(each.name, len(HEADER))))), default=None
        )
        status = WriterStatus(
            at=time.time(),
            pid=os.getpid(),
            connected=self._is_connected,
            rows=tally.rows,
            quarantined=tally.quarantined,
            dropped_parts=tally.dropped_parts,
            torn=tally.torn,
            lost_content=tally.lost_content,
            spool_bytes=sum(each.size for each in segments if not each.reserved),
            segments=len(segments),
            oldest_s=0.0 if oldest_ms is None else max(0.001, time.time() - oldest_ms / 1000),
            last_error=self._tally.last_error,
        )
        try:
            write_status(self._settings.home, status)
        except OSError as error:  # a full disk: the work goes on
            logger.warning("The writer's status could not be written: %s", error)
