"""Counting of units in a writer's process, beside storing records, if no other writer does it at the moment."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator

from app.process.background_tasks import BackgroundTask
from app.results.units.counting import UNITS_AT_ONCE, count_due_units, put_off_due_unit, take_in_touched
from app.results.units.pre_period import give_up_scan, scan_pre_period
from app.settings import Settings
from app.store.experiment_units.forgotten_units import delete_old_units
from app.store.postgres.database import connect
from app.store.postgres.db_errors import BUSY_ERRORS, DB_UNAVAILABLE_ERRORS, TOO_LONG_ERRORS
from app.store.postgres.outage_log import OutageLog
from app.store.postgres.partitions import Connection

logger = logging.getLogger(__name__)

_POLL_S = 1.0
_RECONNECT_S = 2.0
_DELETE_EVERY = 60


@contextlib.asynccontextmanager
async def counting_in_background(settings: Settings) -> AsyncGenerator[None]:
    """Counts units until the context is left. What was not counted then is counted by the next process."""
    task = BackgroundTask("experiments", lambda: _keep_counting(settings))
    task.start()
    try:
        yield
    finally:
        await task.stop()


async def _keep_counting(settings: Settings) -> None:
    outages = OutageLog(logger, "Units of experiments cannot be counted", "Units of experiments are counted again")
    while True:
        try:
            connection = await connect(settings.database_url)
            try:
                await _count(connection, outages)
            finally:
                await connection.close()
        except DB_UNAVAILABLE_ERRORS as error:
            outages.note_failure(error)
        await asyncio.sleep(_RECONNECT_S)


async def _count(connection: Connection, outages: OutageLog) -> None:
    rounds, units = 0, UNITS_AT_ONCE
    while True:
        has_more = False
        with contextlib.suppress(*BUSY_ERRORS):
            has_more = await take_in_touched(connection)
        with contextlib.suppress(*BUSY_ERRORS):
            has_more = await _scan_pre_period(connection) or has_more
        with contextlib.suppress(*BUSY_ERRORS):
            has_more_due, units = await _count_due(connection, units)
            has_more = has_more or has_more_due
        if rounds % _DELETE_EVERY == 0:
            await delete_old_units(connection)
        outages.note_success()
        rounds += 1
        await asyncio.sleep(0 if has_more else _POLL_S)


async def _scan_pre_period(connection: Connection) -> bool:
    try:
        return await scan_pre_period(connection)
    except TOO_LONG_ERRORS:
        given_up = await give_up_scan(connection)
        logger.warning(
            "Feedback from before an experiment takes too long to read; its metrics of feedback have no covariates: %s", given_up
        )
        return True


async def _count_due(connection: Connection, units: int) -> tuple[bool, int]:
    """Returns whether there may be more to do now, and how many units to count next: large ones must not keep all others from it."""
    try:
        return await count_due_units(connection, units), min(UNITS_AT_ONCE, units + 1 + units // 8)
    except TOO_LONG_ERRORS:
        if units == 1:
            put_off = await put_off_due_unit(connection)
            logger.warning("A unit of an experiment takes too long to count, and is tried again later: %s", put_off)
        return True, max(1, units // 8)
