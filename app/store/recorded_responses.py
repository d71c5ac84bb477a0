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
from app.record.content import PLAIN
from app.store.away import AWAY
from app.store.recorded_answers import RecordsAway, unpacked_within
from app.store.tables import deleted_responses, inference_content, inferences

_PATIENCE_S = 5.0
_DAY_MS = 86_400_000
_LATE_DAYS = 7  # an expired partition that was in use is dropped later


class RecordedResponse(Struct, frozen=True):
    """`is_answer`: of that team, on that route, and answered in full. `policy` None: nothing of its content is kept any more.

    `asked` and `reply` as they passed; None: see `policy`, or they are longer than was wanted.
    """

    is_answer: bool
    is_deleted: bool = False
    policy: str | None = None
    asked: bytes | None = None
    reply: bytes | None = None


async def recorded_response(database: AsyncEngine, id: str, team_id: str, route: str, most_bytes: int) -> RecordedResponse | None:
    """None: no record of it is there. Raises RecordsAway. `most_bytes`: of the ask, and of the reply."""
    of, content, deleted = inferences.c, inference_content.c, deleted_responses.c
    is_answer = (of.team_id == team_id) & (of.route == route) & (of.outcome == "answered")
    most = most_bytes + len(PLAIN)
    fits = (func.length(content.ask) <= most) & (func.length(content.reply) <= most)
    wanted = is_answer & deleted.id.is_(None) & (content.policy == "full") & fits
    columns = (
        is_answer.label("is_answer"),
        deleted.id.isnot(None).label("is_deleted"),
        content.policy,
        case((wanted, content.ask)).label("ask"),  # what is not wanted is not even loaded
        case((wanted, content.reply)).label("reply"),
    )
    kept = inferences.outerjoin(inference_content, content.id == of.id).outerjoin(deleted_responses, deleted.id == of.id)
    async with _asking(database) as connection:
        row = (await connection.execute(select(*columns).select_from(kept).where(of.id == id))).first()
    return None if row is None else await asyncio.to_thread(_read, row, most_bytes)


async def delete_response(database: AsyncEngine, id: str, team_id: str, keep_content_days: int) -> None:
    """From now on it is deleted, for every reader. Raises RecordsAway."""
    noted = insert(deleted_responses).values(id=id, team_id=team_id).on_conflict_do_nothing()
    async with _asking(database) as connection:
        await connection.execute(noted)
        if keep_content_days:  # what was deleted so long ago is not there any more anyway
            oldest_ms = uuid7.born_ms(uuid7.mint()) - (keep_content_days + _LATE_DAYS) * _DAY_MS
            await connection.execute(delete(deleted_responses).where(deleted_responses.c.id < uuid7.first_at(oldest_ms)))
        await connection.commit()


@asynccontextmanager
async def _asking(database: AsyncEngine) -> AsyncGenerator[AsyncConnection]:
    try:
        async with asyncio.timeout(_PATIENCE_S), database.connect() as connection:
            yield connection
    except AWAY as fault:
        raise RecordsAway(repr(fault)) from fault


def _read(row: Row[*tuple[Any, ...]], most_bytes: int) -> RecordedResponse:
    asked = None if row.ask is None else unpacked_within(row.ask, most_bytes)
    reply = None if row.reply is None else unpacked_within(row.reply, most_bytes)
    return RecordedResponse(bool(row.is_answer), row.is_deleted, row.policy, asked, reply)
