"""Costs that are computed again: the inferences of a range, what changes of them, and the history of that."""

import datetime
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import Select, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.domain.prices import Price
from app.recording.writes.inference_writes import adjust_usage
from app.store.experiment_units.touched_units import touch_inferences
from app.store.postgres import tables
from app.store.postgres.audit_log import Author
from app.store.postgres.inference_columns import ROW_EXPRESSIONS
from app.store.postgres.partitions import Connection
from app.store.usage.counted_models import model_names
from app.store.usage.rollups import RollupSums, adjust_rollups


class InferenceRange(Struct, frozen=True):
    """Inferences by id. A filter of None lets all of them through."""

    since: datetime.datetime
    until: datetime.datetime  # exclusive
    after: str | None = None  # exclusive; None means from the first on
    model: str | None = None  # as callers may name it
    provider: str | None = None  # of any attempt that was charged
    team: str | None = None  # its name


class CostChange(Struct, frozen=True):
    """A change of one inference."""

    inference_id: str
    old_microusd: int | None
    new_microusd: int | None
    old_price: str | None
    new_price: str | None
    charges: str | None = None  # as JSON; None if it has none


class RecordedCostChange(Struct, frozen=True):
    """A change as it is kept. `run` is the recomputation that it belongs to. A cost of null is unknown."""

    inference_id: str
    run: str
    at: datetime.datetime
    author: str
    old_cost_microusd: int | None
    new_cost_microusd: int | None
    old_price: str | None
    new_price: str | None


async def driver_connection(connection: AsyncConnection) -> Connection:
    """The asyncpg connection below, in the same transaction."""
    await connection.execute(select(1))  # SQLAlchemy begins the transaction with its first statement
    raw: Any = (await connection.get_raw_connection()).driver_connection
    return raw


async def read_prices(connection: AsyncConnection) -> tuple[Price, ...]:
    """The prices that are configured now."""
    rows = await connection.execute(select(tables.prices.c.config))
    return tuple(msgspec.convert(config, Price) for (config,) in rows)


async def lock_inferences(connection: Connection, inferences: InferenceRange, limit: int) -> tuple[list[tuple[Any, ...]], str | None]:
    """Rows of INFERENCE_COLUMNS, with UUIDs and JSON as text, of the first `limit` ids of a range; and the last of these ids.

    The filters choose among these: however few match, not more than `limit` are read. The id is None at the end of the range.
    """
    begin, end = (uuid7.lowest_at(int(each.timestamp() * 1000)) for each in (inferences.since, inferences.until))
    first = "AND id > $4::uuid" if inferences.after is not None else ""
    arguments = [begin, end, limit, *([] if inferences.after is None else [inferences.after])]
    ids = await connection.fetch(
        f"SELECT id::text FROM inferences WHERE id >= $1::uuid AND id < $2::uuid {first} ORDER BY id LIMIT $3",  # noqa: S608
        *arguments,
    )
    if not ids:
        return [], None
    low, high = ids[0]["id"], ids[-1]["id"]
    conditions, values = _conditions(inferences)
    rows = await connection.fetch(
        f"""
        SELECT {", ".join(ROW_EXPRESSIONS)} FROM inferences
        WHERE id >= $1::uuid AND id <= $2::uuid {conditions} ORDER BY id FOR UPDATE
        """,  # noqa: S608
        low,
        high,
        *values,
    )
    return [tuple(row) for row in rows], high if len(ids) == limit else None


def _conditions(inferences: InferenceRange) -> tuple[str, list[Any]]:
    conditions, values = "", list[Any]()
    if inferences.model is not None:
        values.append(model_names(inferences.model))
        conditions += f" AND model = any(${len(values) + 2}::text[])"
    if inferences.provider is not None:
        values += [inferences.provider, msgspec.json.encode([{"provider": inferences.provider}]).decode()]
        conditions += f" AND (served_provider = ${len(values) + 1} OR charges @> ${len(values) + 2}::jsonb)"
    if inferences.team is not None:
        values.append(inferences.team)
        conditions += f" AND team_id = (SELECT id FROM teams WHERE name = ${len(values) + 2})"  # noqa: S608
    return conditions, values


async def apply_cost_changes(
    connection: Connection,
    author: Author,
    run: str,
    changes: Sequence[CostChange],
    usage: Collection[tuple[Any, ...]],
    rollups: RollupSums,
) -> None:
    """Store changes of locked inferences, their history, and what they change of every kept sum, in one
    transaction.

    `usage` has rows of USAGE_COLUMNS, and `rollups` has sums; both are what is to be added to those stored,
    with negative numbers where costs fell. Whatever sums up costs belongs here, in the order in which the
    writer locks it.
    """
    if not changes:
        return
    ids = [each.inference_id for each in changes]
    costs = [[each.old_microusd for each in changes], [each.new_microusd for each in changes]]
    names = [[each.old_price for each in changes], [each.new_price for each in changes]]
    await connection.execute(
        """
        UPDATE inferences SET cost_microusd = changed.cost, price = changed.price, charges = coalesce(changed.charges, inferences.charges)
        FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::jsonb[]) AS changed (id, cost, price, charges)
        WHERE inferences.id = changed.id AND inferences.id >= $5::uuid AND inferences.id <= $6::uuid
        """,
        *(ids, costs[1], names[1], [each.charges for each in changes], min(ids), max(ids)),
    )
    await connection.execute(
        """
        INSERT INTO cost_changes
            (inference_id, run, author, old_cost_microusd, new_cost_microusd, old_price, new_price)
        SELECT id, $2::uuid, $3, old_cost, new_cost, old_price, new_price
        FROM unnest($1::uuid[], $4::bigint[], $5::bigint[], $6::text[], $7::text[])
            AS changed (id, old_cost, new_cost, old_price, new_price)
        """,
        *(ids, run, author.name, *costs, *names),
    )
    await touch_inferences(connection, ids)
    await adjust_rollups(connection, rollups)
    await adjust_usage(connection, usage)


async def list_cost_changes(
    connection: AsyncConnection, *, inference_id: str | None, run: str | None, after: tuple[str, str] | None, limit: int
) -> list[RecordedCostChange]:
    """List changes, the newest run first. `after` is run and inference of the last one that is known."""
    columns = tables.cost_changes.c
    query: Select[Any] = select(tables.cost_changes).order_by(columns.run.desc(), columns.inference_id.desc()).limit(limit)
    if inference_id is not None:
        query = query.where(columns.inference_id == inference_id)
    if run is not None:
        query = query.where(columns.run == run)
    if after is not None:
        query = query.where((columns.run < after[0]) | ((columns.run == after[0]) & (columns.inference_id < after[1])))
    return [_to_change(row._mapping) for row in await connection.execute(query)]  # pyright: ignore[reportPrivateUsage]


def _to_change(row: Mapping[Any, Any]) -> RecordedCostChange:
    return RecordedCostChange(**{name: row[name] for name in RecordedCostChange.__struct_fields__})
