"""The measurements of experiments' units.

Units are measured by their inferences, by the feedback on these, and by what there was before the experiment.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from app.store.experiment_units.touched_units import COUNTS_FOR_UNIT
from app.store.postgres.partitions import Connection
from app.store.records.outcome_conditions import failed, refused, schema_failed

# One unit may be a team: of more inferences in its window only the first count.
MAX_INFERENCES = 100_000
_LARGEST_VALUE = 1e12  # of feedback, in either direction: beyond it a value counts as this one
_MICRO = 1_000_000
VALUE_IN_MILLIONTHS = f"round(least(greatest(feedback.number, -{_LARGEST_VALUE:.0f}), {_LARGEST_VALUE:.0f})::numeric * {_MICRO})"

# Lateral, and below by indexes only: whatever statistics the planner has, it must never scan a table for a handful of units.
ONLY_BY_INDEX = ("SET LOCAL enable_hashjoin = off", "SET LOCAL enable_mergejoin = off", "SET LOCAL enable_seqscan = off")
_WINDOWS = """
    unnest($1::int[], $2::text[], $3::text[], $4::uuid[], $5::uuid[], $6::uuid[], $7::boolean[])
        AS wanted (at, experiment, unit, since, first, until, is_episode)
"""
_FIRST = """
    SELECT id::text, experiment, experiment_unit, experiment_version, coalesce(episode_kind, '') AS episode_kind,
        coalesce(variant, '') AS arm, team_id::text, end_user, tags
    FROM inferences WHERE id = any($1::uuid[]) AND id >= $2::uuid AND id <= $3::uuid
"""
_MEASURE = f"""
    SELECT wanted.at, found.* FROM {_WINDOWS} CROSS JOIN LATERAL (
        SELECT
            min(not_enrolled) FILTER (WHERE not_enrolled <> 'ineligible' OR wanted.is_episode) AS excluded,
            count(*) FILTER (WHERE counts) AS inferences,
            count(DISTINCT episode_id) FILTER (WHERE counts) AS episodes,
            count(*) FILTER (WHERE counts AND served_variant <> variant) AS served_by_other,
            coalesce(bool_or({failed()}) FILTER (WHERE counts), false) AS error,
            coalesce(bool_or({schema_failed()}) FILTER (WHERE counts), false) AS schema_failure,
            coalesce(bool_or({refused()}) FILTER (WHERE counts), false) AS refusal,
            sum(duration_us) FILTER (WHERE counts) AS duration_us,
            sum(first_token_us) FILTER (WHERE counts) AS first_token_us,
            count(first_token_us) FILTER (WHERE counts) AS first_tokens,
            sum(cost_microusd) FILTER (WHERE counts) AS cost_microusd,
            count(*) FILTER (WHERE counts AND cost_microusd IS NULL) AS unpriced,
            sum(coalesce(charged_input, input_tokens, 0)) FILTER (WHERE counts) AS input_tokens,
            sum(coalesce(charged_output, output_tokens, 0)) FILTER (WHERE counts) AS output_tokens
        FROM (
            SELECT *, not_enrolled IS NULL AND id >= wanted.first AS counts FROM inferences
            WHERE {COUNTS_FOR_UNIT} AND experiment_unit = wanted.unit AND experiment = wanted.experiment
                AND id >= wanted.since AND id < wanted.until
            ORDER BY id LIMIT {MAX_INFERENCES}
        ) AS windowed
    ) AS found
"""  # noqa: S608
_FEEDBACK = f"""
    SELECT wanted.at, feedback.metric, count(*) AS events,
        sum({VALUE_IN_MILLIONTHS}) AS total
    FROM unnest($1::int[], $2::text[], $3::text[], $4::uuid[], $5::uuid[], $6::uuid[], $7::uuid[], $8::jsonb[])
        AS wanted (at, experiment, unit, first, until, feedback_since, feedback_until, metrics)
    CROSS JOIN LATERAL (
        SELECT DISTINCT target.id, target.level, windowed.team_id FROM (
            SELECT id, episode_id, team_id FROM inferences
            WHERE {COUNTS_FOR_UNIT} AND not_enrolled IS NULL AND experiment_unit = wanted.unit AND experiment = wanted.experiment
                AND id >= wanted.first AND id < wanted.until
            ORDER BY id LIMIT {MAX_INFERENCES}
        ) AS windowed, LATERAL (VALUES (windowed.id, 'inference'), (windowed.episode_id, 'episode')) AS target (id, level)
    ) AS target
    CROSS JOIN LATERAL (
        SELECT feedback.metric, feedback.number FROM feedback
        WHERE feedback.target_id = target.id AND feedback.team_id = target.team_id AND feedback.level = target.level
            AND feedback.is_current AND feedback.number IS NOT NULL AND wanted.metrics ? feedback.metric
            AND feedback.id >= wanted.feedback_since AND feedback.id < wanted.feedback_until
    ) AS feedback
    GROUP BY wanted.at, feedback.metric
"""  # noqa: S608


_decode_tags = msgspec.json.Decoder(dict[str, str]).decode


class Window(NamedTuple):
    """Inferences of a unit by their ids, the last exclusive."""

    experiment: str
    unit: str
    since: str  # from where on one that is not enrolled excludes it
    first: str
    until: str
    is_episode: bool  # False: a user or team may also send what is not eligible, which then is no part of the unit


class FeedbackWindow(NamedTuple):
    """Feedback of these metrics on a unit's inferences, by the ids of its events, the last exclusive."""

    window: Window
    since: str
    until: str
    metrics: Sequence[str]


class FirstInference(Struct, frozen=True):
    """The first inference of a unit, with what it says of the unit. `unit` is None if it was erased."""

    id: str
    experiment: str | None
    unit: str | None
    version: int | None
    episode_kind: str
    arm: str
    team_id: str
    end_user: str | None
    tags: Mapping[str, str]


class UnitSummary(Struct, frozen=True):
    """Sums over a unit's inferences."""

    excluded: str | None  # why one of them excludes it
    inferences: int
    episodes: int
    served_by_other: int
    error: bool
    schema_failure: bool
    refusal: bool
    duration_us: int
    first_token_us: int
    first_tokens: int  # how many have a time to first token
    cost_microusd: int
    unpriced: int
    input_tokens: int
    output_tokens: int


async def only_by_index(connection: Connection) -> None:
    """Turns off hash joins, merge joins and sequential scans for the rest of the transaction."""
    for setting in ONLY_BY_INDEX:
        await connection.execute(setting)


async def read_first_inferences(connection: Connection, ids: Sequence[str]) -> Mapping[str, FirstInference]:
    """Those that there are, by id."""
    rows = await connection.fetch(_FIRST, ids, min(ids), max(ids)) if ids else []
    return {
        row["id"]: FirstInference(
            *(row["id"], row["experiment"], row["experiment_unit"], row["experiment_version"], row["episode_kind"], row["arm"]),
            *(row["team_id"], row["end_user"], _decode_tags(row["tags"] or "{}")),
        )
        for row in rows
    }


async def measure_units(connection: Connection, windows: Sequence[Window]) -> list[UnitSummary]:
    """Returns the sums over each unit's inferences, in the order of `windows`."""
    if not windows:
        return []
    columns = [[*column] for column in zip(*windows, strict=True)]
    rows = await connection.fetch(_MEASURE, list(range(len(windows))), *columns)
    by_position = {row["at"]: row for row in rows}
    return [_to_summary(by_position[at]) for at in range(len(windows))]


async def measure_feedback(connection: Connection, windows: Sequence[FeedbackWindow]) -> Sequence[Mapping[str, int]]:
    """Returns the mean value by metric, in millionths, in the order of `windows`."""
    if not windows:
        return ()
    rows = await connection.fetch(
        _FEEDBACK,
        list(range(len(windows))),
        [each.window.experiment for each in windows],
        [each.window.unit for each in windows],
        [each.window.first for each in windows],
        [each.window.until for each in windows],
        [each.since for each in windows],
        [each.until for each in windows],
        [msgspec.json.encode(each.metrics).decode() for each in windows],
    )
    means: list[dict[str, int]] = [{} for _ in windows]
    for row in rows:
        means[row["at"]][row["metric"]] = rounded_mean(int(row["total"]), row["events"])
    return means


def rounded_mean(total: int, count: int) -> int:
    """Returns the mean, rounded to the nearest integer, halves upwards: the same whoever computes it."""
    return (2 * total + count) // (2 * count)


def _to_summary(row: Any) -> UnitSummary:
    # Sums over bigint are numeric, and of no rows null.
    sums = [int(row[name] or 0) for name in UnitSummary.__struct_fields__[7:]]
    counts = row["inferences"], row["episodes"], row["served_by_other"]
    return UnitSummary(row["excluded"], *counts, row["error"], row["schema_failure"], row["refusal"], *sums)
