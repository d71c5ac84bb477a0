"""Waiting until every live gateway process serves a change, for answers and sentences that are true once they are read."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from app.store.postgres.database import connect
from app.store.postgres.db_errors import DB_UNAVAILABLE_ERRORS
from app.store.workers.reports import LiveWorker, ServedVersions, read_current_versions, read_live_workers

_MIN_PAUSE_S = 0.004
_MAX_PAUSE_S = 0.1
_PAUSE_SHARE = 0.3  # of the time waited so far: the answer comes so much later than it could
_SHARED_FOR_S = 0.004  # those who wait at the same time in a process share its queries
_MIN_READ_S = 1.0  # what a single query may take, also for whoever does not wait
_SHOWN_IDS = 10


class Applied(Struct, frozen=True):
    """How many gateway processes are live, and the ids of those that do not serve a change. `live` None: Postgres did not say."""

    live: int | None
    behind: Sequence[str] = ()

    @property
    def is_everywhere(self) -> bool:
        """Whether it is known that every live process serves it."""
        return self.live is not None and not self.behind

    def in_words(self, wait_s: float) -> str:
        """Returns how many workers serve a change, as the end of a sentence for people."""
        if self.live is None:
            return "whether every worker serves it is not known, as the database did not answer."
        if not self.behind:
            return f"{self.live} worker{'s serve' if self.live != 1 else ' serves'} it."
        return (
            f"{self.live - len(self.behind)} of {self.live} workers serve it after {wait_s:g} s, and these do not:"
            f" {', '.join(self.named())}. See their logs."
        )

    def named(self) -> list[str]:
        """The ids of those that do not serve it, or of the first of very many."""
        more = len(self.behind) - _SHOWN_IDS
        return [*self.behind[:_SHOWN_IDS], *([f"and {more} more"] if more > 0 else [])]


class AppliedChanges:
    """Waits for gateway processes. `read_workers` is the query, which may raise one of DB_UNAVAILABLE_ERRORS."""

    def __init__(self, read_workers: Callable[[], Awaitable[Sequence[LiveWorker]]]) -> None:
        self._read_workers = read_workers
        self._reading: asyncio.Task[Sequence[LiveWorker]] | None = None
        self._began_s = 0.0

    async def wait(self, change: ServedVersions, timeout_s: float) -> Applied:
        """Returns once every live process serves a change that was committed, or after `timeout_s`; it raises nothing."""
        applied = Applied(None)
        began_s = time.monotonic()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(timeout_s, _MIN_READ_S)):
                while True:
                    waited_s = time.monotonic() - began_s
                    pause_s = min(max(_PAUSE_SHARE * waited_s, _MIN_PAUSE_S), _MAX_PAUSE_S)
                    is_last = waited_s + pause_s >= timeout_s
                    if not is_last:  # before the first look, too: no process serves a change at once
                        await asyncio.sleep(pause_s)
                    with contextlib.suppress(*DB_UNAVAILABLE_ERRORS):
                        workers = await self._share_read()
                        behind = [each for each in workers if not each.serves(change)]
                        applied = Applied(len(workers), tuple(each.id for each in behind))
                        if not any(each.will_report(change) for each in behind):
                            break
                    if is_last:
                        break
        return applied

    async def _share_read(self) -> Sequence[LiveWorker]:
        """A read that began a moment ago is as good: what it shows can only be more by now."""
        if self._reading is None or (self._reading.done() and time.monotonic() - self._began_s > _SHARED_FOR_S):
            self._began_s = time.monotonic()
            self._reading = asyncio.create_task(self._read())
        return await asyncio.shield(self._reading)

    async def _read(self) -> Sequence[LiveWorker]:
        return await self._read_workers()


async def wait_until_served(database_url: str, wait_s: float) -> Applied:
    """Waits until every live process serves what Postgres has now. It raises nothing.

    It is for a command that has changed something.
    """
    try:
        connection = await connect(database_url, command_timeout_s=_MIN_READ_S + wait_s)
        try:
            versions = await read_current_versions(connection)
            return await AppliedChanges(lambda: read_live_workers(connection)).wait(versions, wait_s)
        finally:
            connection.terminate()
    except DB_UNAVAILABLE_ERRORS:
        return Applied(None)
