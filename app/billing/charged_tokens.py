"""The charges of one day, summed up by who was charged, by what served, by price and by kind of token."""

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import ColumnElement, RowMapping, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.domain.prices import Price
from app.store.postgres import tables

DAY = datetime.timedelta(days=1)
_MAX_PRICE_CHANGES = 20_000


class ChargedGroup(Struct, frozen=True):
    """Attempts of a UTC day that are alike."""

    day: datetime.date
    team_id: str
    team: str | None  # None: it was deleted from the database
    key_id: str
    key: str | None  # its public part; None: it was deleted from the database
    provider: str
    model: str
    reported_model: str | None
    price: str | None  # the name of the price used; None: there was none, or it was not recorded
    tier: str | None
    region: str | None
    step: int  # how many of the price's steps the input exceeded
    hours: int  # which of the price's hours held, counted from 1; 0: none
    requests: int
    duration_us: int
    cost_microusd: int | None  # None: unknown
    tokens: Mapping[str, int]  # by kind, each token once, of what the host bills; see app/billing/cost.py
    tool_uses: Mapping[str, int] = {}  # by name, what is billed by the use


class PricedTimes(Struct, frozen=True):
    """The hours of a price as the query reads them: days of the week as Postgres counts them (Monday: 1), and minutes of the day."""

    days: Sequence[int]
    start: int
    end: int


KINDS = (
    *("input", "cached_input", "cache_write", "cache_write_hour", "cache_write_12_hours"),
    *("audio_input", "image_input", "output", "audio_output"),
)
_GROUPED = "team_id, key_id, provider, model, reported_model, price, tier, region, step, hours"

_PARTS = """
    WITH single AS (
        SELECT team_id, key_id, served_provider AS provider, served_model AS model, reported_model, price, cost_microusd AS cost,
            coalesce(input_tokens, 0)::bigint AS input, coalesce(output_tokens, 0)::bigint AS output,
            coalesce(cached_tokens, 0)::bigint AS cached, usage_details AS details, coalesce(served_us, duration_us) AS duration_us,
            received_at
        FROM inferences
        WHERE id >= CAST(:begin AS uuid) AND id < CAST(:end AS uuid) AND charges IS NULL AND served_provider IS NOT NULL {condition}
    ), several AS (
        SELECT team_id, key_id, charge ->> 'provider' AS provider, charge ->> 'model' AS model,
            charge ->> 'reported_model' AS reported_model, charge ->> 'price' AS price,
            CASE WHEN cost_microusd IS NOT NULL THEN (charge ->> 'cost_microusd')::bigint END AS cost,
            coalesce((charge -> 'usage' ->> 'input')::bigint, 0) AS input,
            coalesce((charge -> 'usage' ->> 'output')::bigint, 0) AS output,
            coalesce((charge -> 'usage' ->> 'cached')::bigint, 0) AS cached, charge -> 'usage' AS details,
            coalesce((charge ->> 'duration_us')::bigint, 0) AS duration_us,
            received_at
        FROM inferences, jsonb_array_elements(charges) AS charge
        WHERE id >= CAST(:begin AS uuid) AND id < CAST(:end AS uuid) AND charges IS NOT NULL {charge_condition}
    ), parts AS (
        SELECT *, details ->> 'tier' AS tier, details ->> 'region' AS region,
            coalesce((details ->> 'billed_input')::bigint, input) AS total_input,
            coalesce((details ->> 'billed_output')::bigint, output) AS total_output,
            CASE WHEN details ? 'billed_input' THEN 0 ELSE least(cached, input) END AS cached_part,
            CASE WHEN details ? 'billed_input' THEN 0 ELSE coalesce((details ->> 'cache_written_hour')::bigint, 0) END AS hour_part,
            CASE WHEN details ? 'billed_input' THEN 0 ELSE coalesce((details ->> 'cache_written_12_hours')::bigint, 0) END AS half_day_part,
            CASE WHEN details ? 'billed_input' THEN 0 ELSE greatest(0, coalesce((details ->> 'cache_written')::bigint, 0)
                - coalesce((details ->> 'cache_written_hour')::bigint, 0)
                - coalesce((details ->> 'cache_written_12_hours')::bigint, 0)) END AS write_part,
            CASE WHEN details ? 'billed_input' THEN 0 ELSE coalesce((details ->> 'audio_input')::bigint, 0) END AS audio_part,
            CASE WHEN details ? 'billed_input' THEN 0 ELSE coalesce((details ->> 'image_input')::bigint, 0) END AS image_part,
            CASE WHEN details ? 'billed_output' THEN 0
                ELSE least(output, coalesce((details ->> 'audio_output')::bigint, 0)) END AS audio_output_part,
            CASE WHEN CAST(:steps AS jsonb) ? price THEN (
                SELECT count(*) FROM jsonb_array_elements_text(CAST(:steps AS jsonb) -> price) AS above
                WHERE input / coalesce((details ->> 'requests')::bigint, 1) > above::bigint
            ) ELSE 0 END AS step,
            CASE WHEN CAST(:hours AS jsonb) ? price THEN coalesce((
                SELECT min(position) FROM jsonb_array_elements(CAST(:hours AS jsonb) -> price) WITH ORDINALITY AS times (entry, position)
                WHERE entry -> 'days' @> to_jsonb(extract(isodow FROM received_at AT TIME ZONE 'UTC')::int)
                    AND minute >= (entry ->> 'start')::int AND minute < (entry ->> 'end')::int
            ), 0) ELSE 0 END AS hours
        FROM (
            SELECT *, (extract(hour FROM received_at AT TIME ZONE 'UTC') * 60 + extract(minute FROM received_at AT TIME ZONE 'UTC'))::int
                AS minute
            FROM (SELECT * FROM single UNION ALL SELECT * FROM several) AS both_kinds
        ) AS every
    )
"""
_GROUP = """
    {parts}
    SELECT {grouped}, count(*) AS requests,
        sum(duration_us)::bigint AS duration_us, sum(cost)::bigint AS cost,
        sum(greatest(0, total_input - cached_part - hour_part - half_day_part - write_part - audio_part - image_part))::bigint AS input,
        sum(cached_part)::bigint AS cached_input, sum(write_part)::bigint AS cache_write, sum(hour_part)::bigint AS cache_write_hour,
        sum(half_day_part)::bigint AS cache_write_12_hours,
        sum(audio_part)::bigint AS audio_input, sum(image_part)::bigint AS image_input,
        sum(total_output - audio_output_part)::bigint AS output, sum(audio_output_part)::bigint AS audio_output
    FROM parts GROUP BY {grouped}, cost IS NULL
    ORDER BY {grouped}, cost IS NULL
"""
_TOOL_USES = """
    {parts}
    SELECT {grouped}, cost IS NULL AS is_unpriced, used.key AS use, sum(used.value::bigint)::bigint AS uses
    FROM parts, jsonb_each_text(details -> 'tool_uses') AS used
    WHERE details ? 'tool_uses'
    GROUP BY {grouped}, is_unpriced, used.key
"""


async def read_charged_groups(
    connection: AsyncConnection,
    day: datetime.date,
    steps: Mapping[str, Sequence[int]],
    providers: Sequence[str] | None = None,
    hours: Mapping[str, Sequence[PricedTimes]] | None = None,
) -> list[ChargedGroup]:
    """The groups of a UTC day.

    `steps` and `hours` have the thresholds and times of prices, by their names. Only the groups of `providers` are read, if there are any.
    """
    begin, end = (uuid7.lowest_at(int(_midnight(each).timestamp() * 1000)) for each in (day, day + DAY))
    values: dict[str, Any] = {"begin": begin, "end": end}
    values |= {"steps": msgspec.json.encode(steps).decode(), "hours": msgspec.json.encode(hours or {}).decode()}
    condition = charge_condition = ""
    if providers is not None:
        condition, charge_condition = "AND served_provider = any(:providers)", "AND charge ->> 'provider' = any(:providers)"
        values["providers"] = list(providers)
    query = {"parts": _PARTS.format(condition=condition, charge_condition=charge_condition), "grouped": _GROUPED}
    rows = (await connection.execute(text(_GROUP.format(**query)), values)).mappings().all()
    uses: dict[tuple[Any, ...], dict[str, int]] = {}
    for row in (await connection.execute(text(_TOOL_USES.format(**query)), values)).mappings():
        uses.setdefault((*_group_of(row), row["is_unpriced"]), {})[row["use"]] = row["uses"]
    teams = await _names(connection, tables.teams.c.id, tables.teams.c.name, {str(row["team_id"]) for row in rows})
    keys = await _names(connection, tables.keys.c.id, "nx-" + tables.keys.c.prefix, {str(row["key_id"]) for row in rows})
    return [
        ChargedGroup(
            day=day,
            team_id=str(row["team_id"]),
            team=teams.get(str(row["team_id"])),
            key_id=str(row["key_id"]),
            key=keys.get(str(row["key_id"])),
            provider=row["provider"],
            model=row["model"],
            reported_model=row["reported_model"],
            price=row["price"],
            tier=row["tier"],
            region=row["region"],
            step=row["step"],
            hours=row["hours"],
            requests=row["requests"],
            duration_us=row["duration_us"],
            cost_microusd=row["cost"],
            tokens={kind: row[kind] for kind in KINDS if row[kind]},
            tool_uses=uses.get((*_group_of(row), row["cost"] is None), {}),
        )
        for row in rows
    ]


def _group_of(row: RowMapping) -> tuple[Any, ...]:
    return tuple(row[name] for name in _GROUPED.split(", "))


async def read_price_versions(connection: AsyncConnection) -> dict[tuple[str, str, str], list[Price]]:
    """The prices by provider, model and first day (empty: always): the one that is configured, then earlier versions, the newest first."""
    versions: dict[tuple[str, str, str], list[Price]] = {}
    for (config,) in await connection.execute(select(tables.prices.c.config)):
        _add_version(versions, config)
    changes = tables.configuration_changes.c
    query = select(changes.before, changes.after).where(changes.section == "prices")
    for row in await connection.execute(query.order_by(changes.version.desc()).limit(_MAX_PRICE_CHANGES)):
        for config in (row.after, row.before):
            if config is not None:
                _add_version(versions, config)
    return versions


def _add_version(versions: dict[tuple[str, str, str], list[Price]], config: Any) -> None:
    try:
        price = msgspec.convert(config, Price)
    except msgspec.ValidationError:  # of a version of the gateway that had other fields
        return
    known = versions.setdefault((price.provider, price.model, price.since or ""), [])
    if price not in known:
        known.append(price)


async def _names(connection: AsyncConnection, id: ColumnElement[Any], name: ColumnElement[Any], ids: set[str]) -> dict[str, str]:
    return {row[0]: row[1] for row in await connection.execute(select(id, name).where(id.in_(ids)))}


def _midnight(day: datetime.date) -> datetime.datetime:
    return datetime.datetime.combine(day, datetime.time(), datetime.UTC)
