"""Recorded responses of /v1/responses, which callers read again, continue or delete."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct
from sqlalchemy import Integer, Row, Select, bindparam, case, delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from app.domain import uuid7
from app.domain.episode_names import RecordedEpisode
from app.store.formats.content_packing import UNCOMPRESSED_PREFIX, unpack_within
from app.store.postgres.db_errors import RecordsUnavailable
from app.store.postgres.partitions import DAY_MS
from app.store.postgres.tables import deleted_responses, inference_content, inferences

_QUERY_TIMEOUT_S = 5.0
_LATE_DROP_DAYS = 7  # an expired partition that was in use is dropped later


class RecordedResponse(Struct, frozen=True):
    """A recorded inference to whose response a caller refers."""

    is_visible: bool  # whether it is the team's, of the route, and complete
    episode: RecordedEpisode  # of the inference
    is_deleted: bool = False
    policy: str | None = None  # None: its content is not kept any more
    request: bytes | None = None  # as it was sent; None: see `policy`, or it is longer than was wanted
    response: bytes | None = None  # as it was sent; None: see `policy`, or it is longer than was wanted


async def find_recorded_response(database: AsyncEngine, id: str, team_id: str, route: str, max_bytes: int) -> RecordedResponse | None:
    """A response, if it is at most `max_bytes`, as its request. None: it is not recorded. Raises RecordsUnavailable."""
    values = {"id": id, "team_id": team_id, "route": route, "max_packed_bytes": max_bytes + len(UNCOMPRESSED_PREFIX)}
    async with _timed_connection(database) as connection:
        row = (await connection.execute(_FIND_RESPONSE, values)).first()
    return None if row is None else await asyncio.to_thread(_to_recorded_response, row, max_bytes)


def _find_response() -> Select[*tuple[Any, ...]]:
    inference, content, deleted = inferences.c, inference_content.c, deleted_responses.c
    is_answer = (inference.outcome == "answered") & inference.origin.is_(None)
    is_visible = (inference.team_id == bindparam("team_id")) & (inference.route == bindparam("route")) & is_answer
    max_packed_bytes = bindparam("max_packed_bytes", type_=Integer)
    fits = (func.length(content.request) <= max_packed_bytes) & (func.length(content.response) <= max_packed_bytes)
    is_readable = is_visible & deleted.id.is_(None) & (content.policy == "full") & fits
    columns = (
        is_visible.label("is_visible"),
        inference.episode_id,
        inference.episode_name,
        deleted.id.isnot(None).label("is_deleted"),
        content.policy,
        case((is_readable, content.request)).label("request"),  # unwanted content is not even loaded
        case((is_readable, content.response)).label("response"),
    )
    joined = inferences.outerjoin(inference_content, content.id == inference.id).outerjoin(deleted_responses, deleted.id == inference.id)
    return select(*columns).select_from(joined).where(inference.id == bindparam("id"))


# Building it takes longer than sending it, and whoever asks for responses that do not exist would have it built each time.
_FIND_RESPONSE = _find_response()


async def delete_response(database: AsyncEngine, id: str, team_id: str, keep_content_days: int) -> None:
    """Mark a response as deleted for every reader, from now on. Raises RecordsUnavailable."""
    statement = insert(deleted_responses).values(id=id, team_id=team_id).on_conflict_do_nothing()
    async with _timed_connection(database) as connection:
        await connection.execute(statement)
        if keep_content_days:  # the content of older ones has expired
            oldest_ms = uuid7.created_ms(uuid7.mint()) - (keep_content_days + _LATE_DROP_DAYS) * DAY_MS
            await connection.execute(delete(deleted_responses).where(deleted_responses.c.id < uuid7.lowest_at(oldest_ms)))
        await connection.commit()


@asynccontextmanager
async def _timed_connection(database: AsyncEngine) -> AsyncGenerator[AsyncConnection]:
    try:
        async with asyncio.timeout(_QUERY_TIMEOUT_S), database.connect() as connection:
            yield connection
    except Exception as fault:
        raise RecordsUnavailable(repr(fault)) from fault


def _to_recorded_response(row: Row[*tuple[Any, ...]], max_bytes: int) -> RecordedResponse:
    request = None if row.request is None else unpack_within(row.request, max_bytes)
    response = None if row.response is None else unpack_within(row.response, max_bytes)
    episode = RecordedEpisode(row.episode_id, row.episode_name)
    return RecordedResponse(bool(row.is_visible), episode, row.is_deleted, row.policy, request, response)
