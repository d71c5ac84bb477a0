"""Redis's epoch: marks when its memory began, so that a loss of memory is noticed; recorded in Postgres."""

import asyncio
import logging
import secrets

from sqlalchemy.ext.asyncio import AsyncEngine

from app.gateway.limits.counters import epochs
from app.gateway.limits.counters.counters import RedisCounters
from app.gateway.limits.counters.scripts import EPOCH
from app.store.redis.resp import command

log = logging.getLogger(__name__)

_POSTGRES_TIMEOUT_S = 2.0
_RETRY_S = 5.0


class RedisEpoch:
    """create() makes an epoch where Redis has none; record() writes the present one to Postgres."""

    def __init__(self, counters: RedisCounters, database: AsyncEngine) -> None:
        self._counters = counters
        self._database = database
        self.losses = 0  # how often this process was the one that noticed a loss of memory
        self._creating: asyncio.Task[None] | None = None
        self._recording: asyncio.Task[None] | None = None

    async def create(self) -> None:
        """Creates the epoch, once for all concurrent callers. Raises RedisUnavailable or RedisReplyError."""
        if self._creating is None or self._creating.done():
            self._creating = asyncio.create_task(self._create())
        await asyncio.shield(self._creating)

    def record(self) -> None:
        """Writes the epoch to Postgres in the background, retrying until that succeeds."""
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
        except Exception as fault:
            log.warning(
                "Postgres is unavailable, so it is not known whether Redis lost its memory: treated as a loss", extra={"fault": repr(fault)}
            )
            lost = True
        seconds, micros = await self._counters.call(command((b"TIME",)))
        born_ms = int(seconds) * 1000 + int(micros) // 1000 if lost else 0
        epoch = f"{born_ms}:{secrets.token_hex(8)}".encode()
        if await self._counters.call(command((b"SET", self._counters.key(EPOCH), epoch, b"NX"))) is not None and lost:
            self.losses += 1
            log.warning("Redis lost its memory: windows count as full until they are rebuilt or have passed", extra={"born_ms": born_ms})

    async def _record(self) -> None:
        while True:
            try:
                epoch: bytes | None = await self._counters.call(command((b"GET", self._counters.key(EPOCH))))
                if epoch is None:  # lost again: whichever worker notices creates another, and records that
                    return
                await epochs.record_epoch(self._database, epoch.decode(), int(epoch.partition(b":")[0]))
                return
            except Exception as fault:  # Redis may be away until the next connection, and Postgres for long
                log.info("the epoch could not be recorded yet", extra={"fault": repr(fault)})
            await asyncio.sleep(_RETRY_S)
