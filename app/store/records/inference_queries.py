"""Queries for recorded inferences: lists, one with its content, and episodes."""

import asyncio
import datetime
import time
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct, structs
from sqlalchemy import ColumnElement, Label, Row, Select, Text, cast, func, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from app.domain import uuid7
from app.store.formats.content_packing import unpack_beside_loop
from app.store.postgres import tables
from app.store.postgres.conditions import OpenTransaction
from app.store.records import matching_hours, text_search
from app.store.records.episode_lookup import find_episode_ids
from app.store.records.inference_filter import (
    InferenceFilter,
    attempts_of,
    check_names,
    conditions,
    earliest_id,
    has_index,
    id_conditions,
    index_conditions,
    of_teams,
    own_conditions,
)

SEARCHED_ROWS = 5_000
_EXPORT_PAGE_ROWS = 500
_TEXT_TIMEOUT_S = 5.0  # then a page of a full-text search ends where it is
_END_MS = 2**47  # later than any time that is recorded
_QUERY_TIMEOUT_S = 30.0  # enough for a query without filters


def _name_of(team_id: ColumnElement[str], label: str) -> Label[str]:
    return select(tables.teams.c.name).where(tables.teams.c.id == team_id).scalar_subquery().label(label)


team_name = _name_of(tables.inferences.c.team_id, "team")
content_team_name = _name_of(tables.inferences.c.content_team_id, "content_team")
key_prefix = select(tables.keys.c.prefix).where(tables.keys.c.id == tables.inferences.c.key_id).scalar_subquery().label("key")
# What row_to_dict() makes a row of.
shown_columns = (*tables.record_columns, team_name, content_team_name, key_prefix)


@asynccontextmanager
async def timed_connection(database: AsyncEngine) -> AsyncGenerator[AsyncConnection, None]:
    """A connection for at most _QUERY_TIMEOUT_S; then it raises TimeoutError: such a Postgres counts as unavailable."""
    async with asyncio.timeout(_QUERY_TIMEOUT_S), database.connect() as connection:
        yield connection


class InferencePage(Struct, frozen=True):
    """A page of a list of inferences."""

    rows: list[dict[str, Any]]
    next: str | None  # as `before`, it continues the list; None: this is its end
    # The time from which on a text was searched for, as the page took too long to be filled; None: it has as many rows as it may have, or
    # everything was searched.
    searched_to: datetime.datetime | None = None


async def page_inferences(
    connection: AsyncConnection, filters: InferenceFilter, *, keep_hours_days: int, before: str | None, limit: int
) -> InferencePage:
    """Returns a page of inferences as list_inferences() does, also for filters with `text`.

    Raises InvalidKeyField as list_inferences() does, and if no team that may be searched has full-text
    search, and for a filter by the name of something that never existed.
    """
    page = await _page(connection, filters, keep_hours_days=keep_hours_days, before=before, limit=limit)
    if before is None:
        await check_names(connection, filters, is_empty=not page.rows)
    return page


async def _page(
    connection: AsyncConnection, filters: InferenceFilter, *, keep_hours_days: int, before: str | None, limit: int
) -> InferencePage:
    search = filters.text
    if search is None:
        found = await list_inferences(connection, filters, keep_hours_days=keep_hours_days, before=before, limit=limit + 1)
        return InferencePage(found[:limit], found[limit - 1]["id"] if len(found) > limit else None)
    filters = await with_episode_ids(connection, filters)
    teams = await text_search.find_searched_teams(connection, team=filters.team, team_id=filters.team_id, only_teams=filters.only_teams)
    oldest_ms = await text_search.oldest_text_ms(connection)
    if oldest_ms is None:
        return InferencePage([], None)
    since_ms = max(oldest_ms, filters.since_ms or 0)
    within = structs.replace(filters, since_ms=since_ms)
    matches = await text_search.find_matches(
        connection,
        select_inferences(filters),
        search,
        teams,
        _ranges(connection, within, keep_hours_days, before),
        before=before,
        limit=limit + 1,
        timeout_s=_TEXT_TIMEOUT_S,
    )
    rows = [row_to_dict(row) for row in matches.rows[:limit]]
    if len(matches.rows) > limit:
        return InferencePage(rows, rows[-1]["id"])
    at = (
        None if matches.searched_to is None else datetime.datetime.fromtimestamp(uuid7.created_ms(matches.searched_to) / 1000, datetime.UTC)
    )
    return InferencePage(rows, matches.searched_to, at)


async def list_inferences(
    connection: AsyncConnection, filters: InferenceFilter, *, keep_hours_days: int, before: str | None, limit: int
) -> list[dict[str, Any]]:
    """A page of inferences, newest first, within a transaction, without `text`. `before` is the last id of the previous page.

    Where rollups can tell, only hours that hold a match are read: a filter that matches little, or nothing, is answered as soon. They are
    kept for `keep_hours_days`; 0 means for ever. Raises InvalidKeyField for an episode that may be of too many teams.
    """
    columns, filters = tables.inferences.c, await with_episode_ids(connection, filters)
    query = select_inferences(filters).order_by(columns.id.desc())
    if before is not None:
        query = query.where(columns.id < before)
    if filters.trace_id is not None or filters.request_id is not None:
        # Their index serves random values, but Postgres believes that it serves only those that lie together: it would rather read every
        # row, or every row in the order of ids. As text, ids sort alike, and by no index.
        await connection.execute(select(func.set_config("enable_seqscan", "off", True)))
        by_index = query.order_by(None).order_by(cast(columns.id, Text).desc())
        return [row_to_dict(row) for row in await connection.execute(by_index.limit(limit))]
    if filters.episode is not None or has_index(filters) or not matching_hours.can_narrow(filters):
        return [row_to_dict(row) for row in await connection.execute(query.limit(limit))]
    found: list[dict[str, Any]] = []
    async for begin_ms, end_ms in _ranges(connection, filters, keep_hours_days, before):
        within = query.where(columns.id >= uuid7.lowest_at(begin_ms), columns.id < uuid7.lowest_at(end_ms))
        found += [row_to_dict(row) for row in await connection.execute(within.limit(limit - len(found)))]
        if len(found) >= limit:
            break
    return found


async def search_inferences(
    connection: AsyncConnection, filters: InferenceFilter, *, keep_hours_days: int, before: str | None, limit: int, search_s: float
) -> InferencePage:
    """Returns a page of inferences as list_inferences() does, in steps.

    After about `search_s` seconds it ends with what there is, and `next` goes on from there. No query
    examines more than SEARCHED_ROWS rows, so that it ends however little matches. Filters must be without
    `text`, `episode`, and ids of requests.
    """
    deadline = time.monotonic() + search_s
    columns, query = tables.inferences.c, select_inferences(filters).order_by(tables.inferences.c.id.desc())
    found: list[dict[str, Any]] = []
    async for begin_ms, end_ms in searched_ranges(connection, filters, keep_hours_days, before):
        begin, end = uuid7.lowest_at(begin_ms), uuid7.lowest_at(end_ms)
        end = end if before is None else min(end, before)
        while begin < end:
            first = await step_begin(connection, filters, begin, end, SEARCHED_ROWS)
            within = query.where(columns.id >= first, columns.id < end)
            found += [row_to_dict(row) for row in await connection.execute(within.limit(limit - len(found)))]
            if len(found) >= limit:
                return InferencePage(found, found[-1]["id"])
            if time.monotonic() >= deadline:
                return InferencePage(found, first)
            end = first
    return InferencePage(found, None)


async def step_begin(connection: AsyncConnection, filters: InferenceFilter, begin: str, end: str, rows: int) -> str:
    """Returns the lowest id of so many rows before `end`, of those that an index finds for the filters; `begin` if there are fewer."""
    ids = tables.inferences.c.id
    within = select(ids).where(ids >= begin, ids < end, *index_conditions(filters)).order_by(ids.desc())
    return await connection.scalar(within.offset(rows - 1).limit(1)) or begin


async def searched_ranges(
    connection: AsyncConnection, filters: InferenceFilter, keep_hours_days: int, before: str | None
) -> AsyncIterator[tuple[int, int]]:
    """Yields ranges of Unix time in ms, the newest first, outside which nothing matches; step_begin() cuts them into steps."""
    if matching_hours.can_narrow(filters) and not has_index(filters):
        async for each in _ranges(connection, filters, keep_hours_days, before):
            yield each
    else:
        yield filters.since_ms or 0, _END_MS if filters.until_ms is None else filters.until_ms


async def with_episode_ids(connection: AsyncConnection, filters: InferenceFilter) -> InferenceFilter:
    if filters.episode is None:
        return filters
    found = await find_episode_ids(connection, filters.episode, team=filters.team, team_id=filters.team_id, only_teams=filters.only_teams)
    return structs.replace(filters, episode_ids=found)


def select_inferences(filters: InferenceFilter) -> Select[Any]:
    return select(*shown_columns).where(*conditions(filters), *id_conditions(filters))


def _ranges(
    connection: AsyncConnection, filters: InferenceFilter, keep_hours_days: int, before: str | None
) -> AsyncIterator[tuple[int, int]]:
    before_ms = _END_MS if before is None else uuid7.created_ms(before) + 1
    newest_ms = before_ms if filters.until_ms is None else min(before_ms, filters.until_ms)
    return matching_hours.ranges(connection, filters, newest_ms, keep_hours_days)


async def walk_inferences(
    open_transaction: OpenTransaction, filters: InferenceFilter, keep_hours_days: int
) -> AsyncGenerator[list[dict[str, Any]]]:
    """All that match, newest first, in pages, each read in a transaction of its own: nothing is held while a caller reads slowly."""
    before: str | None = None
    while True:
        async with open_transaction() as connection:
            page = await page_inferences(connection, filters, keep_hours_days=keep_hours_days, before=before, limit=_EXPORT_PAGE_ROWS)
        yield page.rows
        if page.next is None:
            return
        before = page.next


async def find_inference(connection: AsyncConnection, id: str) -> dict[str, Any] | None:
    """One inference; None if there is none (a new one is stored within moments)."""
    query = select(*shown_columns).where(tables.inferences.c.id == id)
    row = (await connection.execute(query)).first()
    return None if row is None else row_to_dict(row)


class PackedContent(Struct, frozen=True):
    """The request and response of an inference, packed, and the policy that they were kept by."""

    policy: str
    request: bytes | None
    response: bytes | None


async def read_packed_content(connection: AsyncConnection, id: str) -> PackedContent | None:
    """Reads what was written; None: it is not kept, no longer, or was deleted by its caller."""
    content, deleted = tables.inference_content, tables.deleted_responses.c
    kept = select(content).outerjoin(tables.deleted_responses, deleted.id == content.c.id).where(content.c.id == id, deleted.id.is_(None))
    row = (await connection.execute(kept)).first()
    return None if row is None else PackedContent(row.policy, row.request, row.response)


async def find_episodes(
    connection: AsyncConnection, named: str, *, team_id: str | None = None, only_teams: Collection[str] | None = None
) -> dict[str, str]:
    """The id of the episode that is so named, by UUID or text, in each team that has one (by the team's id). At most a hundred.

    `only_teams` are names; None means all. Raises InvalidKeyField as find_episode_ids() does.
    """
    columns = tables.inferences.c
    ids = await find_episode_ids(connection, named, team_id=team_id, only_teams=only_teams)
    query = select(columns.team_id, columns.episode_id).where(columns.episode_id.in_(ids), *own_conditions())
    query = query.where(columns.id >= min(map(earliest_id, ids), default=uuid7.lowest_at(0)))
    if team_id is not None:
        query = query.where(columns.team_id == team_id)
    if only_teams is not None:
        query = query.where(of_teams(only_teams))
    rows = await connection.execute(query.distinct().order_by(columns.team_id).limit(100))
    return {row.team_id: row.episode_id for row in rows}


async def find_team_name(connection: AsyncConnection, team_id: str) -> str | None:
    """Returns the name of a team, or None if the team was removed."""
    return (await connection.execute(select(tables.teams.c.name).where(tables.teams.c.id == team_id))).scalar()


async def list_episode(
    connection: AsyncConnection, team_id: str, episode_id: str, *, after: str | None, limit: int
) -> list[dict[str, Any]]:
    """A page of an episode's inferences, oldest first. `after` is the last id of the previous page."""
    columns = tables.inferences.c
    query: Select[Any] = select(*shown_columns).where(*episode_conditions(team_id, episode_id)).order_by(columns.id).limit(limit)
    if after is not None:
        query = query.where(columns.id > after)
    return [row_to_dict(row) for row in await connection.execute(query)]


def episode_conditions(team_id: str, episode_id: str) -> Iterator[ColumnElement[bool]]:
    """Yields the conditions on the inferences of an episode, without those that nobody got."""
    columns = tables.inferences.c
    yield columns.episode_id == episode_id
    yield columns.team_id == team_id
    yield columns.id >= earliest_id(episode_id)
    yield from own_conditions()


def row_to_dict(row: Row[Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {**row._mapping}  # pyright: ignore[reportPrivateUsage]
    times = {"received_at": row.received_at.isoformat(), "erased_at": None if row.erased_at is None else row.erased_at.isoformat()}
    return {**fields, **times, "key": row.key and f"nx-{row.key}", "attempts_count": attempts_of(fields)}


async def unpack_text(packed: bytes | None) -> str | None:
    return None if packed is None else (await unpack_beside_loop(packed)).decode("utf-8", "replace")
