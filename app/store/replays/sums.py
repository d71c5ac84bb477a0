"""The sums of a replay's pairs, by units: an episode is one unit, whose value is the mean of its pairs.

Only pairs before the first item that is still open count: those that happen to be answered soon are no fair
sample.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

# Names of metrics, with the field of replay_items.original and .replayed, and what it is multiplied by.
FLOATS: Mapping[str, tuple[str, str]] = {
    "latency": ("latency_us", "0.000001"),
    "cost": ("cost_microusd", "0.000001"),
    "input_tokens": ("input_tokens", "1"),
    "output_tokens": ("output_tokens", "1"),
}
# Of pairs that both answered, as with shadows: an error comes soon and writes nothing, which is not better.
_OF_ANSWERED = frozenset({"latency", "input_tokens", "output_tokens"})
_BOTH_ANSWERED = " AND ".join(f"NOT (pairs.{side} ->> 'error')::boolean" for side in ("original", "replayed"))
_JUDGED = ("judged", "wins", "losses", "ties", "flipped", "failed")
BOOLEANS = ("error", "schema_failure", "refusal")


class PairedSums(Struct, frozen=True):
    """The sums of a metric over units.

    `original` and `replayed` are means. `difference` is the sum of replayed less original, and `squares` is
    the sum of the squares of that. `zeros` counts units without a difference.
    """

    units: int
    original: float
    replayed: float
    difference: float
    squares: float
    zeros: int


class PairedOutcomes(Struct, frozen=True):
    """The sums of a metric that is a yes or no.

    `only_original` and `only_replayed` count pairs in which that one alone had it. `differences` has a value
    for each unit, in their order.
    """

    original: float
    replayed: float
    only_original: int
    only_replayed: int
    differences: Sequence[float]


class Judgements(Struct, frozen=True):
    """The judge's results for all pairs."""

    scores: Sequence[float]  # by unit, in their order; the rest counts pairs
    pairs: int
    wins: int
    losses: int
    ties: int
    flipped: int
    failed: int  # pairs that differ and have no judgement


class ReplaySums(Struct, frozen=True):
    """Sums over a replay's pairs of an original and a replayed response."""

    pairs: int  # those that count
    units: int  # those that count
    pairs_of_unit: int  # the most of any unit
    floats: Mapping[str, PairedSums]
    booleans: Mapping[str, PairedOutcomes]
    matches: Sequence[float]  # by unit, the share of pairs that say the same; of pairs of which that is known
    compared: int
    same: int
    judgements: Judgements


async def read_sums(connection: AsyncConnection, replay_id: str) -> ReplaySums:
    row: Mapping[str, Any] = dict((await connection.execute(_QUERY, {"id": replay_id})).one()._mapping)  # pyright: ignore[reportPrivateUsage]
    return ReplaySums(
        pairs=row["pairs"],
        units=row["units"],
        pairs_of_unit=row["most"],
        floats={name: PairedSums(*(row[f"{name}_{part}"] for part in ("n", "a", "b", "d", "dd", "zeros"))) for name in FLOATS},
        booleans={name: _outcomes(row, name) for name in BOOLEANS},
        matches=row["matches"] or (),
        compared=row["compared"],
        same=row["same"],
        judgements=Judgements(row["scores"] or (), *(row[name] for name in _JUDGED)),
    )


def _outcomes(row: Mapping[str, Any], name: str) -> PairedOutcomes:
    original, replayed, only_original, only_replayed = (row[f"{name}_{part}"] for part in ("a", "b", "only_a", "only_b"))
    return PairedOutcomes(original, replayed, only_original, only_replayed, row[f"{name}_ds"] or ())


def _query() -> str:
    of_units: list[str] = []
    totals: list[str] = []
    for name, (field, factor) in FLOATS.items():
        a, b = (f"((pairs.{side} ->> '{field}')::float8 * {factor})" for side in ("original", "replayed"))
        if name in _OF_ANSWERED:
            a, b = (f"(CASE WHEN {_BOTH_ANSWERED} THEN {each} END)" for each in (a, b))
        of_units += [
            f"avg({a}) FILTER (WHERE {b} IS NOT NULL) AS {name}_a",
            f"avg({b}) FILTER (WHERE {a} IS NOT NULL) AS {name}_b",
            f"avg({b} - {a}) AS {name}_d",
        ]
        totals += [
            f"count({name}_d) AS {name}_n",
            f"coalesce(avg({name}_a), 0) AS {name}_a",
            f"coalesce(avg({name}_b), 0) AS {name}_b",
            f"coalesce(sum({name}_d), 0) AS {name}_d",
            f"coalesce(sum({name}_d * {name}_d), 0) AS {name}_dd",
            f"count(*) FILTER (WHERE {name}_d = 0) AS {name}_zeros",
        ]
    for name in BOOLEANS:
        a, b = (f"((pairs.{side} ->> '{name}')::boolean)" for side in ("original", "replayed"))
        of_units += [
            f"avg({a}::int)::float8 AS {name}_a",
            f"avg({b}::int)::float8 AS {name}_b",
            f"avg({b}::int - {a}::int)::float8 AS {name}_d",
            f"count(*) FILTER (WHERE {a} AND NOT {b}) AS {name}_only_a",
            f"count(*) FILTER (WHERE {b} AND NOT {a}) AS {name}_only_b",
        ]
        totals += [
            f"coalesce(avg({name}_a), 0) AS {name}_a",
            f"coalesce(avg({name}_b), 0) AS {name}_b",
            f"coalesce(sum({name}_only_a), 0)::bigint AS {name}_only_a",
            f"coalesce(sum({name}_only_b), 0)::bigint AS {name}_only_b",
            f"array_agg({name}_d ORDER BY number) AS {name}_ds",
        ]
    score = "(pairs.judgement ->> 'score')::float8"
    of_units += [
        "avg(same::int)::float8 AS matches",
        "count(same) AS compared",
        "count(*) FILTER (WHERE same) AS same",
        f"avg({score}) AS score",
        f"count({score}) AS judged",
        f"count(*) FILTER (WHERE {score} > 0.5) AS wins",
        f"count(*) FILTER (WHERE {score} < 0.5) AS losses",
        f"count(*) FILTER (WHERE {score} = 0.5) AS ties",
        "count(*) FILTER (WHERE (pairs.judgement ->> 'flipped')::boolean) AS flipped",
        "count(*) FILTER (WHERE pairs.judgement IS NULL AND NOT same) AS failed",
    ]
    totals += [
        "array_agg(matches ORDER BY number) FILTER (WHERE matches IS NOT NULL) AS matches",
        "array_agg(score ORDER BY number) FILTER (WHERE score IS NOT NULL) AS scores",
        *(
            f"coalesce(sum({name}), 0)::bigint AS {name}"
            for name in ("compared", "same", "judged", "wins", "losses", "ties", "flipped", "failed")
        ),
    ]
    return f"""
        WITH pairs AS (
            SELECT number, episode, original, replayed, same, judgement FROM replay_items
            WHERE replay_id = :id AND status = 'done' AND original IS NOT NULL AND replayed IS NOT NULL AND number < coalesce((
                SELECT min(number) FROM replay_items WHERE replay_id = :id AND status IN ('pending', 'running')
            ), 2147483647)
        ), units AS (
            SELECT min(number) AS number, count(*) AS pairs, {", ".join(of_units)} FROM pairs GROUP BY episode
        )
        SELECT count(*) AS units, coalesce(sum(pairs), 0)::bigint AS pairs, coalesce(max(pairs), 0) AS most, {", ".join(totals)} FROM units
    """  # noqa: S608


_QUERY = text(_query())
