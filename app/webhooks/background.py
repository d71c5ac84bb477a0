"""The work of a writer's process for webhooks. It never holds up the storing of records."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator

from app.process.background_tasks import BackgroundTask
from app.settings import Settings
from app.store.postgres.database import create_database_engine
from app.store.postgres.db_errors import DB_UNAVAILABLE_ERRORS
from app.store.postgres.outage_log import OutageLog
from app.store.postgres.vault import Vault
from app.webhooks.budget_check import BudgetCheck
from app.webhooks.delivery import keep_delivering
from app.webhooks.sender import WebhookSender
from providers.transport.transport import Transport

logger = logging.getLogger(__name__)

_QUERY_TIMEOUT_S = 60.0


@contextlib.asynccontextmanager
async def webhooks_in_background(settings: Settings, vault: Vault) -> AsyncGenerator[None]:
    """Checks budgets and sends what is due, until it is left. What was not sent then is sent by the next process."""
    if not settings.budget_check_s:
        yield
        return
    # Two: one checks while the other delivers. A connection is opened when it is first needed.
    database = create_database_engine(settings.database_url, command_timeout_s=_QUERY_TIMEOUT_S, pool_size=2, max_overflow=4)
    transport = Transport(proxy=settings.proxy, guard=settings.address_guard, ca_bundle=settings.ca_bundle or None)
    sender = WebhookSender(settings, vault, transport)
    check = BudgetCheck(database)

    outages = OutageLog(logger, "Budgets cannot be checked", "Budgets are checked again")

    async def keep_checking() -> None:
        while True:
            try:
                await check.check()
                outages.note_success()
            except DB_UNAVAILABLE_ERRORS as error:
                outages.note_failure(error)
            await asyncio.sleep(settings.budget_check_s)

    tasks = (BackgroundTask("budget check", keep_checking), BackgroundTask("webhooks", lambda: keep_delivering(database, sender)))
    for task in tasks:
        task.start()
    try:
        yield
    finally:
        for task in tasks:
            await task.stop()
        await sender.aclose()
        await database.dispose()
