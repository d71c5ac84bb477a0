"""What a worker knows without asking: the directory's snapshot and the keys it has met, kept true by NOTIFY and a slow poll."""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable

from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain import Directory
from app.settings import Settings
from app.store import directory, keys
from app.store.away import AWAY, PATIENCE_S
from app.store.callers import count_workers
from app.store.key_index import KeyIndex
from app.store.key_log import forget_workers
from app.store.watch import Watch

log = logging.getLogger(__name__)

# A worker that has said nothing for a minute is counted as gone (see configuration.apply): it looks more often than that, whatever is set.
_LONGEST_POLL_S = 20.0
_LOOK_EVERY_S = 1.0
_LONGEST_TO_TELL_TIME_S = 0.2


class Live:
    """`directory` is the snapshot in force. start() returns once there is one to serve by, and from then on it and the keys are kept true.

    `on_swap` is called with each new snapshot, before it is reported as served. `connected`: whether Postgres answered when last asked.
    `workers_alive`: how many workers, on all machines, were seen in the minute before the last look.
    """

    def __init__(
        self, settings: Settings, database: AsyncEngine, worker: str, on_swap: Callable[[Directory], None] = lambda directory: None
    ) -> None:
        self._folder = settings.home / "directory"
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.directory = directory.EMPTY
        self.keys = KeyIndex(settings.database_url, self._folder, worker, settings.keys_remembered)
        self.connected = False
        self.workers_alive = max(settings.workers, 1)  # of this machine, until Postgres tells of all
        self.trusted_proxies = settings.trusted_proxies.parsed
        self._settings = settings
        self._database = database
        self._worker = f"{os.uname().nodename}:{settings.home.resolve()}:{worker}"
        self._path = self._folder / "snapshot.json"
        self._on_swap = on_swap
        self._look_now = asyncio.Event()
        self._refresh_now = asyncio.Event()
        self._watch = Watch(settings.database_url, (directory.CHANNEL, keys.CHANNEL), self._heard)
        self._checked_lines = 0
        self._ahead_s = 0.0
        self._version: int | None = None  # of the directory, when it was last read, whether or not it could be served
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Raises if Postgres cannot be asked, or says what this version does not understand, and no earlier run has kept a snapshot."""
        try:
            await self._look()
            await self._refresh()
            forget_workers(self._folder, self._settings.workers)
        except Exception as fault:
            kept = directory.load(self._path)
            if kept is None:
                raise
            if isinstance(fault, AWAY):
                self._version = None
            why = "Postgres is away" if isinstance(fault, AWAY) else "the configuration in Postgres cannot be served"
            log.warning("%s: serving by the configuration of the last run", why, extra={"fault": repr(fault)})
            self._swap(kept)
        self._tasks = [asyncio.create_task(each) for each in (self._keep_looking(), self._keep_refreshing(), self._keep_checking())]

    def now_s(self) -> float:
        """By Postgres's clock, by which keys end, as far as it is known: machines' clocks differ, and a key ends on all at once."""
        return time.time() + self._ahead_s

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.keys.close()
        with contextlib.suppress(*AWAY):
            async with asyncio.timeout(1), self._database.begin() as connection:
                await directory.retire(connection, self._worker)
        self._watch.close()

    def _heard(self, channel: str) -> None:
        if channel == directory.CHANNEL:
            self._refresh_now.set()
        else:
            self._look_now.set()

    # How far the keys and the directory have come: every second, and whenever there is news of keys

    async def _keep_looking(self) -> None:
        while True:
            await _either(self._look_now, _LOOK_EVERY_S)
            try:
                await self._look()
            except AWAY as fault:
                if self.connected:
                    log.warning("Postgres is away: serving on by what is known", extra={"fault": repr(fault)})
                self.connected = False

    async def _look(self) -> None:
        """Forgets the keys that have changed. Raises one of AWAY."""
        asked_s = time.monotonic()
        now = await self._watch.ask()
        took_s = time.monotonic() - asked_s
        if took_s < _LONGEST_TO_TELL_TIME_S:
            self._ahead_s = now.now_s - (time.time() - took_s / 2)
        seen = self.keys.version
        if now.keys != seen:
            # Their versions go back where an older backup was restored; and nothing is told of rows that are gone.
            told = None if seen is None or now.keys < seen or now.swept > seen else await self._watch.changes(seen)
            if told is None:
                await self.keys.check_all()
            else:
                for hash in told.keys:
                    self.keys.forget(hash)
                if told.teams:
                    self.keys.forget_teams(set(told.teams))
            self.keys.reached(now.keys)
        if not self.connected:
            self._version = None  # it may be another server, of other content under the same version
        if now.directory != self._version:
            self._refresh_now.set()
        self.connected = True

    async def _keep_checking(self) -> None:
        """After a new line all keys are looked up again, at leisure: it may lead to a server that lacks the last of what was known."""
        while True:
            if self._checked_lines != self._watch.lines:
                lines = self._watch.lines
                with contextlib.suppress(*AWAY):
                    await self.keys.check_all()
                    self._checked_lines = lines
            await asyncio.sleep(_LONGEST_POLL_S / 2)

    # The directory: whenever it has changed, and now and then in any case, to tell that this worker lives

    async def _keep_refreshing(self) -> None:
        while True:
            await _either(self._refresh_now, min(self._settings.directory_poll_s, _LONGEST_POLL_S))
            try:
                await self._refresh()
            except AWAY as fault:
                self._version = None  # to be tried again when Postgres answers
                log.info("the configuration could not be read", extra={"fault": repr(fault)})
                if isinstance(fault, TimeoutError):  # other lines of the pool may be as dead, and each would be waited for
                    await self._database.dispose()
            except Exception:  # such as a configuration of a newer version's; it must not end this task
                log.exception("the configuration in Postgres cannot be served: serving on by the one before")

    async def _refresh(self) -> None:
        """Raises one of AWAY, or whatever a configuration raises that cannot be served."""
        async with asyncio.timeout(PATIENCE_S):
            async with self._database.connect() as connection:
                await connection.execution_options(isolation_level="REPEATABLE READ")
                async with connection.begin():
                    newest = self.directory
                    version = await directory.read_version(connection)
                    if version != self._version:
                        self._version = version
                        newest = await directory.read(connection)
            if newest != self.directory:
                self._swap(newest)
                try:
                    directory.save(newest, self._path)
                except OSError as fault:  # a full disk is no reason to serve by the old one
                    log.warning("the configuration could not be kept on disk", extra={"fault": repr(fault)})
            async with self._database.begin() as connection:
                await directory.remember(connection, self.directory)
                await directory.report(connection, self._worker, self.directory.version)
                self.workers_alive = max(await count_workers(connection), 1)

    def _swap(self, newest: Directory) -> None:
        self._on_swap(newest)
        self.directory = newest
        log.info("configuration in force", extra={"version": newest.version, "hash": newest.hash})


async def _either(event: asyncio.Event, longest_s: float) -> None:
    """Until the event, or for so long; the event is spent."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(longest_s):
            await event.wait()
    event.clear()
