"""Shadows and the inferences that they repeat, in pairs: sums of their differences over episodes."""

import datetime
from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.store.postgres.partitions import DAY_MS
from app.store.records.outcome_conditions import failed, refused, schema_failed

MAX_PAIRS = 200_000
# The original begins before its shadow, and may take long.
_LONGEST_MS = DAY_MS
# Of the shadow (s) less the original (o), in a metric's own unit; null: one of them has no value. What both wrote is compared for first
# turns alone: the rest of a conversation followed the original.
_DIFFERENCES = {
    "error": "{failed_s}::int - {failed_o}::int",
    "schema_failure": "CASE WHEN s.shadow_first_turn THEN {schema_s}::int - {schema_o}::int END",
    "refusal": "CASE WHEN s.shadow_first_turn THEN {refusal_s}::int - {refusal_o}::int END",
    "latency": "CASE WHEN {both} THEN (s.duration_us - o.duration_us) / 1000000.0 END",
    "time_to_first_token": "CASE WHEN {both} THEN (s.first_token_us - o.first_token_us) / 1000000.0 END",
    "cost": "(s.cost_microusd - o.cost_microusd) / 1000000.0",
    "input_tokens": "CASE WHEN {both} THEN s.input_tokens - o.input_tokens END",
    "output_tokens": "CASE WHEN {both} AND s.shadow_first_turn THEN s.output_tokens - o.output_tokens END",
}
METRICS = tuple(_DIFFERENCES)


class PairSums(Struct, frozen=True):
    """The sums over pairs of one variant or model and another one that repeated its requests.

    `differences` has by metric the number of episodes with a value, the sum of their mean differences, the
    sum of the squares of these, and how many of them are 0. `same` and `different` count episodes by their
    first pair that can be compared.
    """

    original: str
    shadow: str
    pairs: int
    episodes: int
    first_turns: int
    same: int
    different: int
    differences: Mapping[str, tuple[int, float, float, int]]


async def read_pair_sums(
    connection: AsyncConnection, name: str, since: datetime.datetime, until: datetime.datetime
) -> tuple[list[PairSums], bool]:
    """Returns sums by original and shadow, those with most pairs first.

    The second value says whether there are older pairs than the newest MAX_PAIRS. Only pairs count that both
    ended at an engine. An original's variant is the one that was assigned or, without one, the model that was
    named.
    """
    begin_ms, end_ms = (int(each.timestamp() * 1000) for each in (since, until))
    values = {
        "name": name,
        "since": uuid7.lowest_at(begin_ms),
        "until": uuid7.lowest_at(end_ms),
        "oldest": uuid7.lowest_at(max(0, begin_ms - _LONGEST_MS)),
        "limit": MAX_PAIRS + 1,
    }
    rows = [dict[str, Any](row) for row in (await connection.execute(_QUERY, values)).mappings()]
    return [_to_sums(row) for row in rows[:_MAX_GROUPS]], sum(row["pairs"] for row in rows) > MAX_PAIRS


async def has_pairs(connection: AsyncConnection, name: str) -> bool:
    """Whether there ever was a shadow of this name, as far as is kept."""
    found = text("SELECT 1 FROM inferences WHERE shadow = :name LIMIT 1")
    return (await connection.execute(found, {"name": name})).first() is not None


def _query() -> str:
    parts = {
        "both": "s.outcome = 'answered' AND o.outcome = 'answered'",
        **{f"failed_{side}": f"coalesce({failed(side + '.')}, false)" for side in ("s", "o")},
        **{f"schema_{side}": f"coalesce({schema_failed(side + '.')}, false)" for side in ("s", "o")},
        **{f"refusal_{side}": f"coalesce({refused(side + '.')}, false)" for side in ("s", "o")},
    }
    differences = ",\n".join(f"({expression.format(**parts)})::float8 AS {name}" for name, expression in _DIFFERENCES.items())
    means = ", ".join(f"avg({name}) AS {name}" for name in METRICS)
    sums = ",\n".join(
        f"count({name}) AS {name}_n, sum({name}) AS {name}_y, sum({name} * {name}) AS {name}_yy,"
        f" count(*) FILTER (WHERE {name} = 0) AS {name}_zeros"
        for name in METRICS
    )
    return f"""
        WITH pairs AS (
            SELECT coalesce(o.variant, regexp_replace(o.model, '^.*::model_name::', '')) AS original,
                coalesce(s.variant, s.model) AS shadow,
                o.team_id, o.episode_id, s.shadow_first_turn AS is_first,
                CASE WHEN s.shadow_first_turn THEN s.shadow_same END AS is_same, s.id,
                {differences}
            FROM inferences s JOIN inferences o ON o.id = s.original_id AND o.id >= CAST(:oldest AS uuid) AND o.id < CAST(:until AS uuid)
            WHERE s.shadow = :name AND s.id >= CAST(:since AS uuid) AND s.id < CAST(:until AS uuid)
                AND s.outcome IN ('answered', 'failed') AND o.outcome IN ('answered', 'failed')
            ORDER BY s.id DESC LIMIT :limit
        ), episodes AS (
            SELECT original, shadow, count(*) AS pairs, count(*) FILTER (WHERE is_first) AS first_turns,
                (array_agg(is_same ORDER BY id) FILTER (WHERE is_same IS NOT NULL))[1] AS is_same, {means}
            FROM pairs GROUP BY original, shadow, team_id, episode_id
        )
        SELECT original, shadow, sum(pairs)::bigint AS pairs, count(*) AS episodes, sum(first_turns)::bigint AS first_turns,
            count(*) FILTER (WHERE is_same) AS same, count(*) FILTER (WHERE NOT is_same) AS different,
            {sums}
        FROM episodes GROUP BY original, shadow ORDER BY pairs DESC, original, shadow
    """  # noqa: S608


_MAX_GROUPS = 100
_QUERY = text(_query())


def _to_sums(row: Mapping[str, Any]) -> PairSums:
    differences = {name: (row[f"{name}_n"], row[f"{name}_y"] or 0.0, row[f"{name}_yy"] or 0.0, row[f"{name}_zeros"]) for name in METRICS}
    counts = {name: row[name] for name in PairSums.__struct_fields__ if name != "differences"}
    return PairSums(**counts, differences=differences)
