"""A worker's cache of configuration and keys, kept current by NOTIFY, a poll of their versions every second, and a slow one of all."""

import asyncio
import contextlib
import logging
import math
import os
import time
from collections.abc import Callable, Sequence

from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain.snapshot import Snapshot
from app.process.background_tasks import BackgroundTask
from app.process.thread_steps import run_in_steps
from app.settings import Settings
from app.store.configuration import saved_snapshot, snapshots
from app.store.configuration.snapshots import StoredConfiguration
from app.store.keys import rows as key_rows
from app.store.keys.change_watch import ChangeWatch
from app.store.keys.index import KeyIndex
from app.store.keys.log import remove_stale_logs
from app.store.postgres.db_errors import DB_UNAVAILABLE_ERRORS, QUERY_TIMEOUT_S
from app.store.postgres.outage_log import OutageLog
from app.store.workers import reports as worker_reports
from app.store.workers.applied_changes import Applied, AppliedChanges
from app.store.workers.reports import LiveWorker, ServedVersions

log = logging.getLogger(__name__)

# A worker that has not reported for a minute counts as gone (see app/store/workers/reports.py): it polls more often, whatever the setting.
_MAX_POLL_S = 20.0
_CHECK_EVERY_S = 1.0
_MAX_CLOCK_ROUND_TRIP_S = 0.2


class SnapshotCache:
    """The snapshot in force and the known keys. start() returns once there is a snapshot to serve by, and keeps both current.

    `prepare` is called with each new snapshot, in a thread and in steps; what it returns puts that snapshot in force, in one turn of the
    event loop with `snapshot` itself. `workers_alive` is how many reported in the minute before the last check.
    """

    def __init__(
        self,
        settings: Settings,
        database: AsyncEngine,
        worker: str,
        prepare: Callable[[Snapshot], Callable[[], None]] = lambda _: _no_parts,
    ) -> None:
        self._folder = settings.home / "directory"
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.snapshot = snapshots.EMPTY
        self.keys = KeyIndex(settings.database_url, self._folder, worker, settings.keys_remembered)
        self.connected = False  # whether Postgres answered the last query
        self.workers_alive = max(settings.workers, 1)  # of this machine, until the first check
        self.trusted_proxies = settings.trusted_proxies.parsed
        self._settings = settings
        self._database = database
        self.worker = f"{os.uname().nodename}:{settings.home.resolve()}:{worker}"  # among those of all machines
        self._path = self._folder / "snapshot.json"
        self._prepare = prepare
        self._check_requested = asyncio.Event()
        self._refresh_requested = asyncio.Event()
        channels = (snapshots.CHANNEL, key_rows.CHANNEL)
        self._change_watch = ChangeWatch(settings.database_url, settings.database_direct_url, channels, self._on_change)
        self._outages = OutageLog(log, "Postgres is unavailable, and the cached snapshot is served", "Postgres answers again")
        self._refresh_outages = OutageLog(log, "The configuration cannot be read", "The configuration is read again")
        self._applied_changes = AppliedChanges(self._read_live_workers)
        self._reported = ServedVersions()
        self._reported_s = -math.inf
        self._revalidated_connections = 0
        self._clock_offset_s = 0.0
        self._confirmed_ms = 0  # when Postgres had the version of the snapshot as its newest
        self._last_read_version: int | None = None  # of the configuration last read, whether or not it could be served
        self._must_reread = False  # at the next regular poll, although its version is the same
        self._keys_current_s = time.monotonic()
        self.background_tasks = (
            BackgroundTask("versions", self._keep_checking_versions),
            BackgroundTask("configuration", self._keep_refreshing),
            BackgroundTask("keys", self._keep_revalidating),
        )

    async def start(self) -> None:
        """Raises if Postgres is unavailable, or its configuration cannot be served, and no earlier run has saved a snapshot."""
        try:
            await self._check_versions()
            await self._refresh()
            # Again, now that this worker is known: what was changed before was answered without it.
            await self._check_versions()
            await self._refresh()
            remove_stale_logs(self._folder, self._settings.workers)
        except Exception as fault:
            saved = saved_snapshot.load_from_disk(self._path)
            if saved is None:
                raise
            if isinstance(fault, DB_UNAVAILABLE_ERRORS):
                self._last_read_version = None
            reason = "Postgres is unavailable" if isinstance(fault, DB_UNAVAILABLE_ERRORS) else "the stored configuration cannot be served"
            log.warning("%s: serving the configuration of the last run", reason, extra={"fault": repr(fault)})
            await self._apply(saved)
        for task in self.background_tasks:
            task.start()

    @property
    def revocation_lag_s(self) -> float:
        """Seconds since the keys cached here were last known to be current (before that: since the start). A key revoked since then may
        still be served here.
        """
        return time.monotonic() - self._keys_current_s

    @property
    def current_ms(self) -> int:
        """The time when the snapshot was last known to be the newest.

        It is Unix time in milliseconds, by Postgres's clock.
        """
        return max(self.snapshot.read_ms, self._confirmed_ms)

    def to_postgres_ms(self, local_us: int) -> int:
        """A time of this machine's clock in milliseconds of Postgres's, as far as that is known."""
        return int(local_us / 1000 + self._clock_offset_s * 1000)

    def now_s(self) -> float:
        """Unix time by Postgres's clock, as far as it is known: machines' clocks differ, and a key must expire on all at once."""
        return time.time() + self._clock_offset_s

    async def wait_until_applied(self, change: ServedVersions, timeout_s: float) -> Applied:
        """Returns once every live worker of all machines serves a change that was committed, or after `timeout_s`."""
        if change.configuration:
            self._refresh_requested.set()
        if change.keys:
            self._check_requested.set()
        return await self._applied_changes.wait(change, timeout_s)

    async def _read_live_workers(self) -> Sequence[LiveWorker]:
        """This one is among them, also before it could report again after an outage of Postgres."""
        others = [each for each in await self._change_watch.read_live_workers() if each.id != self.worker]
        served = self._read_served()
        return [*others, LiveWorker(self.worker, served.configuration, served.keys)]

    async def stop(self) -> None:
        for task in self.background_tasks:
            await task.stop()
        await self.keys.close()
        with contextlib.suppress(*DB_UNAVAILABLE_ERRORS):
            async with asyncio.timeout(1), self._database.begin() as connection:
                await worker_reports.remove_worker(connection, self.worker)
        self._change_watch.close()

    def _on_change(self, channel: str) -> None:
        if channel == snapshots.CHANNEL:
            self._refresh_requested.set()
        else:
            self._check_requested.set()

    # Versions of keys and configuration: every second, and at each notification about keys

    async def _keep_checking_versions(self) -> None:
        while True:
            await _wait_at_most(self._check_requested, _CHECK_EVERY_S)
            try:
                await self._check_versions()
            except DB_UNAVAILABLE_ERRORS as fault:
                self._outages.note_failure(fault)
                self.connected = False
            except Exception:
                self.connected = False
                raise
            with contextlib.suppress(*DB_UNAVAILABLE_ERRORS):  # or it cannot be written to, which keeps nothing from being current
                await self._report_versions()

    async def _check_versions(self) -> None:
        """Invalidate the keys that have changed. Raises one of DB_UNAVAILABLE_ERRORS."""
        started_s = time.monotonic()
        versions = await self._change_watch.read_versions()
        took_s = time.monotonic() - started_s
        if took_s < _MAX_CLOCK_ROUND_TRIP_S:
            self._clock_offset_s = versions.now_s - (time.time() - took_s / 2)
        known_version = self.keys.version
        if versions.keys != known_version:
            # Versions go back when an older backup is restored; and removed rows are not among the changes.
            changes = (
                None
                if known_version is None or versions.keys < known_version or versions.last_removal > known_version
                else await self._change_watch.read_changes(known_version)
            )
            if changes is None:
                await self.keys.revalidate_all()
            else:
                for hash in changes.keys:
                    self.keys.invalidate(hash)
                if changes.teams:
                    self.keys.invalidate_teams(set(changes.teams))
            self.keys.set_version(versions.keys)
        if not self.connected:
            self._last_read_version = None  # it may be another server, with other content under the same version
            self._outages.note_success()
        self._keys_current_s = started_s
        if versions.snapshot != self._last_read_version:
            self._refresh_requested.set()
        elif versions.snapshot == self.snapshot.version:
            self._confirmed_ms = int(versions.now_s * 1000)
        self.connected = True

    async def _keep_revalidating(self) -> None:
        """Look up all keys again after each new connection: it may lead to a server that lacks the newest changes."""
        while True:
            if self._revalidated_connections != self._change_watch.connections_opened:
                connections_opened = self._change_watch.connections_opened
                with contextlib.suppress(*DB_UNAVAILABLE_ERRORS):
                    await self.keys.revalidate_all()
                    self._revalidated_connections = connections_opened
            await asyncio.sleep(_MAX_POLL_S / 2)

    async def _report_versions(self) -> None:
        """Report what this worker serves, if that has changed or the last report was a while ago. Raises one of DB_UNAVAILABLE_ERRORS."""
        served = self._read_served()
        if served != self._reported or time.monotonic() - self._reported_s >= worker_reports.REPORT_EVERY_S:
            self._reported_s = time.monotonic()
            self._reported = await self._change_watch.report(self.worker, self._read_served)

    def _read_served(self) -> ServedVersions:
        return ServedVersions(self.snapshot.version, self.keys.version or 0)

    # The snapshot: whenever the configuration has changed, and regularly

    async def _keep_refreshing(self) -> None:
        while True:
            await _wait_at_most(self._refresh_requested, min(self._settings.directory_poll_s, _MAX_POLL_S))
            try:
                await self._refresh()
                self._refresh_outages.note_success()
            except DB_UNAVAILABLE_ERRORS as fault:
                self._last_read_version = None  # try again when Postgres answers
                self._refresh_outages.note_failure(fault)
                if isinstance(fault, TimeoutError):  # other connections of the pool may be dead too, and each would cost a timeout
                    await self._database.dispose()
            except Exception:  # such as a configuration of a newer version
                self._must_reread = True
                log.exception("the configuration in Postgres cannot be served: serving the previous one")

    async def _refresh(self) -> None:
        """Read and apply the newest configuration. Raises one of DB_UNAVAILABLE_ERRORS, or any error of one that cannot be served.

        The timeout is for queries alone: on a busy machine a large configuration takes longer to prepare, and reading it again is no help.
        """
        async with asyncio.timeout(QUERY_TIMEOUT_S):
            stored = await self._read_if_changed()
        if stored is not None:
            newest = await run_in_steps(lambda: snapshots.decode(stored, self.snapshot))
            if newest != self.snapshot:
                await self._apply(newest)
                self._must_reread = False
                await self._report_versions()
                await self._save(newest)
        await self._report_versions()
        await self._report_snapshot()

    async def _read_if_changed(self) -> StoredConfiguration | None:
        async with self._database.connect() as connection:
            await connection.execution_options(isolation_level="REPEATABLE READ")
            async with connection.begin():
                version = await snapshots.read_version(connection)
                if version == self._last_read_version and not self._must_reread:
                    return None
                self._last_read_version = version
                return await snapshots.read_stored(connection)

    async def _apply(self, snapshot: Snapshot) -> None:
        swap_parts = await run_in_steps(lambda: self._prepare(snapshot))
        swap_parts()
        self.snapshot = snapshot
        log.info("configuration in force", extra={"version": snapshot.version, "hash": snapshot.hash})

    async def _save(self, snapshot: Snapshot) -> None:
        try:
            await run_in_steps(lambda: saved_snapshot.save_to_disk(snapshot, self._path))
        except OSError as fault:  # a full disk is no reason to serve the old one
            log.warning("the configuration could not be saved to disk", extra={"fault": repr(fault)})

    async def _report_snapshot(self) -> None:
        """Name the hash of what this worker serves, and count the others. Raises one of DB_UNAVAILABLE_ERRORS."""
        async with asyncio.timeout(QUERY_TIMEOUT_S), self._database.begin() as connection:
            await snapshots.report_snapshot(connection, self.snapshot)
            self.workers_alive = max(await worker_reports.count_workers(connection), 1)


def _no_parts() -> None:
    """The swap of a cache that serves nobody but itself."""


async def _wait_at_most(event: asyncio.Event, timeout_s: float) -> None:
    """Wait for the event, or for `timeout_s`; clears the event."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()
    event.clear()
