"""ReplayRunner: one for each gateway process, which runs some replays at once, each of which no other process runs.

A lease in Postgres says who runs a replay. When its process ends, another takes it over after some seconds and goes on: an item whose
response was recorded is not run again, one that was cut off is, and says so.
"""

import asyncio
import contextlib
import logging
import time
import traceback
from collections import deque
from collections.abc import Coroutine
from datetime import UTC, datetime

from sqlalchemy.ext.asyncio import AsyncEngine

from app.gateway.pipeline.gateway import Gateway
from app.gateway.replay.item_allowance import ReplayFailed
from app.gateway.replay.item_run import ItemRuns, LeftForLater
from app.gateway.replay.replay_runs import (
    LEASE_S,
    HeldReplay,
    Item,
    LeaseLost,
    ReplayCancelled,
    finish_replay,
    others_wait,
    read_interrupted,
    read_pending,
    release_lease,
    renew_lease,
    take_replay,
)
from app.gateway.replay.spending import CapReached, Spending
from app.process.background_tasks import BackgroundTask
from app.store.postgres.database import create_database_engine
from app.store.postgres.db_errors import DB_UNAVAILABLE_ERRORS
from app.store.postgres.spools import stored_until
from app.store.replays.replays import ReplayStatus

log = logging.getLogger(__name__)

_POLL_S = 2.0
_MAX_AT_ONCE = 4
# After which a replay makes room for one of a team that has fewer running: so none that is long, or waits for a limit, holds up others.
_TURN_S = 60.0
_RENEW_EVERY_S = LEASE_S / 5
_PAGE_ITEMS = 200
# How long the records of a process that ended may take until they are stored.
_STORED_WAIT_S, _STORED_POLL_S = 30.0, 0.5
_RELEASE_TIMEOUT_S = 2.0
_MAX_REASON_CHARS = 500


class ReplayRunner:
    """start(), and stop() once callers are served no more. `database` is that of the process, for one question every two seconds."""

    def __init__(self, gateway: Gateway, database: AsyncEngine) -> None:
        self.task = BackgroundTask("replays", self._keep_running)
        self._gateway = gateway
        self._database = database

    async def _keep_running(self) -> None:
        holder = self._gateway.snapshot_cache.worker
        running: set[asyncio.Task[None]] = set()
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(_POLL_S)
                if self._gateway.draining or len(running) >= _MAX_AT_ONCE:
                    continue
                try:
                    async with self._database.begin() as connection:
                        held = await take_replay(connection, holder)
                except DB_UNAVAILABLE_ERRORS:
                    continue
                if held is not None:
                    task = group.create_task(self._run(held))
                    running.add(task)
                    task.add_done_callback(running.discard)

    async def _run(self, held: HeldReplay) -> None:
        # A pool of its own, so that callers never wait for it.
        database = create_database_engine(self._gateway.settings.database_url, pool_size=2, max_overflow=2)
        try:
            await _Run(self._gateway, database, held).run()
        except (LeaseLost, *DB_UNAVAILABLE_ERRORS) as fault:
            log.info("a replay is left to another process", extra={"replay": held.id, "fault": type(fault).__name__})
        except Exception as fault:
            # It is tried again, and no other replay ends for it. Without the error's own text, which may quote what was written.
            frames = "".join(traceback.format_tb(fault.__traceback__))
            log.error("a replay broke off", extra={"replay": held.id, "error": type(fault).__name__, "traceback": frames})
        finally:
            with contextlib.suppress(TimeoutError, *DB_UNAVAILABLE_ERRORS):
                async with asyncio.timeout(_RELEASE_TIMEOUT_S), database.begin() as connection:
                    await release_lease(connection, held)
            await database.dispose()


class _Run:
    """One replay, while this process holds its lease."""

    def __init__(self, gateway: Gateway, database: AsyncEngine, held: HeldReplay) -> None:
        max_usd = held.definition.max_usd
        self._gateway = gateway
        self._database = database
        self._held = held
        spending = Spending(None if max_usd is None else int(max_usd * 1_000_000), held.spent_microusd)
        self._leaves = asyncio.Event()  # it was cancelled, or it is another team's turn: no further item is begun
        self._items = ItemRuns(gateway, database, held, spending, self._leaves)
        self._pending: deque[Item] = deque()
        self._last_number = 0
        self._page_lock = asyncio.Lock()
        # Another process may have begun an item a moment ago.
        pause_s = 60 / held.definition.per_minute if held.definition.per_minute and held.lease > 1 else 0.0
        self._next_start_s = time.monotonic() + pause_s
        self._end: tuple[ReplayStatus, str | None] | None = None  # before the last item

    @property
    def _is_over(self) -> bool:
        return self._leaves.is_set() or self._end is not None or self._gateway.draining

    async def run(self) -> None:
        """Raises LeaseLost, and one of DB_UNAVAILABLE_ERRORS."""
        try:
            async with asyncio.TaskGroup() as group:
                renewal = group.create_task(self._keep_lease())
                await self._finish_interrupted()
                await asyncio.gather(*(group.create_task(self._work()) for _ in range(self._held.definition.concurrency)))
                renewal.cancel()
        except BaseExceptionGroup as faults:
            raise _first(faults) from None
        if self._leaves.is_set() or (self._gateway.draining and self._end is None):
            return
        status, reason = self._end or ("complete", None)
        async with self._database.begin() as connection:
            await finish_replay(connection, self._held, status, reason)

    async def _keep_lease(self) -> None:
        turn_ends_s, have_waited = time.monotonic() + _TURN_S, False
        while True:
            async with self._database.begin() as connection:
                is_running = await renew_lease(connection, self._held, self._items.waits_for)
                wait = is_running and time.monotonic() > turn_ends_s and await others_wait(connection, self._held)
            if not is_running or (wait and have_waited):  # at the second look no process has had a place for the other
                self._leaves.set()
            have_waited = wait
            await asyncio.sleep(_RENEW_EVERY_S)

    async def _finish_interrupted(self) -> None:
        async with self._database.connect() as connection:
            interrupted = await read_interrupted(connection, self._held)
        if not interrupted:
            return
        await self._wait_until_stored()
        await self._items.settle_interrupted(interrupted)
        for item in interrupted:
            await self._wait_for_rate()
            if self._is_over:
                return
            await self._run_item(self._items.finish_interrupted(item))

    async def _wait_until_stored(self) -> None:
        """Waits until what another process had recorded when it ended is stored, but not for too long."""
        now, deadline_s = datetime.now(UTC), time.monotonic() + _STORED_WAIT_S
        while time.monotonic() < deadline_s:
            async with self._database.connect() as connection:
                stored = await stored_until(connection)
            if stored is not None and stored > now:
                return
            await asyncio.sleep(_STORED_POLL_S)

    async def _work(self) -> None:
        while not self._is_over:
            item = await self._next_item()
            if item is None:
                return
            await self._wait_for_rate()
            if self._is_over:
                return
            await self._run_item(self._items.run(item))

    async def _run_item(self, work: Coroutine[None, None, None]) -> None:
        """Whatever ends the replay lets the items in progress run to their end."""
        try:
            await work
        except ReplayCancelled:
            self._leaves.set()
        except LeftForLater:
            pass  # this is set
        except CapReached:
            self._end = self._end or ("complete", "cap")
        except ReplayFailed as fault:
            self._end = self._end or ("failed", str(fault)[:_MAX_REASON_CHARS])

    async def _next_item(self) -> Item | None:
        async with self._page_lock:
            if not self._pending:
                async with self._database.connect() as connection:
                    self._pending.extend(await read_pending(connection, self._held, self._last_number, _PAGE_ITEMS))
            if not self._pending:
                return None
            item = self._pending.popleft()
            self._last_number = item.number
            return item

    async def _wait_for_rate(self) -> None:
        per_minute = self._held.definition.per_minute
        if per_minute is None:
            return
        start_s = max(time.monotonic(), self._next_start_s)
        self._next_start_s = start_s + 60 / per_minute
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, start_s - time.monotonic())):
                await self._leaves.wait()


def _first(faults: BaseExceptionGroup[BaseException]) -> BaseException:
    """One of DB_UNAVAILABLE_ERRORS, or LeaseLost, as one task after the other fails by them."""
    first = faults.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
