"""Queries of rollups: sums and quantiles by time and group."""

# Only names of this module become SQL; every value is a parameter.
# ruff: noqa: S608

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.errors import InvalidKeyField
from app.process.thread_steps import in_steps, run_in_steps
from app.store.postgres import spools
from app.store.postgres.conditions import AnyOf, values_of
from app.store.usage.analytics_query import MAX_GROUPS, AnalyticsQuery, is_subject
from app.store.usage.analytics_rows import Analytics, AnalyticsRow, Quantiles
from app.store.usage.named_filters import NamedFilters, check_excluded, check_named
from app.store.usage.rollup_rows import RollupRows
from app.store.usage.rollups import REFUSED
from app.store.usage.sketches import COUNT_BITS, quantiles
from app.store.usage.uncounted_inferences import count_uncounted

_FRACTIONS = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
_COUNT_MASK = (1 << COUNT_BITS) - 1

_REQUESTS = f"coalesce(sum(requests) FILTER (WHERE outcome <> '{REFUSED}'), 0)"
_SUMS: Mapping[str, str] = {
    "requests": _REQUESTS,
    "refused": f"coalesce(sum(requests) FILTER (WHERE outcome = '{REFUSED}'), 0)",
    "failed": "coalesce(sum(requests) FILTER (WHERE outcome = 'failed'), 0)",
    "input_tokens": "sum(input_tokens)",
    "output_tokens": "sum(output_tokens)",
    "cached_tokens": "sum(cached_tokens)",
    "reasoning_tokens": "sum(reasoning_tokens)",
    "cost_microusd": "sum(cost_microusd)",
    "estimated_microusd": "sum(estimated_microusd)",
    "unpriced": "sum(unpriced)",
    "mean_duration_us": f"sum(duration_us) / greatest({_REQUESTS}, 1)",
    "max_duration_us": "max(max_duration_us)",
}
_SELECTED_SUMS = ", ".join(f"{sum} AS sum_of_{name}" for name, sum in _SUMS.items())

Key = tuple[Any, ...]


async def read_analytics(connection: AsyncConnection, query: AnalyticsQuery, *, only_teams: Collection[str] | None = None) -> Analytics:
    """Rows by time and group, within a transaction. Raises InvalidKeyField.

    `only_teams` leaves those of teams with these names; None means all.
    """
    # Compiling a plan takes longer than these queries do.
    await connection.execute(text("SET LOCAL jit = off"))
    stored_until = await spools.stored_until(connection)
    reader = _Reader(connection, query, only_teams)
    groups, has_more = await reader.top_groups()
    rows = await reader.rows(groups)
    if not rows and REFUSED not in values_of(query.filters.get("outcome")):  # what is refused may have any name
        await check_named(connection, _named_filters(query.filters), only_teams)
    await check_excluded(connection, _named_filters(query.excluded), only_teams)
    if query.fill:
        unfilled = rows
        rows = await run_in_steps(lambda: reader.filled(unfilled, groups))
    until = query.end if stored_until is None else min(stored_until, query.end)
    return Analytics(
        query.begin.astimezone(query.zone).isoformat(),
        query.end.astimezone(query.zone).isoformat(),
        None if stored_until is None else until.astimezone(query.zone).isoformat(timespec="seconds"),
        await count_uncounted(connection, query.begin, query.end, only_teams),
        query.interval,
        query.time_zone,
        query.group_by,
        rows,
        has_more,
    )


def _named_filters(values: Mapping[str, AnyOf]) -> NamedFilters:
    wanted = values.get
    return NamedFilters(
        team=wanted("team"), key=wanted("key"), model=wanted("model"), function=wanted("function"), provider=wanted("provider")
    )


class _Reader:
    """Builds and runs the statements of one query."""

    def __init__(self, connection: AsyncConnection, query: AnalyticsQuery, only_teams: Collection[str] | None) -> None:
        self._connection = connection
        self._query = query
        self._labels = [f"d{at}" for at in range(len(query.group_by))]
        self._rows = RollupRows(query, only_teams)
        self._sums: dict[Key, list[int]] = {}

    async def top_groups(self) -> tuple[list[Key], bool]:
        """The groups to show, and whether there are more."""
        query = self._query
        if not query.group_by:
            return [()], False
        if query.order_by == "p95_duration_us":
            return await self._slowest_groups()
        labels, order = ", ".join(self._labels), _SUMS[query.order_by]
        # With an interval, rows() reads the sums of those that are shown.
        statement = (
            f"SELECT {labels}, {_SELECTED_SUMS if query.interval is None else order} FROM ({self._rows.plain()}) AS read GROUP BY {labels}"
            f" ORDER BY {order} DESC, {labels} LIMIT {query.limit + 1}"
        )
        rows = await self._fetch(statement)
        width = len(self._labels)
        groups = [tuple(row[:width]) for row in rows[: query.limit]]
        if query.interval is None:
            self._sums = {key: _integers(row[width:]) for key, row in zip(groups, rows, strict=False)}
        self._rows.choose_subjects({key[at] for key in groups for at, name in enumerate(query.group_by) if is_subject(name)})
        return groups, len(rows) > query.limit

    async def rows(self, groups: Sequence[Key]) -> list[AnalyticsRow]:
        """The rows of these groups: by time if there is an interval, else in the order of the groups."""
        query = self._query
        sums_by_key = self._sums or await self._read_sums(groups)
        durations, first_tokens = (
            (await self._quantiles("duration_sketch", groups), await self._quantiles("first_token_sketch", groups))
            if query.quantiles
            else ({}, {})
        )
        keys: Sequence[Key] = list(sums_by_key)
        if query.interval is None:
            keys = [key for key in groups if key in sums_by_key]
        make = self._row
        return await run_in_steps(
            lambda: [make(key, sums_by_key[key], durations.get(key), first_tokens.get(key)) for key in in_steps(keys)]
        )

    def filled(self, rows: Sequence[AnalyticsRow], groups: Sequence[Key]) -> list[AnalyticsRow]:
        """The rows of these groups, and one of zeros for each interval in which a group has none."""
        names = self._query.group_by
        found = {(row.time, *(row.group[name] for name in names)): row for row in rows}
        filled: list[AnalyticsRow] = []
        for at in in_steps(self._query.interval_begins()):
            for group in groups:
                key = (at, *group)
                row = self._row(key, [0] * len(_SUMS), None, None)
                filled.append(found.get((row.time, *(row.group[name] for name in names)), row))
        return filled

    async def _read_sums(self, groups: Sequence[Key]) -> dict[Key, list[int]]:
        names = [*self._time_labels(), *self._labels]
        grouping = f" GROUP BY {', '.join(names)} ORDER BY {', '.join(names)}" if names else ""
        selected = ", ".join([*names, _SELECTED_SUMS])
        found = await self._fetch(
            f"SELECT {selected} FROM ({self._rows.plain()}) AS read{self._among(groups)}{grouping}", self._group_arguments(groups)
        )
        width = len(names)
        sums_by_key = {tuple(row[:width]): _integers(row[width:]) for row in found}
        return {key: sums for key, sums in sums_by_key.items() if any(sums)}  # one without groups may be of nothing

    def _row(self, key: Key, sums: Sequence[int], duration: Quantiles | None, first_token: Quantiles | None) -> AnalyticsRow:
        query = self._query
        times = len(self._time_labels())
        group = {name: value or None for name, value in zip(query.group_by, key[times:], strict=True)}
        time = key[0].astimezone(query.zone).isoformat(timespec="seconds") if times else None
        nothing = Quantiles(None, None, None, None) if query.quantiles else None
        return AnalyticsRow(
            time=time, group=group, duration=duration or nothing, first_token=first_token or nothing, **dict(zip(_SUMS, sums, strict=True))
        )

    async def _slowest_groups(self) -> tuple[list[Key], bool]:
        limit = self._query.limit
        labels = ", ".join(self._labels)
        groups = [
            tuple(row) for row in await self._fetch(f"SELECT DISTINCT {labels} FROM ({self._rows.plain()}) AS read LIMIT {MAX_GROUPS + 1}")
        ]
        if len(groups) > MAX_GROUPS:
            raise InvalidKeyField("order_by", f"There are more than {MAX_GROUPS} groups to order by a quantile: add a filter.")
        found = await self._quantiles("duration_sketch", groups, by_time=False)
        groups.sort(key=lambda key: (-((found[key].p95 if key in found else None) or 0), key))
        return groups[:limit], len(groups) > limit

    async def _quantiles(self, sketch: str, groups: Sequence[Key], *, by_time: bool = True) -> dict[Key, Quantiles]:
        times = self._time_labels() if by_time else []
        names = ", ".join([*times, *self._labels])
        comma = f"{names}, " if names else ""
        grouping = f" GROUP BY {names}" if names else ""
        # Without OFFSET, what is selected would be computed for each entry of a sketch in place of each sketch.
        read = f"SELECT * FROM ({self._rows.signed(sketch)}) AS read{self._among(groups)} OFFSET 0"
        entries = f"SELECT {comma}sign, unnest({sketch}) AS entry FROM ({read}) AS read"
        buckets = (
            f"SELECT {comma}entry >> {COUNT_BITS} AS bucket, sum(sign * (entry & {_COUNT_MASK}))::bigint AS count"
            f" FROM ({entries}) AS entries GROUP BY {comma}bucket"
        )
        rows = await self._fetch(
            f"SELECT {comma}array_agg(bucket), array_agg(count) FROM ({buckets}) AS buckets WHERE count > 0{grouping}",
            self._group_arguments(groups),
        )
        width = len(times) + len(self._labels)
        return await asyncio.to_thread(_read_quantiles, [tuple(row) for row in rows], width)

    def _time_labels(self) -> list[str]:
        return [] if self._query.interval is None else ["at"]

    def _among(self, groups: Sequence[Key]) -> str:
        if not self._labels:
            return ""
        arrays = ", ".join(f"CAST(:groups{at} AS text[])" for at in range(len(self._labels)))
        return f" WHERE ({', '.join(self._labels)}) IN (SELECT * FROM unnest({arrays}))"

    def _group_arguments(self, groups: Sequence[Key]) -> dict[str, Any]:
        return {f"groups{at}": [group[at] for group in groups] for at in range(len(self._labels))}

    async def _fetch(self, statement: str, arguments: Mapping[str, Any] | None = None) -> Sequence[Any]:
        return (await self._connection.execute(text(statement), {**self._rows.parameters, **(arguments or {})})).all()


def _integers(row: Sequence[Any]) -> list[int]:
    return [int(each or 0) for each in row]


def _read_quantiles(rows: Sequence[tuple[Any, ...]], width: int) -> dict[Key, Quantiles]:
    found: dict[Key, Quantiles] = {}
    for row in rows:
        buckets, counts = row[width:]
        if buckets:
            values = quantiles(dict(zip(buckets, counts, strict=True)), tuple(_FRACTIONS.values()))
            found[row[:width]] = Quantiles(*values)
    return found
