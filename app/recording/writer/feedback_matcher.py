"""The matcher: finds the inferences and episodes that feedback is about, in each writer's process. Several writers share the work.

Nobody waits for it: feedback is accepted by the id of its target alone, and may be stored long before that, or be about nothing at all.
"""

import asyncio
import datetime
import logging
import time

from app.recording.writer.feedback_matching import match_due
from app.recording.writes.feedback_pending import count_unmatched, give_up_excess
from app.settings import Settings
from app.store.postgres.bounded_transactions import bounded_transaction
from app.store.postgres.database import connect
from app.store.postgres.db_errors import BUSY_ERRORS, DB_UNAVAILABLE_ERRORS
from app.store.postgres.outage_log import OutageLog
from app.store.postgres.partitions import Connection

logger = logging.getLogger(__name__)

POLL_S = 0.5
RECONNECT_S = 2.0
UNMATCHED_AFTER = datetime.timedelta(minutes=5)
_BATCH = 500
_TEAMS_AT_MOST = 10  # as much as they may have waiting is what all teams may have together
_COUNT_EVERY_S = 15.0


class FeedbackMatcher:
    """run() never returns.

    `matched` and `given_up` count since the start; `unmatched` is how many waited for more than
    UNMATCHED_AFTER when they were last counted.
    """

    def __init__(self, settings: Settings) -> None:
        self.matched = 0
        self.unmatched = 0
        self.given_up = 0
        self._settings = settings
        self._count_due = 0.0
        self._outages = OutageLog(logger, "Feedback cannot be matched", "Feedback is matched again")

    async def run(self) -> None:
        while True:
            try:
                connection = await connect(self._settings.database_url)
                try:
                    await self._keep_matching(connection)
                finally:
                    await connection.close()
            except DB_UNAVAILABLE_ERRORS as error:
                self._outages.note_failure(error)
            await asyncio.sleep(RECONNECT_S)

    async def _keep_matching(self, connection: Connection) -> None:
        while True:
            has_more = await self._match(connection)
            self._outages.note_success()
            await asyncio.sleep(0 if has_more else POLL_S)

    async def _match(self, connection: Connection) -> bool:
        """Returns whether there may be more to do now."""
        try:
            done = await match_due(connection, _BATCH)
            self.matched += done.found
            if time.monotonic() >= self._count_due:
                await self._count(connection)
        except BUSY_ERRORS:
            return False
        return done.checked > 0

    async def _count(self, connection: Connection) -> None:
        async with bounded_transaction(connection):
            per_team = self._settings.feedback_waiting_per_team
            given_up = await give_up_excess(connection, per_team, _TEAMS_AT_MOST * per_team) if per_team else 0
        self.given_up += given_up
        if given_up:
            logger.warning("%d feedback is no longer looked for: a team has too much that is about nothing recorded", given_up)
        async with bounded_transaction(connection):
            self.unmatched = await count_unmatched(connection, UNMATCHED_AFTER)
        self._count_due = time.monotonic() + _COUNT_EVERY_S
