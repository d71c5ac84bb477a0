"""Delivery: sends what is due, and tries again for a day what is not taken."""

import asyncio
import logging
import random

from sqlalchemy.ext.asyncio import AsyncEngine

from app.store.postgres.db_errors import DB_UNAVAILABLE_ERRORS
from app.store.postgres.outage_log import OutageLog
from app.store.webhooks.webhook_events import CLAIM_S, DueDelivery, claim_due, note_attempt
from app.webhooks.sender import WebhookSender

log = logging.getLogger(__name__)

# How long after each attempt the next one follows; after the last one it has failed. About 28 hours, as Standard Webhooks suggests.
RETRIES_S = (5.0, 60.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 36_000.0)
_POLL_S = 1.0
_ROUND_TIMEOUT_S = CLAIM_S * 0.9  # before another writer may claim the same


async def keep_delivering(database: AsyncEngine, sender: WebhookSender) -> None:
    outages = OutageLog(log, "Webhooks cannot be delivered", "Webhooks are delivered again")
    while True:
        sent = 0
        try:
            sent = await deliver_due(database, sender)
            outages.note_success()
        except DB_UNAVAILABLE_ERRORS as error:
            outages.note_failure(error)
        if not sent:
            await asyncio.sleep(_POLL_S)


async def deliver_due(database: AsyncEngine, sender: WebhookSender) -> int:
    """Tries once what is due; returns how much that was."""
    async with database.begin() as connection:
        due = await claim_due(connection)
    if due:
        async with asyncio.timeout(_ROUND_TIMEOUT_S):
            await asyncio.gather(*(_deliver(database, sender, each) for each in due))
    return len(due)


def retry_after_s(attempts: int) -> float | None:
    """Returns the wait after so many failed attempts, or None if there is no further attempt.

    Waits are drawn a little apart, so that receivers that were away are not flooded.
    """
    return None if attempts > len(RETRIES_S) else RETRIES_S[attempts - 1] * random.uniform(1.0, 1.1)


async def _deliver(database: AsyncEngine, sender: WebhookSender, due: DueDelivery) -> None:
    sent = await sender.send(due)
    retry_in_s = None if sent.error is None else retry_after_s(due.attempts)
    if sent.error is not None:
        level = logging.WARNING if retry_in_s is None else logging.INFO
        extra = {"delivery": due.id, "event": due.event_id, "attempts": due.attempts, "error": sent.error}
        log.log(level, "a webhook was not delivered", extra=extra)
    async with database.begin() as connection:
        await note_attempt(connection, due, response_status=sent.status, error=sent.error, retry_in_s=retry_in_s)
