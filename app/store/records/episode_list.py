"""The list of episodes: those with an inference that a filter matches, by the newest such inference, with the sums of all their inferences.

No table has a row for each episode. So inferences are read from the newest on, in steps of bounded work, until they are of enough
episodes, and the sums of these are read by their ids, which have an index.
"""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct
from sqlalchemy import and_, exists, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.store.postgres import tables
from app.store.postgres.conditions import unnested_ids
from app.store.records.inference_filter import (
    InferenceFilter,
    conditions,
    earliest_id,
    id_conditions,
    named_filters,
    own_conditions,
)
from app.store.records.inference_queries import searched_ranges, step_begin, with_episode_ids
from app.store.usage.named_filters import check_named

MAX_INFERENCES = 10_000  # of an episode, in its sums
STEP_ROWS = 2_000
_LIST_S = 3.0  # then a page ends where it is
_MICROSECOND = timedelta(microseconds=1)
_columns = tables.inferences.c


class EpisodeSums(Struct, frozen=True, kw_only=True):
    """An episode, with sums of all its inferences."""

    id: str
    team_id: str
    newest: str  # the newest inference that the filter matches, by which it is listed
    route: str  # the API of the newest
    name: str | None
    team: str | None
    key: str | None
    end_user: str | None
    began_at: datetime
    ended_at: datetime
    inferences: int
    capped: bool  # whether it has more than MAX_INFERENCES, and the sums are of so many of them
    failed: int
    input_tokens: int
    output_tokens: int
    cost_microusd: int
    unpriced: int
    models: Sequence[str]
    function: str | None
    variant: str | None
    experiment: str | None
    feedback: Mapping[str, float]

    @property
    def duration_us(self) -> int:
        return (self.ended_at - self.began_at) // _MICROSECOND


class LeastSums(Struct, frozen=True):
    """The least that the sums of a listed episode must reach."""

    inferences: int = 0
    cost_microusd: int = 0
    duration_us: int = 0

    def are_reached(self, episode: EpisodeSums) -> bool:
        return (
            episode.inferences >= self.inferences
            and episode.cost_microusd >= self.cost_microusd
            and episode.duration_us >= self.duration_us
        )


class EpisodePage(Struct, frozen=True):
    """A page of the list of episodes."""

    episodes: list[EpisodeSums]
    next: str | None  # as `before`, it continues the list; None: this is its end
    searched_to: datetime | None = None  # as of InferencePage


async def page_episodes(
    connection: AsyncConnection, filters: InferenceFilter, least: LeastSums, *, keep_hours_days: int, before: str | None, limit: int
) -> EpisodePage:
    """Returns a page of episodes, without shadows and what holds the words of another team. Raises InvalidKeyField as lists do."""
    filters = await with_episode_ids(connection, filters)
    await connection.execute(text("SET LOCAL jit = off"))
    page = await _Search(connection, filters, least, before, limit).page(keep_hours_days)
    if not page.episodes and before is None and page.next is None:
        await check_named(connection, named_filters(filters), filters.only_teams)
    return page


_Episode = tuple[str, str]  # its team and its id


class _Search:
    def __init__(self, connection: AsyncConnection, filters: InferenceFilter, least: LeastSums, before: str | None, limit: int) -> None:
        self._connection = connection
        self._conditions = [*conditions(filters), *id_conditions(filters), *own_conditions()]
        self._filters = filters
        self._least = least
        self._before = before
        self._limit = limit
        self._seen: set[_Episode] = set()
        self._found: list[EpisodeSums] = []

    async def page(self, keep_hours_days: int) -> EpisodePage:
        deadline_s = time.monotonic() + _LIST_S
        async for begin_ms, end_ms in searched_ranges(self._connection, self._filters, keep_hours_days, self._before):
            begin, end = uuid7.lowest_at(begin_ms), uuid7.lowest_at(end_ms)
            end = end if self._before is None else min(end, self._before)
            while begin < end:
                if time.monotonic() >= deadline_s:
                    at = datetime.fromtimestamp(uuid7.created_ms(end) / 1000, UTC)
                    return EpisodePage(self._found, end, at)
                first = await step_begin(self._connection, self._filters, begin, end, STEP_ROWS)
                rows = await self._matching(first, end)
                await self._add(rows)
                if len(self._found) > self._limit:
                    shown = self._found[: self._limit]
                    return EpisodePage(shown, shown[-1].newest)
                end = first
        return EpisodePage(self._found, None)

    async def _matching(self, first: str, end: str) -> dict[_Episode, str]:
        """The newest matching inference of each episode in a step, the newest first."""
        rows = (
            select(_columns.team_id, _columns.episode_id, _columns.id)
            .where(*self._conditions, _columns.id >= first, _columns.id < end)
            .order_by(_columns.id.desc())
        )
        newest: dict[_Episode, str] = {}
        for team_id, episode_id, id in await self._connection.execute(rows):
            newest.setdefault((team_id, episode_id), id)
        return newest

    async def _add(self, newest: dict[_Episode, str]) -> None:
        """Adds the episodes of a step that are not on this page or an earlier one, as many as the page still takes."""
        fresh = [episode for episode in newest if episode not in self._seen]
        self._seen.update(fresh)
        while fresh and len(self._found) <= self._limit:
            room = self._limit + 1 - len(self._found)
            candidates, fresh = fresh[:room], fresh[room:]
            earlier = await self._listed_earlier(candidates)
            wanted = {episode: newest[episode] for episode in candidates if episode not in earlier}
            self._found += [each for each in await _read_sums(self._connection, wanted) if self._least.are_reached(each)]

    async def _listed_earlier(self, episodes: Sequence[_Episode]) -> set[_Episode]:
        """Those with a matching inference on an earlier page."""
        if self._before is None:
            return set()
        teams, ids = zip(*episodes, strict=True)
        columns = (unnested_ids(teams).label("team_id"), unnested_ids(ids).label("episode_id"))
        wanted = select(*columns).subquery("wanted")
        is_later = and_(
            _columns.team_id == wanted.c.team_id, _columns.episode_id == wanted.c.episode_id, _columns.id >= self._before, *self._conditions
        )
        rows = await self._connection.execute(select(wanted.c.team_id, wanted.c.episode_id).where(exists().where(is_later)))
        return {(team_id, episode_id) for team_id, episode_id in rows}


async def _read_sums(connection: AsyncConnection, newest: Mapping[_Episode, str]) -> list[EpisodeSums]:
    """The sums of these episodes, in their order."""
    if not newest:
        return []
    values = {
        "teams": [team_id for team_id, _ in newest],
        "episodes": [episode_id for _, episode_id in newest],
        "earliest": [earliest_id(episode_id) for _, episode_id in newest],
        "newest": list(newest.values()),
        "most": MAX_INFERENCES + 1,
    }
    return [_to_sums(row) for row in await connection.execute(_SUMS, values)]


# One look into the index of episodes for each of them. Its inferences may be of several teams: each has an episode of its own.
_SUMS = text("""
    SELECT wanted.episode_id::text AS id, wanted.team_id::text AS team_id, wanted.newest::text AS newest, sums.*,
        (SELECT route FROM inferences WHERE inferences.id = wanted.newest) AS route,
        (SELECT name FROM teams WHERE teams.id = wanted.team_id) AS team,
        (SELECT prefix FROM keys WHERE keys.id = sums.key_id) AS key,
        (
            SELECT jsonb_object_agg(given.metric, given.number) FROM (
                SELECT metric, avg(number) AS number FROM feedback
                WHERE feedback.target_id = wanted.episode_id AND feedback.team_id = wanted.team_id AND is_current AND number IS NOT NULL
                GROUP BY metric ORDER BY metric LIMIT 20
            ) AS given
        ) AS feedback
    FROM unnest(CAST(:teams AS uuid[]), CAST(:episodes AS uuid[]), CAST(:earliest AS uuid[]), CAST(:newest AS uuid[]))
        WITH ORDINALITY AS wanted (team_id, episode_id, earliest, newest, position)
    CROSS JOIN LATERAL (
        SELECT
            max(episode_name) AS name, min(received_at) AS began_at, max(received_at + duration_us * interval '1 microsecond') AS ended_at,
            count(*) AS inferences, count(*) FILTER (WHERE outcome <> 'answered') AS failed,
            coalesce(sum(input_tokens), 0) AS input_tokens, coalesce(sum(output_tokens), 0) AS output_tokens,
            coalesce(sum(cost_microusd), 0) AS cost_microusd, count(*) FILTER (WHERE cost_microusd IS NULL) AS unpriced,
            (array_agg(DISTINCT model))[1:10] AS models, (array_agg(key_id ORDER BY id))[1] AS key_id,
            (array_agg(end_user ORDER BY id) FILTER (WHERE end_user IS NOT NULL))[1] AS end_user,
            (array_agg(function ORDER BY id))[1] AS function, (array_agg(variant ORDER BY id))[1] AS variant,
            (array_agg(experiment ORDER BY id))[1] AS experiment
        FROM (
            SELECT * FROM inferences
            WHERE episode_id = wanted.episode_id AND team_id = wanted.team_id AND id >= wanted.earliest
                AND shadow IS NULL AND content_team_id IS NULL
            LIMIT :most
        ) AS own
    ) AS sums
    WHERE sums.inferences > 0
    ORDER BY wanted.position
""")


def _to_sums(row: Any) -> EpisodeSums:
    fields = {name: getattr(row, name) for name in EpisodeSums.__struct_fields__ if name not in ("capped", "inferences", "feedback")}
    for name in ("failed", "input_tokens", "output_tokens", "cost_microusd", "unpriced"):
        fields[name] = int(fields[name])
    values: Mapping[str, float] = row.feedback or {}
    return EpisodeSums(
        **fields,
        inferences=min(row.inferences, MAX_INFERENCES),
        capped=row.inferences > MAX_INFERENCES,
        feedback={name: float(number) for name, number in values.items()},
    )
