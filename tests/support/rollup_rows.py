"""Stored rollups, compared with a scan of all inferences."""

import datetime
import json
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from app.store.postgres.database import connect
from app.store.postgres.tables import rollup_tables, subject_rollup_tables
from app.store.usage.sketches import COUNT_BITS, bucket_of

GROUP = ("team_id", "key_id", "route", "model", "function", "variant", "provider", "served_model", "status", "outcome", "error", "rule")
_SUMS = (
    "requests",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "reasoning_tokens",
    "cost_microusd",
    "estimated_microusd",
    "unpriced",
)
_MAXIMA = (len(_SUMS) + 1, len(_SUMS) + 2)
_LEVELS = ("minute", "hour", "day")
_EMPTY = {"team_id": "None", "key_id": "None", "status": "0"}
_GROUP_COLUMNS: Mapping[str, Collection[str]] = {
    "": GROUP,
    "outcome": ("outcome",),
    "team": ("team_id", "outcome"),
    "key": ("team_id", "key_id", "outcome"),
    "target": ("model", "provider", "served_model", "outcome"),
}


async def assert_rollups_equal_a_scan(database: str, *, but_maxima_of_subjects: bool = False) -> Mapping[str, int]:
    """Compares every level; returns the number of its rows, by table. `but_maxima_of_subjects`: these may be too large."""
    connection = await connect(database)
    try:
        inferences = await connection.fetch("SELECT * FROM inferences")
        counts: dict[str, int] = {}
        for table in (*(each.name for each in rollup_tables.values()), *(each.name for each in subject_rollup_tables.values())):
            keys = ("dimension", "value") if table.startswith("subject") else ()
            stored = {
                (row["time"], *(row[name] for name in keys), *(_text(row[name]) for name in GROUP)): _row(row)
                for row in await connection.fetch(f"SELECT * FROM {table} JOIN rollup_groups ON id = group_id")
            }
            level, _, breadth = table.partition("_by_")[2].partition("_and_")
            scanned = _scan(inferences, level, by_subject=bool(keys), group_columns=_GROUP_COLUMNS[breadth])
            if keys and but_maxima_of_subjects:
                assert all(stored[key][at] >= row[at] for key, row in scanned.items() for at in _MAXIMA), table
                stored, scanned = ({key: _without_maxima(row) for key, row in rows.items()} for rows in (stored, scanned))
            assert stored == scanned, table
            counts[table] = len(stored)
        return counts
    finally:
        await connection.close()


def _scan(inferences: list[Any], level: str, *, by_subject: bool, group_columns: Collection[str]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    found: dict[tuple[Any, ...], list[Any]] = {}
    for row in inferences:
        for subject in _subjects(row) if by_subject else [()]:
            model = row["model"].removeprefix("tensorzero::model_name::").removeprefix("narthex::model_name::")
            group = (
                *(_text(row["team_id"]), _text(row["key_id"]), row["route"], model, row["function"] or "", row["variant"] or ""),
                *(row["served_provider"] or "", row["served_model"] or "", str(row["status"]), row["outcome"], row["error"] or "", ""),
            )
            group = tuple(value if name in group_columns else _EMPTY.get(name, "") for name, value in zip(GROUP, group, strict=True))
            found.setdefault((_begin(row["received_at"], level), *subject, *group), []).append(row)
    return {key: _summed(rows) for key, rows in found.items()}


def _summed(rows: list[Any]) -> tuple[Any, ...]:
    costs = [row["cost_microusd"] for row in rows]
    estimated = [row["cost_microusd"] or 0 for row in rows if row["charge_basis"] in ("received", "reserved")]
    tokens = (sum(row[name] or 0 for row in rows) for name in _SUMS[1:5])
    return (
        *(len(rows), *tokens, sum(each or 0 for each in costs), sum(estimated), costs.count(None)),
        *(sum(row["duration_us"] for row in rows), max(row["duration_us"] for row in rows), max(each or 0 for each in costs)),
        Counter(bucket_of(row["duration_us"]) for row in rows),
        Counter(bucket_of(row["first_token_us"]) for row in rows if row["first_token_us"] is not None),
    )


def _without_maxima(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(value for at, value in enumerate(row) if at not in _MAXIMA)


def _row(row: Any) -> tuple[Any, ...]:
    return (
        *(row[name] for name in _SUMS),
        *(row["duration_us"], row["max_duration_us"], row["max_cost_microusd"]),
        sketch_counts(row["duration_sketch"]),
        sketch_counts(row["first_token_sketch"]),
    )


def sketch_counts(sketch: list[int]) -> Counter[int]:
    counts: Counter[int] = Counter()
    for entry in sketch:
        counts[entry >> COUNT_BITS] += entry & ((1 << COUNT_BITS) - 1)
    return counts


def _subjects(row: Any) -> list[tuple[str, str]]:
    users = [("end_user", row["end_user"])] if row["end_user"] else []
    return users + [(f"tag:{name}", value) for name, value in json.loads(row["tags"] or "{}").items()]


def _begin(moment: datetime.datetime, level: str) -> datetime.datetime:
    begin = moment.replace(second=0, microsecond=0)
    if level == "minute":
        return begin
    return begin.replace(minute=0) if level == "hour" else begin.replace(minute=0, hour=0)


def _text(value: Any) -> str:
    return str(value)
