"""The choice of the recorded requests that a replay takes.

It is a sample that filters and a hash choose, of the requests whose content is kept in full.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, structs
from sqlalchemy import BigInteger, ColumnElement, Integer, String, case, cast, func, insert, literal, select
from sqlalchemy.dialects.postgresql import BIT, UUID
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.store.postgres import tables
from app.store.records.episode_lookup import find_episode_ids
from app.store.records.inference_filter import InferenceFilter, check_names, conditions

# Routes whose requests a replay can send again, and whose responses can be compared.
ROUTES = ("openai_chat", "openai_responses", "anthropic_messages", "openai_completions", "gemini", "tensorzero_inference")
_HASH_BITS = 48


class ChosenItems(Struct, frozen=True):
    """The numbers of a sample's inferences."""

    items: int
    refused: Mapping[str, int]  # how many of the sample cannot be replayed, by reason


async def choose_items(
    connection: AsyncConnection, replay_id: str, filters: InferenceFilter, *, sample: float, seed: str, max_items: int
) -> ChosenItems:
    """Stores the items, in the order of their hash: whichever number of them is run is a sample of all. Raises InvalidKeyField.

    The same seed and the same records give the same items.
    """
    await check_names(connection, filters, is_empty=False)
    if filters.episode is not None:
        found = await find_episode_ids(
            connection, filters.episode, team=filters.team, team_id=filters.team_id, only_teams=filters.only_teams
        )
        filters = structs.replace(filters, episode_ids=found)
    inference, content, team, deleted = tables.inferences.c, tables.inference_content.c, tables.teams.c, tables.deleted_responses.c
    hash, since = _hash(seed), uuid7.lowest_at(filters.since_ms or 0)
    # With a bound of its own, only partitions of content are read that may hold some.
    joined = (
        tables.inferences.outerjoin(tables.inference_content, (content.id == inference.id) & (content.id >= since))
        .outerjoin(tables.teams, team.id == inference.team_id)
        .outerjoin(tables.deleted_responses, deleted.id == inference.id)
    )
    matching = [inference.id >= since, inference.origin.is_(None), inference.outcome.in_(("answered", "failed")), *conditions(filters)]
    if filters.until_ms is not None:
        matching.append(inference.id < uuid7.lowest_at(filters.until_ms))
    if sample < 1:
        matching.append(hash < int(sample * 2**_HASH_BITS))
    columns = (inference.id, inference.team_id, inference.episode_id, hash.label("hash"), _refusal().label("refusal"))
    candidates = select(*columns).select_from(joined).where(*matching).cte("candidates")
    chosen = (
        select(candidates.c.id, candidates.c.team_id, candidates.c.episode_id, candidates.c.hash)
        .where(candidates.c.refusal.is_(None))
        .order_by(candidates.c.hash, candidates.c.id)
        .limit(max_items)
        .cte("chosen")
    )
    numbered = select(
        cast(literal(replay_id), UUID(as_uuid=False)),
        cast(func.row_number().over(order_by=(chosen.c.hash, chosen.c.id)), Integer),
        chosen.c.id,
        cast(func.dense_rank().over(order_by=(chosen.c.team_id, chosen.c.episode_id)), Integer),
    )
    inserted = (
        insert(tables.replay_items)
        .from_select(["replay_id", "number", "original_id", "episode"], numbered)
        .returning(tables.replay_items.c.number)
        .cte("inserted")
    )
    counted = (
        select(candidates.c.refusal, func.count(), select(func.count()).select_from(inserted).scalar_subquery())
        .group_by(candidates.c.refusal)
        .add_cte(inserted)
    )
    rows = (await connection.execute(counted)).all()
    return ChosenItems(rows[0][2] if rows else 0, {reason: count for reason, count, _ in rows if reason is not None})


def _refusal() -> ColumnElement[Any]:
    """Why a request cannot be replayed; null: it can."""
    inference, content, team = tables.inferences.c, tables.inference_content.c, tables.teams.c
    return case(
        (inference.route.notin_(ROUTES), "route"),
        (tables.deleted_responses.c.id.isnot(None), "deleted"),
        (content.id.is_(None), "expired"),
        (content.policy != "full", content.policy),
        (func.coalesce(team.content, "none") != "full", "team_policy"),
        (content.request.is_(None), "lost"),
        else_=None,
    )


def _hash(seed: str) -> ColumnElement[int]:
    """Returns a hash from 0 to before 2**48: the same in every version of Postgres."""
    digest = func.md5(literal(f"{len(seed)}:{seed}/", String) + cast(tables.inferences.c.id, String))
    return cast(cast(literal("x", String) + func.substr(digest, 1, _HASH_BITS // 4), BIT(_HASH_BITS)), BigInteger)
