"""The runner: carries out erasures, piece by piece, in each writer's process. Several writers share the work."""

import asyncio
import logging
import traceback
from collections import Counter

from app.recording.erasure.copies import CopiesUnavailable, CopyStore
from app.recording.erasure.orders import Order, complete_order, lock_due_order, move_order, note_failure
from app.recording.erasure.steps import LAST_STEP, Context, find_step, settle_s_of, step_after
from app.settings import Settings
from app.store.postgres.bounded_transactions import bounded_transaction
from app.store.postgres.database import connect
from app.store.postgres.db_errors import BUSY_ERRORS, DB_UNAVAILABLE_ERRORS, describe_without_values, is_outage
from app.store.postgres.outage_log import OutageLog
from app.store.postgres.partitions import Connection

logger = logging.getLogger(__name__)

POLL_S = 1.0
RECONNECT_S = 2.0
_FIRST_RETRY_S = 1.0
_MAX_RETRY_S = 300.0
_STATEMENT_TIMEOUT_S = 120.0
_BUSY_RETRY_S = 0.5


class ErasureRunner:
    """run() never returns. An order that fails is tried again later, and holds up no other."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._current: Order | None = None
        self._failed: tuple[Order, str] | None = None  # not noted yet, as the connection was lost
        self._outages = OutageLog(logger, "Erasures cannot be carried out", "Erasures are carried out again")

    async def run(self) -> None:
        while True:
            try:
                await self._run_connected()
            except DB_UNAVAILABLE_ERRORS as error:
                self._outages.note_failure(error)
            await asyncio.sleep(RECONNECT_S)

    async def _run_connected(self) -> None:
        connection = await connect(self._settings.database_url)
        try:
            async with CopyStore(self._settings.redis_url) as copies:
                context = Context(self._settings, copies, settle_s_of(self._settings))
                while True:
                    if self._failed is not None:
                        await _note_failure(connection, *self._failed)
                        self._failed = None
                    has_more = await self._advance(connection, context)
                    self._outages.note_success()
                    await asyncio.sleep(0 if has_more else POLL_S)
        finally:
            await connection.close()

    async def _advance(self, connection: Connection, context: Context) -> bool:
        """Do one piece of the order that is due; False: none is."""
        self._current = None
        try:
            async with bounded_transaction(connection, statement_timeout_s=_STATEMENT_TIMEOUT_S):
                order = self._current = await lock_due_order(connection, context.settle_s)
                if order is None:
                    return False
                await _do_piece(connection, context, order)
        except BUSY_ERRORS as error:
            assert self._current is not None
            if self._current.failures:  # a second time in a row
                await _note_failure(connection, self._current, describe_without_values(error))
            else:
                await note_failure(connection, self._current.id, describe_without_values(error), _BUSY_RETRY_S)
        except Exception as error:
            if self._current is None:
                raise
            self._failed = self._current, describe_without_values(error)
            if is_outage(error):
                raise
            if not isinstance(error, CopiesUnavailable):
                frames = "".join(traceback.format_tb(error.__traceback__))
                logger.error("the erasure %s failed: %s", self._current.id, describe_without_values(error), extra={"traceback": frames})
        return True


async def _do_piece(connection: Connection, context: Context, order: Order) -> None:
    # A complete order is due again for late records, which were erased as they were stored: only copies of them may be left.
    step = find_step(LAST_STEP if order.completed_at is not None else order.step)
    piece = await step.work(connection, context, order)
    counts: Counter[str] = Counter(order.counts)
    counts.update({name: count for name, count in piece.counts.items() if count})
    following = step.name if piece.position is not None else step_after(step.name)
    await move_order(connection, order, following or step.name, piece.position, counts, piece.continues_at)
    if following is None:
        await complete_order(connection, order)
        if order.completed_at is None:
            logger.info("the erasure %s is complete: %s", order.id, dict(counts))


async def _note_failure(connection: Connection, order: Order, error: str) -> None:
    await note_failure(connection, order.id, error, min(_MAX_RETRY_S, _FIRST_RETRY_S * 2 ** min(order.failures, 10)))
