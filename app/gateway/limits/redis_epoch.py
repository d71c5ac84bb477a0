"""Redis's memory: when it began, whether it is the one we know, and what Postgres is told of it."""

import asyncio
import logging
import secrets

from sqlalchemy.ext.asyncio import AsyncEngine

from app.store.counters import epochs
from app.store.counters.counters import RedisCounters
from app.store.counters.resp import command
from app.store.counters.scripts import EPOCH
from app.store.db_errors import DB_UNAVAILABLE_ERRORS

log = logging.getLogger(__name__)

_POSTGRES_TIMEOUT_S = 2.0
_RETRY_S = 5.0


class RedisEpoch:
    """begin() makes an epoch where there is none; remember() sees to it that Postgres knows of the present one."""

    def __init__(self, counters: RedisCounters, database: AsyncEngine) -> None:
        self._counters = counters
        self._database = database
        self._creating: asyncio.Task[None] | None = None
        self._recording: asyncio.Task[None] | None = None

    async def create(self) -> None:
        """At once for all who ask. Raises Away or Says."""
        if self._creating is None or self._creating.done():
            self._creating = asyncio.create_task(self._create())
        await asyncio.shield(self._creating)

    def record(self) -> None:
        """In the background, until it is done."""
        if self._recording is not None:
            self._recording.cancel()
        self._recording = asyncio.create_task(self._record())

    def stop(self) -> None:
        for task in (self._creating, self._recording):
            if task is not None:
                task.cancel()

    async def _create(self) -> None:
        try:
            async with asyncio.timeout(_POSTGRES_TIMEOUT_S):
                lost = await epochs.has_any_epoch(self._database)
        except DB_UNAVAILABLE_ERRORS as fault:
            log.warning("Postgres cannot say whether Redis has lost its memory: taken as a loss", extra={"fault": repr(fault)})
            lost = True
        seconds, micros = await self._counters.call(command((b"TIME",)))
        born_ms = int(seconds) * 1000 + int(micros) // 1000 if lost else 0
        epoch = f"{born_ms}:{secrets.token_hex(8)}".encode()
        if await self._counters.call(command((b"SET", EPOCH, epoch, b"NX"))) is not None and lost:
            log.warning("Redis has lost its memory: windows count as full until they have passed", extra={"born_ms": born_ms})

    async def _record(self) -> None:
        while True:
            try:
                epoch: bytes | None = await self._counters.call(command((b"GET", EPOCH)))
                if epoch is None:  # whoever misses it begins another
                    return
                await epochs.record_epoch(self._database, epoch.decode(), int(epoch.partition(b":")[0]))
                return
            except Exception as fault:  # Away and Says are for the next connection, and Postgres may be away for long
                log.info("the epoch could not be written down yet", extra={"fault": repr(fault)})
            await asyncio.sleep(_RETRY_S)
