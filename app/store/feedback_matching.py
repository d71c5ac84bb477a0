"""Matching of feedback with the inference or episode that it is about, of the same team, whichever of the two is stored first."""

import datetime
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from app import uuid7
from app.domain import MODEL_PREFIXES
from app.store.feedback_writes import lock_feedback
from app.store.partitions import Connection

# One that waits is looked for again when its age has doubled. What is stored late makes it due at once: see look_again().
_DUE = """
    SELECT id::text, team_id::text, level, target_id::text, received_at FROM feedback_pending
    WHERE check_at <= now() ORDER BY check_at LIMIT $1 FOR UPDATE SKIP LOCKED
"""
_POSTPONE = """
    UPDATE feedback_pending SET check_at = now() + least(interval '6 hours', greatest(interval '0.5 seconds', now() - received_at))
    WHERE id = any($1::uuid[])
"""
_INFERENCES = """
    SELECT id::text, team_id::text, model, function, variant, erased_at FROM inferences
    WHERE id = any($1::uuid[]) AND id >= $2::uuid AND id <= $3::uuid
"""
# The first partition that has any ends the search for an episode.
_EPISODES = """
    SELECT wanted.id::text, wanted.team_id::text, found.model, found.function, found.variant, found.erased_at
    FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS wanted (id, team_id, since)
    CROSS JOIN LATERAL (
        SELECT * FROM inferences
        WHERE inferences.episode_id = wanted.id AND inferences.team_id = wanted.team_id AND inferences.id >= wanted.since LIMIT 1
    ) AS found
"""
_MARK = """
    UPDATE feedback SET matched_at = now(), model = matched.model, function = matched.function, variant = matched.variant
    FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) AS matched (id, model, function, variant)
    WHERE feedback.id = matched.id AND feedback.id >= $5::uuid AND feedback.id <= $6::uuid
"""
_DAY_MS = 86_400_000


class Matched(NamedTuple):
    """How many were looked for, and found."""

    checked: int
    found: int


class _Pending(NamedTuple):
    id: str
    team_id: str
    level: str
    target_id: str
    received_at: datetime.datetime


class _Target(NamedTuple):
    id: str
    team_id: str
    model: str
    function: str | None
    variant: str | None
    erased_at: datetime.datetime | None


async def match_due(connection: Connection, limit: int) -> Matched:
    """Look for the targets of feedback that is due, inside a transaction."""
    due = [_Pending(*row) for row in await connection.fetch(_DUE, limit)]
    if not due:
        return Matched(0, 0)
    targets = {
        **await _find_inferences(connection, [each.target_id for each in due if each.level == "inference"]),
        **await _find_episodes(connection, [each for each in due if each.level == "episode"]),
    }
    found = [(each, target) for each in due if (target := targets.get((each.level, each.team_id, each.target_id))) is not None]
    await connection.execute(_POSTPONE, [each.id for each in due if (each.level, each.team_id, each.target_id) not in targets])
    if found:
        await _mark(connection, found)
    return Matched(len(due), len(found))


async def count_unmatched(connection: Connection, age: datetime.timedelta) -> int:
    """How many wait for longer than that."""
    count: int = await connection.fetchval("SELECT count(*) FROM feedback_pending WHERE received_at < now() - $1::interval", age)
    return count


async def _mark(connection: Connection, found: Sequence[tuple[_Pending, _Target]]) -> None:
    await lock_feedback(connection)
    ids = [each.id for each, _ in found]
    models = [_plain_model(target.model) for _, target in found]
    functions, variants = [target.function for _, target in found], [target.variant for _, target in found]
    await connection.execute(_MARK, ids, models, functions, variants, min(ids), max(ids))
    await connection.execute("DELETE FROM feedback_pending WHERE id = any($1::uuid[])", ids)


_Targets = Mapping[tuple[str, str, str], _Target]


async def _find_inferences(connection: Connection, ids: Sequence[str]) -> _Targets:
    rows = await connection.fetch(_INFERENCES, ids, min(ids), max(ids)) if ids else []
    return {("inference", target.team_id, target.id): target for target in (_Target(*row) for row in rows)}


async def _find_episodes(connection: Connection, pending: Sequence[_Pending]) -> _Targets:
    wanted = sorted({(each.target_id, each.team_id, _since(each.target_id)) for each in pending})
    rows = await connection.fetch(_EPISODES, *([*column] for column in zip(*wanted, strict=True))) if wanted else []
    return {("episode", target.team_id, target.id): target for target in (_Target(*row) for row in rows)}


def _since(episode_id: str) -> str:
    """No inference of an episode is older than a UUIDv7 that names it, but for a clock that is wrong; one with a name may be."""
    return uuid7.lowest_at(uuid7.created_ms(episode_id) - _DAY_MS if uuid7.is_uuid7(episode_id) else 0)


def _plain_model(model: str) -> str:
    for prefix in MODEL_PREFIXES:
        model = model.removeprefix(prefix)
    return model
