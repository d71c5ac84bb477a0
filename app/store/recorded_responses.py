"""What the records know of an answer that a caller wants to see again, or to go on from, or to have deleted."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct
from sqlalchemy import Row, case, delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from app import uuid7
from app.store.content_packing import UNCOMPRESSED_PREFIX
from app.store.db_errors import DB_UNAVAILABLE_ERRORS
from app.store.recorded_outcomes import RecordsUnavailable, unpack_within
from app.store.tables import deleted_responses, inference_content, inferences

_QUERY_TIMEOUT_S = 5.0
_DAY_MS = 86_400_000
_LATE_DROP_DAYS = 7  # an expired partition that was in use is dropped later


class RecordedResponse(Struct, frozen=True):
    """`is_answer`: of that team, on that route, and answered in full. `policy` None: nothing of its content is kept any more.

    `asked` and `reply` as they passed; None: see `policy`, or they are longer than was wanted.
    """

    is_visible: bool
    is_deleted: bool = False
    policy: str | None = None
    request: bytes | None = None
    response: bytes | None = None


async def find_recorded_response(database: AsyncEngine, id: str, team_id: str, route: str, max_bytes: int) -> RecordedResponse | None:
    """None: no record of it is there. Raises RecordsAway. `most_bytes`: of the ask, and of the reply."""
    inference, content, deleted = inferences.c, inference_content.c, deleted_responses.c
    is_visible = (inference.team_id == team_id) & (inference.route == route) & (inference.outcome == "answered")
    max_packed_bytes = max_bytes + len(UNCOMPRESSED_PREFIX)
    fits = (func.length(content.ask) <= max_packed_bytes) & (func.length(content.reply) <= max_packed_bytes)
    is_readable = is_visible & deleted.id.is_(None) & (content.policy == "full") & fits
    columns = (
        is_visible.label("is_answer"),
        deleted.id.isnot(None).label("is_deleted"),
        content.policy,
        case((is_readable, content.ask)).label("ask"),  # what is not wanted is not even loaded
        case((is_readable, content.reply)).label("reply"),
    )
    joined = inferences.outerjoin(inference_content, content.id == inference.id).outerjoin(deleted_responses, deleted.id == inference.id)
    async with _timed_connection(database) as connection:
        row = (await connection.execute(select(*columns).select_from(joined).where(inference.id == id))).first()
    return None if row is None else await asyncio.to_thread(_to_recorded_response, row, max_bytes)


async def delete_response(database: AsyncEngine, id: str, team_id: str, keep_content_days: int) -> None:
    """From now on it is deleted, for every reader. Raises RecordsAway."""
    statement = insert(deleted_responses).values(id=id, team_id=team_id).on_conflict_do_nothing()
    async with _timed_connection(database) as connection:
        await connection.execute(statement)
        if keep_content_days:  # what was deleted so long ago is not there any more anyway
            oldest_ms = uuid7.created_ms(uuid7.mint()) - (keep_content_days + _LATE_DROP_DAYS) * _DAY_MS
            await connection.execute(delete(deleted_responses).where(deleted_responses.c.id < uuid7.lowest_at(oldest_ms)))
        await connection.commit()


@asynccontextmanager
async def _timed_connection(database: AsyncEngine) -> AsyncGenerator[AsyncConnection]:
    try:
        async with asyncio.timeout(_QUERY_TIMEOUT_S), database.connect() as connection:
            yield connection
    except DB_UNAVAILABLE_ERRORS as fault:
        raise RecordsUnavailable(repr(fault)) from fault


def _to_recorded_response(row: Row[*tuple[Any, ...]], max_bytes: int) -> RecordedResponse:
    request = None if row.ask is None else unpack_within(row.ask, max_bytes)
    response = None if row.reply is None else unpack_within(row.reply, max_bytes)
    return RecordedResponse(bool(row.is_answer), row.is_deleted, row.policy, request, response)
