"""Queries for recorded inferences: lists, one with its content, and episodes."""

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import Row, Select, Text, cast, func, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from app import uuid7
from app.store import matching_hours, tables
from app.store.audit_queries import OpenTransaction
from app.store.content_packing import unpack_beside_loop
from app.store.inference_filter import InferenceFilter, conditions, earliest_id, of_teams

_EXPORT_PAGE_ROWS = 500
_END_MS = 2**47  # later than any time that is recorded
_QUERY_TIMEOUT_S = 30.0  # enough for a query without filters

_team_name = select(tables.teams.c.name).where(tables.teams.c.id == tables.inferences.c.team_id).scalar_subquery().label("team")


@asynccontextmanager
async def timed_connection(database: AsyncEngine) -> AsyncGenerator[AsyncConnection, None]:
    """A connection for at most _QUERY_TIMEOUT_S; then it raises TimeoutError: such a Postgres counts as unavailable."""
    async with asyncio.timeout(_QUERY_TIMEOUT_S), database.connect() as connection:
        yield connection


async def list_inferences(
    connection: AsyncConnection, filters: InferenceFilter, *, keep_hours_days: int, before: str | None, limit: int
) -> list[dict[str, Any]]:
    """A page of inferences, newest first, within a transaction. `before`: the last id of the previous page.

    Where rollups can tell, only hours that hold a match are read: a filter that matches little, or nothing, is answered as soon.
    `keep_hours_days`: for how long they are kept; 0: for ever.
    """
    columns = tables.inferences.c
    query = select(tables.inferences, _team_name).where(*conditions(filters)).order_by(columns.id.desc())
    if before is not None:
        query = query.where(columns.id < before)
    if filters.since_ms is not None:
        query = query.where(columns.id >= uuid7.lowest_at(filters.since_ms))
    if filters.until_ms is not None:
        query = query.where(columns.id < uuid7.lowest_at(filters.until_ms))
    if filters.trace_id is not None or filters.request_id is not None:
        # Their index serves random values, but Postgres believes that it serves only those that lie together: it would rather read every
        # row, or every row in the order of ids. As text, ids sort alike, and by no index.
        await connection.execute(select(func.set_config("enable_seqscan", "off", True)))
        by_index = query.order_by(None).order_by(cast(columns.id, Text).desc())
        return [_row_to_dict(row) for row in await connection.execute(by_index.limit(limit))]
    if filters.episode_id is not None or not matching_hours.can_narrow(filters):
        return [_row_to_dict(row) for row in await connection.execute(query.limit(limit))]
    before_ms = _END_MS if before is None else uuid7.created_ms(before) + 1
    newest_ms = before_ms if filters.until_ms is None else min(before_ms, filters.until_ms)
    found: list[dict[str, Any]] = []
    async for begin_ms, end_ms in matching_hours.ranges(connection, filters, newest_ms, keep_hours_days):
        within = query.where(columns.id >= uuid7.lowest_at(begin_ms), columns.id < uuid7.lowest_at(end_ms))
        found += [_row_to_dict(row) for row in await connection.execute(within.limit(limit - len(found)))]
        if len(found) >= limit:
            break
    return found


async def walk_inferences(
    open_transaction: OpenTransaction, filters: InferenceFilter, keep_hours_days: int
) -> AsyncGenerator[list[dict[str, Any]]]:
    """All that match, newest first, in pages, each read in a transaction of its own: nothing is held while a caller reads slowly."""
    before: str | None = None
    while True:
        async with open_transaction() as connection:
            page = await list_inferences(connection, filters, keep_hours_days=keep_hours_days, before=before, limit=_EXPORT_PAGE_ROWS)
        yield page
        if len(page) < _EXPORT_PAGE_ROWS:
            return
        before = page[-1]["id"]


async def find_inference(connection: AsyncConnection, id: str) -> dict[str, Any] | None:
    """One inference; None if there is none (a new one is stored within moments)."""
    row = (await connection.execute(select(tables.inferences, _team_name).where(tables.inferences.c.id == id))).first()
    return None if row is None else _row_to_dict(row)


async def read_content(connection: AsyncConnection, id: str) -> dict[str, Any] | None:
    """Request and response of an inference as text, and the policy that they were kept by; None: they are not kept, or no longer."""
    content = tables.inference_content
    row = (await connection.execute(select(content).where(content.c.id == id))).first()
    if row is None:
        return None
    return {"policy": row.policy, "request": await _unpack_text(row.request), "response": await _unpack_text(row.response)}


async def list_episode_teams(connection: AsyncConnection, episode_id: str, *, only_teams: Collection[str] | None = None) -> list[str]:
    """The teams (their ids) that have an episode with this id: each its own. At most a hundred. `only_teams`: names; None: all."""
    columns = tables.inferences.c
    query = select(columns.team_id).where(columns.episode_id == episode_id, columns.id >= earliest_id(episode_id))
    if only_teams is not None:
        query = query.where(of_teams(only_teams))
    return list((await connection.execute(query.distinct().order_by(columns.team_id).limit(100))).scalars())


async def find_team_name(connection: AsyncConnection, team_id: str) -> str | None:
    """None: the team was removed."""
    return (await connection.execute(select(tables.teams.c.name).where(tables.teams.c.id == team_id))).scalar()


async def list_episode(
    connection: AsyncConnection, team_id: str, episode_id: str, *, after: str | None, limit: int
) -> list[dict[str, Any]]:
    """A page of an episode's inferences, oldest first. `after`: the last id of the previous page."""
    columns = tables.inferences.c
    query: Select[Any] = (
        select(tables.inferences, _team_name)
        .where(columns.episode_id == episode_id, columns.team_id == team_id, columns.id >= earliest_id(episode_id))
        .order_by(columns.id)
        .limit(limit)
    )
    if after is not None:
        query = query.where(columns.id > after)
    return [_row_to_dict(row) for row in await connection.execute(query)]


def _row_to_dict(row: Row[Any]) -> dict[str, Any]:
    return {**row._mapping, "received_at": row.received_at.isoformat()}  # pyright: ignore[reportPrivateUsage]


async def _unpack_text(packed: bytes | None) -> str | None:
    return None if packed is None else (await unpack_beside_loop(packed)).decode("utf-8", "replace")
