"""What a worker knows without asking: the directory's snapshot and the keys it has met, kept true by NOTIFY and a slow poll."""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable
from typing import Any

import asyncpg
from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain import Directory
from app.settings import Settings
from app.store import directory, keys
from app.store.away import AWAY, PATIENCE_S
from app.store.database import connect
from app.store.key_index import KeyIndex, forget_workers

log = logging.getLogger(__name__)

# A worker that has said nothing for a minute is counted as gone (see configuration.apply): it looks more often than that, whatever is set.
_LONGEST_POLL_S = 20.0
_WHILE_AWAY_S = 1.0


class Live:
    """`directory` is the snapshot in force. start() returns once there is one to serve by, and from then on it and the keys are kept true.

    `on_swap` is called with each new snapshot, before it is reported as served. `connected`: whether Postgres answered when last asked.
    """

    def __init__(
        self, settings: Settings, database: AsyncEngine, worker: str, on_swap: Callable[[Directory], None] = lambda directory: None
    ) -> None:
        self._folder = settings.home / "directory"
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.directory = directory.EMPTY
        self.keys = KeyIndex(database, self._folder, worker)
        self.connected = False
        self._settings = settings
        self._database = database
        self._worker = f"{os.uname().nodename}:{settings.home.resolve()}:{worker}"
        self._path = self._folder / "snapshot.json"
        self._on_swap = on_swap
        self._changed = asyncio.Event()
        self._recheck = True
        self._listening: asyncpg.Connection[Any] | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Raises if Postgres cannot be asked, or says what this version does not understand, and no earlier run has kept a snapshot."""
        try:
            await self._look()
            forget_workers(self._folder, self._settings.workers)
        except Exception as fault:
            kept = directory.load(self._path)
            if kept is None:
                raise
            why = "Postgres is away" if isinstance(fault, AWAY) else "the configuration in Postgres cannot be served"
            log.warning("%s: serving by the configuration of the last run", why, extra={"fault": repr(fault)})
            self._swap(kept)
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self.keys.close()
        with contextlib.suppress(*AWAY):
            async with asyncio.timeout(2), self._database.begin() as connection:
                await directory.retire(connection, self._worker)
        if self._listening is not None:
            self._listening.terminate()

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(min(self._settings.directory_poll_s, _LONGEST_POLL_S) if self.connected else _WHILE_AWAY_S):
                    await self._changed.wait()
            except TimeoutError:
                self._recheck = True  # a notification of a key may have been missed as well
            self._changed.clear()
            try:
                await self._look()
            except AWAY as fault:
                if self.connected:
                    log.warning("Postgres is away: serving on by what is known", extra={"fault": repr(fault)})
                self.connected = False
            except Exception:  # such as a configuration of a newer version's; it must not end this task
                log.exception("the configuration in Postgres cannot be served: serving on by the one before")

    async def _look(self) -> None:
        """One look at everything. Raises one of AWAY, or whatever a configuration raises that cannot be served."""
        async with asyncio.timeout(PATIENCE_S):
            await self._listen()
        if self._recheck:
            self._recheck = False  # before, not after: what is heard meanwhile asks for another
            try:
                await self.keys.check_all()
            except BaseException:
                self._recheck = True
                raise
        async with asyncio.timeout(PATIENCE_S):
            await self._refresh()

    async def _listen(self) -> None:
        """Makes sure that notifications come. A line may be dead without a word, so it is asked for one."""
        listening = self._listening
        if listening is not None and not listening.is_closed():
            try:
                await listening.execute("SELECT 1")
                return
            except BaseException:
                listening.terminate()
                raise
        connection = await connect(self._settings.database_url)
        try:
            await connection.add_listener(directory.CHANNEL, self._heard_of_directory)
            await connection.add_listener(keys.CHANNEL, self._heard_of_keys)
        except BaseException:
            connection.terminate()
            raise
        connection.add_termination_listener(lambda _: self._changed.set())
        self._listening = connection
        self._recheck = True

    def _heard_of_directory(self, *_: object) -> None:
        self._changed.set()

    def _heard_of_keys(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        if payload:
            self.keys.forget(bytes.fromhex(str(payload)))
        else:
            self._recheck = True
            self._changed.set()

    async def _refresh(self) -> None:
        async with self._database.connect() as connection:
            await connection.execution_options(isolation_level="REPEATABLE READ")
            async with connection.begin():
                newest = self.directory
                if await directory.read_version(connection) != newest.version or not self.connected:
                    newest = await directory.read(connection)
        self.connected = True
        if newest != self.directory:
            self._swap(newest)
            try:
                directory.save(newest, self._path)
            except OSError as fault:  # a full disk is no reason to serve by the old one
                log.warning("the configuration could not be kept on disk", extra={"fault": repr(fault)})
        async with self._database.begin() as connection:
            await directory.remember(connection, newest)
            await directory.report(connection, self._worker, newest.version)

    def _swap(self, newest: Directory) -> None:
        self._on_swap(newest)
        self.directory = newest
        log.info("configuration in force", extra={"version": newest.version, "hash": newest.hash})
