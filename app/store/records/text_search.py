"""Full-text search: which inferences of some teams have words, from the newest on, in steps of bounded work.

Each step looks at the newest texts that no step has seen, at more of them as long as that is quick. Days that are over have an index of
words, so that Postgres reads only what matches; in those before, each text of a step is read.
"""

import time
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy import Row, Select, exists, func, literal_column, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.errors import InvalidKeyField
from app.domain.uuid7 import lowest_at
from app.store.postgres import tables
from app.store.postgres.conditions import AnyOf, one_of, values_of
from app.store.postgres.partitions import DAY_MS, partition_days

MAX_TEAMS = 100
_FIRST_STEP, _SMALLEST_STEP, _LARGEST_STEP = 500, 100, 1_000_000
_QUICK_S, _SLOW_S = 0.1, 0.5

# In the transaction alone. A plan for any range of time would not know how many texts it holds.
_SETTINGS = text("SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('jit', 'off', true)")
_NTH_NEWEST = text(
    """
    SELECT newest.id FROM unnest(CAST(:team_ids AS uuid[])) AS team (id) CROSS JOIN LATERAL (
        SELECT id FROM inference_texts WHERE team_id = team.id AND id >= CAST(:low AS uuid) AND id < CAST(:high AS uuid)
        ORDER BY id DESC LIMIT :step
    ) AS newest ORDER BY newest.id DESC OFFSET :step - 1 LIMIT 1
    """
)
_PARTITIONS = text("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'inference_texts'::regclass")


class Matches(Struct, frozen=True):
    """The newest inferences that match."""

    rows: Sequence[Row[Any]]
    searched_to: str | None  # an id, from which on everything was searched; None: everything was


async def find_searched_teams(
    connection: AsyncConnection, *, team: AnyOf | None, team_id: str | None, only_teams: Collection[str] | None
) -> list[str]:
    """The ids of the teams to search. Raises InvalidKeyField.

    `team` and `team_id` leave this one, `only_teams` those with these names.
    """
    columns = tables.teams.c
    query = select(columns.id).where(columns.search).limit(MAX_TEAMS + 1)
    if team is not None:
        query = query.where(one_of(columns.name, values_of(team)))
    if team_id is not None:
        query = query.where(columns.id == team_id)
    if only_teams is not None:
        query = query.where(one_of(columns.name, only_teams))
    ids = list((await connection.execute(query)).scalars())
    if not ids:
        raise InvalidKeyField(
            "text",
            "There is nothing to search by `text`: no team that this is about, and whose content you may see, has full-text search on."
            ' PATCH /admin/v1/teams/NAME with {"search": true}, or `narthex teams set NAME --search`, turns it on.',
        )
    if len(ids) > MAX_TEAMS:
        raise InvalidKeyField("text", f"More than {MAX_TEAMS} teams have full-text search: name one in `team`.")
    return ids


async def oldest_text_ms(connection: AsyncConnection) -> int | None:
    """No text was received before then. None: there is none."""
    days = [days[0] for name in (await connection.execute(_PARTITIONS)).scalars() if (days := partition_days(name)) is not None]
    return min(days) * DAY_MS if days else None


async def find_matches(
    connection: AsyncConnection,
    inferences: Select[Any],
    search: str,
    team_ids: Sequence[str],
    ranges: AsyncIterator[tuple[int, int]],
    *,
    before: str | None,
    limit: int,
    timeout_s: float,
) -> Matches:
    """Returns at most `limit` of the selected inferences that match a search, the newest first.

    `search` is as read_search() makes it. `ranges` are ranges of time in ms that may hold matches, the newest
    first. `before` selects only ids below it. The search stops after about `timeout_s`, but not before it has
    made a step: whoever goes on from there comes to the end.
    """
    await connection.execute(_SETTINGS)
    deadline_s = time.monotonic() + timeout_s
    found: list[Row[Any]] = []
    step, has_progress = _FIRST_STEP, False
    async for begin_ms, end_ms in _join_near(ranges):
        begin, high = lowest_at(begin_ms), lowest_at(end_ms)
        if before is not None and before < high:
            high = before
        while begin < high:
            started_s = time.monotonic()
            if started_s > deadline_s and has_progress:
                return Matches(found, high)
            values = {"team_ids": team_ids, "low": begin, "high": high, "step": step}
            nth = (await connection.execute(_NTH_NEWEST, values)).scalar()
            low = begin if nth is None else str(nth)
            found += (await connection.execute(_matching(inferences, search, team_ids, low, high).limit(limit - len(found)))).all()
            if len(found) >= limit:
                return Matches(found, found[-1].id)
            high, has_progress = low, True
            took_s = time.monotonic() - started_s
            if took_s < _QUICK_S:
                step = min(4 * step, _LARGEST_STEP)
            elif took_s > _SLOW_S:
                step = max(step // 4, _SMALLEST_STEP)
    return Matches(found, None)


async def _join_near(ranges: AsyncIterator[tuple[int, int]]) -> AsyncIterator[tuple[int, int]]:
    """Ranges less than a day apart as one: a step reads no more for it, and hundreds of single hours would be hundreds of steps."""
    joined: tuple[int, int] | None = None
    async for begin_ms, end_ms in ranges:
        if joined is not None and joined[0] - end_ms >= DAY_MS:
            yield joined
            joined = None
        joined = (begin_ms, end_ms if joined is None else joined[1])
        if joined[1] - joined[0] >= DAY_MS:  # enough to begin with: older ranges are not looked for before they are needed
            yield joined
            joined = None
    if joined is not None:
        yield joined


def _matching(inferences: Select[Any], search: str, team_ids: Sequence[str], low: str, high: str) -> Select[Any]:
    texts, id = tables.inference_texts.c, tables.inferences.c.id
    words = func.websearch_to_tsquery(literal_column("'simple'::regconfig"), search)
    # By itself: a plan that has the limit in mind may read the texts of a whole day in the order of their ids.
    matching = (
        select(texts.id)
        .where(texts.team_id.in_(team_ids), texts.id >= low, texts.id < high, texts.words.op("@@")(words))
        .cte("matching")
        .prefix_with("MATERIALIZED")
    )
    # The words of a response that its caller deleted stay until they expire; nobody finds it by them.
    is_deleted = exists().where(tables.deleted_responses.c.id == id)
    return inferences.where(id >= low, id < high, id.in_(select(matching.c.id)), ~is_deleted).order_by(id.desc())
