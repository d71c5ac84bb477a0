"""Guardrails and adaptive weights in a writer's process, beside storing records, which they never hold up."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator

from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain.errors import BadConfiguration, UnknownExperiment
from app.process.background_tasks import BackgroundTask
from app.results.guard.acting import look_at
from app.settings import Settings
from app.store.experiments.queries import ExperimentRow, ListQuery, page_experiments
from app.store.postgres.database import create_database_engine
from app.store.postgres.db_errors import DB_UNAVAILABLE_ERRORS, describe_without_values, is_outage
from app.store.postgres.outage_log import OutageLog

logger = logging.getLogger(__name__)

LEAST_INTERVAL_S = 1.0
_PAGE = 500
_QUERY_TIMEOUT_S = 60.0


@contextlib.asynccontextmanager
async def acting_in_background(settings: Settings) -> AsyncGenerator[None]:
    """Acts on experiments until the context is left.

    An act is one transaction: one that was not committed then is left to the next look.
    """
    if not settings.experiment_check_s:
        yield
        return
    database = create_database_engine(settings.database_url, command_timeout_s=_QUERY_TIMEOUT_S, pool_size=1, max_overflow=0)
    looking = _Looking(database)

    async def keep_looking() -> None:
        while True:
            await looking.look()
            await asyncio.sleep(max(LEAST_INTERVAL_S, settings.experiment_check_s))

    task = BackgroundTask("guardrails", keep_looking)
    task.start()
    try:
        yield
    finally:
        await task.stop()
        await database.dispose()


class _Looking:
    """An experiment that cannot be looked at holds up no other, and its error is logged once."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database
        self._errors: dict[str, str] = {}
        self._outages = OutageLog(logger, "Experiments cannot be looked at", "Experiments are looked at again")

    async def look(self) -> None:
        try:
            running = await self._read_running()
            for experiment in running:
                await self._look_at(experiment)
        except DB_UNAVAILABLE_ERRORS as error:
            self._outages.note_failure(error)
            return
        self._outages.note_success()
        self._errors = {id: error for id, error in self._errors.items() if id in {each.id for each in running}}

    async def _look_at(self, experiment: ExperimentRow) -> None:
        try:
            async with self._database.begin() as connection:
                await look_at(connection, experiment)
            self._errors.pop(experiment.id, None)
        except (*DB_UNAVAILABLE_ERRORS, BadConfiguration, UnknownExperiment) as error:
            if is_outage(error):
                raise
            self._note(experiment.id, f"The experiment {experiment.name!r:.200} cannot be looked at; trying again", error)
        except Exception:
            logger.exception("looking at the experiment %r failed", experiment.name)

    async def _read_running(self) -> list[ExperimentRow]:
        found: list[ExperimentRow] = []
        after: str | None = None
        async with self._database.connect() as connection:
            while True:
                page = await page_experiments(connection, ListQuery(limit=_PAGE, after=after, sort="-created_at"), "running")
                found += page.data
                after = page.next
                if after is None:
                    return found

    def _note(self, id: str, what: str, error: Exception) -> None:
        described = describe_without_values(error)
        if self._errors.get(id) != described:
            logger.warning("%s: %s", what, described)
        self._errors[id] = described
