"""Changes in Postgres: notifications, and a version query beside them, as notifications may be lost, or not come at all."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import asyncpg

from app.store.keys import callers
from app.store.keys.callers import ChangedKeys, Versions
from app.store.postgres.database import is_pooled
from app.store.postgres.pg_connection import PgConnection
from app.store.workers import reports as worker_reports
from app.store.workers.reports import LiveWorker, ServedVersions

log = logging.getLogger(__name__)

_RETRY_AFTER_S = 0.6  # so that a change is seen within two seconds even if the connection is dead
_TIMEOUT_S = 5.0


class ChangeWatch:
    """Calls `on_change` with the channel of each notification, and with "" when the connection breaks.

    `direct_url` leads past a pooler, through which there are no notifications. Without it there, the queries alone show what has changed.
    """

    def __init__(self, database_url: str, direct_url: str, channels: Sequence[str], on_change: Callable[[str], None]) -> None:
        self._is_direct = bool(direct_url)
        self._channels = channels
        self._on_change = on_change
        self._connection = PgConnection(
            direct_url or database_url, retry_after_s=_RETRY_AFTER_S, timeout_s=_TIMEOUT_S, on_connect=self._listen
        )

    @property
    def connections_opened(self) -> int:
        """How many connections were opened so far."""
        return self._connection.times_opened

    async def read_versions(self) -> Versions:
        """See callers.read_versions. Raises one of DB_UNAVAILABLE_ERRORS."""
        return await self._connection.run(callers.read_versions)

    async def report(self, worker: str, read_versions: Callable[[], ServedVersions]) -> ServedVersions:
        """Report what a worker serves at the moment of the query; returns it. Raises one of DB_UNAVAILABLE_ERRORS."""

        async def report(connection: "asyncpg.Connection[Any]") -> ServedVersions:
            served = read_versions()
            await worker_reports.report_worker(connection, worker, served)
            return served

        return await self._connection.run(report)

    async def read_live_workers(self) -> Sequence[LiveWorker]:
        """See worker_reports.read_live_workers. Raises one of DB_UNAVAILABLE_ERRORS."""
        return await self._connection.run(worker_reports.read_live_workers)

    async def read_changes(self, since: int) -> ChangedKeys | None:
        """See callers.read_changes. Raises one of DB_UNAVAILABLE_ERRORS."""
        return await self._connection.run(lambda connection: callers.read_changes(connection, since))

    def close(self) -> None:
        self._connection.close()

    async def _listen(self, connection: "asyncpg.Connection[Any]") -> None:
        connection.add_termination_listener(lambda _: self._on_change(""))
        if is_pooled(connection) and not self._is_direct:
            # LISTEN would stay with a session of which this connection gets nothing more.
            if not self.connections_opened:
                log.info("Postgres is behind a pooler: changes are looked for every second (DATABASE_DIRECT_URL brings them at once)")
            return
        for channel in self._channels:
            await connection.add_listener(channel, self._on_notification)

    def _on_notification(self, _connection: object, _pid: int, channel: str, _payload: object) -> None:
        self._on_change(channel)
