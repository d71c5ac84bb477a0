"""The inferences and episodes that feedback is about, as they are recorded."""

import datetime
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from app import uuid7
from app.store.partitions import DAY_MS, Connection

_INFERENCES = """
    SELECT id::text, team_id::text, model, function, variant, not_enrolled, erased_at FROM inferences
    WHERE id = any($1::uuid[]) AND id >= $2::uuid AND id <= $3::uuid{only_erased}
"""
# The first partition that has any ends the search for an episode.
_EPISODES = """
    SELECT wanted.id::text, wanted.team_id::text, found.model, found.function, found.variant, found.not_enrolled, found.erased_at
    FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS wanted (id, team_id, since)
    CROSS JOIN LATERAL (
        SELECT * FROM inferences
        WHERE inferences.episode_id = wanted.id AND inferences.team_id = wanted.team_id AND inferences.id >= wanted.since
            AND inferences.shadow IS NULL{only_erased}
        LIMIT 1
    ) AS found
"""
_ONLY_ERASED = " AND inferences.erased_at IS NOT NULL"


class TargetKey(NamedTuple):
    """What feedback is about: an inference or episode of its team. `level`: which of them."""

    level: str
    team_id: str
    id: str


class Target(NamedTuple):
    """An inference, or some inference of an episode."""

    id: str
    team_id: str
    model: str
    function: str | None
    variant: str | None
    not_enrolled: str | None
    erased_at: datetime.datetime | None


async def find_targets(connection: Connection, keys: Sequence[TargetKey], *, only_erased: bool = False) -> Mapping[TargetKey, Target]:
    """`only_erased`: inferences that were erased, and episodes that have one."""
    added = _ONLY_ERASED if only_erased else ""
    found: dict[TargetKey, Target] = {}
    ids = [key.id for key in keys if key.level == "inference"]
    if ids:
        rows = await connection.fetch(_INFERENCES.format(only_erased=added), ids, min(ids), max(ids))
        found |= {TargetKey("inference", row["team_id"], row["id"]): Target(*row) for row in rows}
    wanted = sorted({(key.id, key.team_id, _since(key.id)) for key in keys if key.level == "episode"})
    if wanted:
        rows = await connection.fetch(_EPISODES.format(only_erased=added), *([*column] for column in zip(*wanted, strict=True)))
        found |= {TargetKey("episode", row["team_id"], row["id"]): Target(*row) for row in rows}
    return found


def _since(episode_id: str) -> str:
    """No inference of an episode is older than a UUIDv7 that names it, but for a clock that is wrong; one with a name may be."""
    return uuid7.lowest_at(uuid7.created_ms(episode_id) - DAY_MS if uuid7.is_uuid7(episode_id) else 0)
