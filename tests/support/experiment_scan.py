"""Sums over the units of experiments by a scan of all records, in plain Python: what the kept sums must equal exactly."""

import datetime
import json
from collections import defaultdict
from collections.abc import Mapping
from fractions import Fraction
from math import floor
from typing import Any

from app.store.postgres.database import connect

BUILT_IN = ("error", "schema_failure", "refusal", "latency", "time_to_first_token", "cost", "input_tokens", "output_tokens")
EXCLUDING = ("pinned", "ineligible", "late", "future")
GRACE_MS = 5_000


def made_ms(id: str) -> int:
    return int(id.replace("-", "")[:12], 16)


def nearest(fraction: Fraction) -> int:
    return floor(fraction + Fraction(1, 2))


async def scan(database: str) -> tuple[dict[Any, list[int]], dict[Any, list[int]]]:
    """Sums and counts by their keys, as they are in experiment_sums and experiment_counts. Covariates are not compared."""
    connection = await connect(database)
    try:
        experiments = await connection.fetch(
            "SELECT experiments.id::text, name, definition, number"
            " FROM experiments JOIN experiment_versions ON experiment_id = experiments.id"
        )
        inferences = await connection.fetch(
            "SELECT *, id::text AS id_text, episode_id::text AS episode_text, team_id::text AS team_text FROM inferences"
            " WHERE experiment_unit IS NOT NULL ORDER BY id"
        )
        feedback = await connection.fetch(
            "SELECT *, id::text AS id_text, target_id::text AS target, team_id::text AS team_text FROM feedback"
            " WHERE is_current AND number IS NOT NULL"
        )
        now_ms = int((await connection.fetchval("SELECT now()")).timestamp() * 1000)
    finally:
        await connection.close()
    of_version = {(row["name"], row["number"]): (row["id"], json.loads(row["definition"])) for row in experiments}
    by_unit: dict[tuple[str, str], list[Any]] = defaultdict(list)
    definitions: dict[str, Any] = {}
    for row in inferences:
        found = of_version.get((row["experiment"], row["experiment_version"]))
        if found is not None:
            by_unit[found[0], row["experiment_unit"]].append(row)
            definitions[found[0]] = found[1]
    on_target: dict[tuple[str, str, str], list[Any]] = defaultdict(list)
    for row in feedback:
        on_target[row["level"], row["team_text"], row["target"]].append(row)
    sums: dict[Any, list[int]] = defaultdict(lambda: [0] * 6)
    counts: dict[Any, list[int]] = defaultdict(lambda: [0] * 7)
    for (experiment_id, _), rows in by_unit.items():
        _add_unit(experiment_id, definitions[experiment_id], rows, on_target, now_ms, sums, counts)
    return dict(sums), dict(counts)


def _add_unit(
    experiment_id: str,
    definition: Mapping[str, Any],
    rows: list[Any],
    on_target: Mapping[tuple[str, str, str], list[Any]],
    now_ms: int,
    sums: dict[Any, list[int]],
    counts: dict[Any, list[int]],
) -> None:
    analysis = definition["analysis"]
    metrics = analysis.get("metrics") or list(BUILT_IN)
    window_ms, feedback_ms = analysis.get("window_minutes", 60) * 60_000, analysis.get("feedback_hours", 24) * 3_600_000
    enrolled = [row for row in rows if row["not_enrolled"] is None]
    if not enrolled:
        return
    first = enrolled[0]
    first_ms = made_ms(first["id_text"])
    kind = (first["episode_kind"] or "") if definition["unit"] == "episode" else ""
    place = (first["experiment_version"], kind, first["variant"])
    day = datetime.datetime.fromtimestamp(first_ms / 1000, datetime.UTC).date()
    count = counts[experiment_id, *place, day]
    is_measured = now_ms >= first_ms + window_ms + GRACE_MS
    excluding = EXCLUDING if definition["unit"] == "episode" else [each for each in EXCLUDING if each != "ineligible"]
    near = [row for row in rows if first_ms - window_ms <= made_ms(row["id_text"]) < first_ms + window_ms]
    if not is_measured:
        count[0] += 1
        return
    if any(row["not_enrolled"] in excluding for row in near):
        count[1] += 1
        return
    window = [row for row in near if row["not_enrolled"] is None]
    has_feedback = any(metric not in BUILT_IN for metric in metrics)
    is_complete = now_ms >= first_ms + GRACE_MS + (feedback_ms if has_feedback else window_ms)
    episodes = {row["episode_text"] for row in window}
    by_other = sum(row["served_variant"] not in (None, row["variant"]) for row in window)
    for at, added in enumerate((1, 0, 1, int(is_complete), len(window), len(episodes), by_other)):
        count[at] += added
    values = {metric: _outcome(metric, window) if metric in BUILT_IN else None for metric in metrics}
    if is_complete:
        targets = {("inference", row["team_text"], row["id_text"]) for row in window}
        targets |= {("episode", row["team_text"], row["episode_text"]) for row in window}
        events = [event for target in targets for event in on_target.get(target, ())]
        for metric in metrics:
            of_metric = [
                Fraction(round(max(-1e12, min(1e12, event["number"])) * 1_000_000))
                for event in events
                if event["metric"] == metric and first_ms - 86_400_000 <= made_ms(event["id_text"]) < first_ms + feedback_ms
            ]
            if of_metric:
                values[metric] = nearest(sum(of_metric, Fraction()) / len(of_metric))
    tags = json.loads(first["tags"] or "{}")
    for metric, value in values.items():
        if value is None:
            continue
        scale = 1 if metric in ("input_tokens", "output_tokens") else 1_000_000
        cap = analysis.get("caps", {}).get(metric)
        y = value if cap is None else min(value, round(cap * scale))
        for slice, of_slice in [("", ""), *((name, tags.get(name, "")) for name in analysis.get("slices", ()))]:
            into = sums[experiment_id, metric, slice, of_slice, *place]
            for at, added in enumerate((1, y, y * y, y == 0, y == scale, value)):
                into[at] += int(added)


def _failed_over(row: Any) -> bool:
    """The assigned arm failed, and another one answered."""
    attempts = json.loads(row["attempts"] or "[]")
    return row["served_variant"] not in (None, row["variant"]) and bool(attempts) and attempts[0]["error"] is not None


def _outcome(metric: str, rows: list[Any]) -> int | None:
    attempts = [each for row in rows for each in json.loads(row["attempts"] or "[]")]
    match metric:
        case "error":
            return 1_000_000 * any(row["outcome"] in ("failed", "aborted") or _failed_over(row) for row in rows)
        case "schema_failure":
            is_one = any(each["error"] == "ConstraintViolation" for each in [*rows, *attempts])
            return 1_000_000 * is_one
        case "refusal":
            return 1_000_000 * (
                any(row["finish_reason"] == "content_filter" for row in rows) or any(each["code"] == "content_filter" for each in attempts)
            )
        case "latency":
            return nearest(Fraction(sum(row["duration_us"] for row in rows), len(rows)))
        case "time_to_first_token":
            first_tokens = [row["first_token_us"] for row in rows if row["first_token_us"] is not None]
            return nearest(Fraction(sum(first_tokens), len(first_tokens))) if first_tokens else None
        case "cost":
            costs = [row["cost_microusd"] for row in rows]
            return None if None in costs else sum(costs)
        case _:
            return sum(row["charged_input" if metric == "input_tokens" else "charged_output"] for row in rows)


async def assert_sums_equal_a_scan(database: str) -> int:
    """Asserts that the kept sums equal a scan of all records.

    Returns over how many units that was, by the metric that most of them have.
    """
    sums, counts = await scan(database)
    connection = await connect(database)
    try:
        kept_sums = {
            tuple(row.values())[:7]: [int(value) for value in tuple(row.values())[7:]]
            for row in await connection.fetch(
                "SELECT experiment_id::text, metric, slice, value, version, episode_kind, arm, n, y, yy, zeros, ones, uncapped"
                " FROM experiment_sums WHERE n <> 0"
            )
        }
        left = await connection.fetch("SELECT * FROM experiment_sums WHERE n = 0 AND (y, yy, x, xx, xy, uncapped) <> (0, 0, 0, 0, 0, 0)")
        kept_counts = {
            tuple(row.values())[:5]: [int(value) for value in tuple(row.values())[5:]]
            for row in await connection.fetch(
                "SELECT experiment_id::text, version, episode_kind, arm, day, units, excluded, measured, complete, inferences, episodes,"
                " served_by_other FROM experiment_counts WHERE units <> 0 OR excluded <> 0"
            )
        }
    finally:
        await connection.close()
    wanted = {key: value for key, value in sums.items() if value[0]}
    differences = [_differences(kept_counts, counts), _differences(kept_sums, wanted), left]
    assert not any(differences), f"kept and scanned differ: {differences}"
    return max((value[0] for value in sums.values()), default=0)


def _differences(kept: Mapping[Any, list[int]], scanned: Mapping[Any, list[int]]) -> Mapping[Any, Any]:
    return {key: (kept.get(key), scanned.get(key)) for key in {**kept, **scanned} if kept.get(key) != scanned.get(key)}
