"""The inferences and episodes that feedback is about, as they are recorded."""

import datetime
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from app.domain import uuid7
from app.store.postgres.partitions import DAY_MS, Connection

# Row by row, so that each id is looked for in the partition of its day alone.
FIND_INFERENCES = """
    SELECT wanted.id::text, found.team_id::text, found.model, found.function, found.variant, found.not_enrolled, found.erased_at,
        found.end_user, found.tags
    FROM unnest($1::uuid[]) AS wanted (id)
    CROSS JOIN LATERAL (SELECT * FROM inferences WHERE inferences.id = wanted.id{only_erased} LIMIT 1) AS found
"""
# The first partition that has any ends the search for an episode. What the gateway requested itself says nothing of it.
_EPISODES = """
    SELECT wanted.id::text, wanted.team_id::text, found.model, found.function, found.variant, found.not_enrolled, found.erased_at,
        found.end_user, found.tags
    FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS wanted (id, team_id, since)
    CROSS JOIN LATERAL (
        SELECT * FROM inferences
        WHERE inferences.episode_id = wanted.id AND inferences.team_id = wanted.team_id AND inferences.id >= wanted.since
            AND inferences.origin IS NULL{only_erased}
        LIMIT 1
    ) AS found
"""
SEARCHED_MARGIN = datetime.timedelta(days=1)
_ONLY_ERASED = " AND inferences.erased_at IS NOT NULL"


class TargetKey(NamedTuple):
    """An inference or episode of a team that feedback is about. `level` says which of the two it is."""

    level: str
    team_id: str
    id: str


class Target(NamedTuple):
    """An inference, or some inference of an episode. `tags`: as JSON."""

    id: str
    team_id: str
    model: str
    function: str | None
    variant: str | None
    not_enrolled: str | None
    erased_at: datetime.datetime | None
    end_user: str | None
    tags: str | None


async def find_targets(
    connection: Connection,
    keys: Sequence[TargetKey],
    *,
    only_erased: bool = False,
    searched: Mapping[TargetKey, datetime.datetime] | None = None,
) -> Mapping[TargetKey, Target]:
    """Finds the inferences and episodes that feedback is about.

    `only_erased` leaves inferences that were erased, and episodes that have one. `searched` are episodes that had no inference then; only
    partitions from SEARCHED_MARGIN before that on may have one by now.
    """
    added = _ONLY_ERASED if only_erased else ""
    found: dict[TargetKey, Target] = {}
    ids = sorted({key.id for key in keys if key.level == "inference"})
    if ids:
        rows = await connection.fetch(FIND_INFERENCES.format(only_erased=added), ids)
        found |= {TargetKey("inference", row["team_id"], row["id"]): Target(*row) for row in rows}
    episodes = sorted({key for key in keys if key.level == "episode"})
    wanted = [(key.id, key.team_id, _since(key.id, None if searched is None else searched.get(key))) for key in episodes]
    if wanted:
        rows = await connection.fetch(_EPISODES.format(only_erased=added), *([*column] for column in zip(*wanted, strict=True)))
        found |= {TargetKey("episode", row["team_id"], row["id"]): Target(*row) for row in rows}
    return found


def _since(episode_id: str, searched: datetime.datetime | None) -> str:
    """No inference of an episode is older than a UUIDv7 that names it, but for a clock that is wrong; one with a name may be."""
    since_ms = uuid7.created_ms(episode_id) - DAY_MS if uuid7.is_uuid7(episode_id) else 0
    if searched is not None:
        since_ms = max(since_ms, int((searched - SEARCHED_MARGIN).timestamp() * 1000))
    return uuid7.lowest_at(since_ms)
