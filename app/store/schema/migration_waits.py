"""Whom a migration waits for: other sessions of Postgres that hold what it needs, named while it waits and when it gives up."""

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any

import asyncpg
from msgspec import Struct

from app.domain.errors import MigrationBlocked
from app.store.postgres.database import connect
from app.store.postgres.db_errors import DB_UNAVAILABLE_ERRORS

_LOOK_AFTER_S = 0.5  # most migrations are over by then
_LOOK_EVERY_S = 1.0
_QUERY_TIMEOUT_S = 5.0

# A user who may not see what another's session does gets nulls, and no query. 0 is the number of a prepared transaction.
_FIND = """
SELECT blocking.pid, activity.application_name, activity.usename, activity.client_addr::text AS address, activity.backend_type,
       activity.state, left(activity.query, 200) AS query,
       extract(epoch FROM clock_timestamp() - coalesce(activity.xact_start, activity.state_change))::float8 AS since_s
FROM (SELECT DISTINCT unnest(pg_blocking_pids($1)) AS pid) AS blocking LEFT JOIN pg_stat_activity AS activity ON activity.pid = blocking.pid
ORDER BY blocking.pid
"""
# No more, and nothing that is not a word: what follows may be a password, as in ALTER ROLE name PASSWORD '...'.
_FIRST_WORDS = re.compile(r"[A-Za-z_][\w.]*(?:\s+[A-Za-z_][\w.]*){0,2}")


class Blocker(Struct, frozen=True):
    """A session that holds what a migration needs."""

    pid: int  # 0: a prepared transaction
    description: str  # who it is, what it does, since when


class MigrationWaits:
    """The waits of the migrations of one run.

    `holds_lock` says whether the present attempt has the lock of migrations; if not, another migration runs.
    """

    def __init__(self, database_url: str, wait_s: float, report: Callable[[str], None]) -> None:
        self.holds_lock = False
        self._database_url = database_url
        self._wait_s = wait_s
        self._report = report
        self._since_s: float | None = None  # by time.monotonic(): since when it waits
        self._blockers: list[Blocker] = []
        self._reported: set[int] = set()

    @contextlib.asynccontextmanager
    async def watching(self, pid: int) -> AsyncGenerator[None]:
        """Reports whom this process of Postgres waits for, until it is left."""
        self.holds_lock = False
        task = asyncio.create_task(self._watch(pid))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    def note_failed_attempt(self, waited_s: float) -> None:
        """An attempt that waited for so long has failed. Raises MigrationBlocked once it has been enough."""
        now_s = time.monotonic()
        self._since_s = now_s - waited_s if self._since_s is None else self._since_s
        if now_s - self._since_s >= self._wait_s:
            raise MigrationBlocked(self._explain())

    def note_success(self) -> None:
        self._since_s, self._blockers = None, []

    async def _watch(self, pid: int) -> None:
        await asyncio.sleep(_LOOK_AFTER_S)
        with contextlib.suppress(*DB_UNAVAILABLE_ERRORS):  # whom for is not known then
            connection = await connect(self._database_url, _QUERY_TIMEOUT_S)
            try:
                while True:
                    self._note_blockers(await find_blockers(connection, pid))
                    await asyncio.sleep(_LOOK_EVERY_S)
            finally:
                connection.terminate()

    def _note_blockers(self, found: list[Blocker]) -> None:
        self._blockers = found or self._blockers
        for each in found:
            if each.pid not in self._reported:
                self._reported.add(each.pid)
                what = "Waiting for" if self.holds_lock else "Another migration runs, waiting for"
                self._report(f"{what} {each.description}.")

    def _explain(self) -> str:
        holders = "".join(f"\n  {each.description}" for each in self._blockers) or "\n  (PostgreSQL does not say who)"
        if not self.holds_lock:
            return f"Another migration has run for more than {self._wait_s:g} s:{holders}\nRun `narthex migrate` again when it has ended."
        pids = [each.pid for each in self._blockers if each.pid]
        terminate = f", or end it with SELECT pg_terminate_backend({pids[0]});" if pids else ""
        return (
            f"What the next migration changes was in use for more than {self._wait_s:g} s:{holders}\n"
            f"Let that end{terminate} and run `narthex migrate` again: it goes on where it stopped, and nothing is half done."
        )


async def find_blockers(connection: "asyncpg.Connection[Any]", pid: int) -> list[Blocker]:
    """The sessions that this process of Postgres waits for."""
    return [Blocker(row["pid"], _describe(row)) for row in await connection.fetch(_FIND, pid)]


def _describe(row: Any) -> str:
    if not row["pid"]:
        return "a prepared transaction (pg_prepared_xacts lists them)"
    names = {"user": row["usename"], "from": row["address"]}
    who = [row["application_name"] or row["backend_type"] or "", *(f"{name} {value}" for name, value in names.items() if value)]
    described = f"process {row['pid']} of PostgreSQL ({', '.join(filter(None, who)) or 'unknown'})"
    if row["state"]:
        described += f", {row['state']}"
    if row["since_s"] is not None:
        described += f" for {max(0.0, row['since_s']):.0f} s"
    words = first_words(row["query"] or "")
    return f"{described}: {words} ..." if words else described


def first_words(query: str) -> str:
    """The first words of a statement, which say what it does and hold no value."""
    found = _FIRST_WORDS.match(query.strip())
    return " ".join(found[0].split()) if found else ""
