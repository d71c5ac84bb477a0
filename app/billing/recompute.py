"""Costs computed again at the prices that are configured now, in chunks: each is one transaction, and a repeated one changes nothing."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy.ext.asyncio import AsyncConnection

from app.billing.cost import cost_units, round_together
from app.billing.price_index import PriceIndex
from app.domain import uuid7
from app.domain.exchange import ChargeBasis
from app.recording.rows.inference_rows import MAX_COST_MICROUSD
from app.recording.rows.rollup_sums import RollupSummer
from app.recording.rows.usage_sums import sum_usage
from app.recording.writes.cost_changes import (
    CostChange,
    InferenceRange,
    apply_cost_changes,
    driver_connection,
    lock_inferences,
    read_prices,
)
from app.recording.writes.inference_writes import USAGE_COLUMNS
from app.store.postgres.audit_log import AuditEvent, Author, record
from app.store.postgres.database import create_database_engine
from app.store.postgres.inference_columns import INFERENCE_COLUMNS
from app.store.usage.named_filters import NamedFilters, check_named
from app.store.usage.rollups import RollupSums, subtract_rollups
from providers.canonical.chat import Usage

_COST, _GROUPS = INFERENCE_COLUMNS.index("cost_microusd"), 4  # the first columns of usage name the group

_CHUNK_TIMEOUT_S = 300.0


class _StoredCharge(Struct, frozen=True):
    """An entry of `charges`, as it is stored."""

    provider: str
    model: str
    usage: "_StoredUsage"
    basis: ChargeBasis
    cost_microusd: int | None = None
    price: str | None = None
    reported_model: str | None = None
    duration_us: int = 0
    continues: bool = False


class _StoredUsage(Usage, frozen=True, array_like=False):
    """Usage as an object, without what is null."""


class Recomputed(Struct, frozen=True):
    """The changes that a chunk made.

    `run` is the recomputation that the chunk belongs to. `skipped` counts the inferences that cannot be
    priced again, because there is no price now or too little was recorded of them. `next` is the last
    inference that was looked at; the next chunk goes on from it. None means that this was the last chunk.
    `before_microusd` and `after_microusd` are the costs of the inferences that matched, as far as they are
    known.
    """

    run: str
    matched: int
    changed: int
    skipped: int
    before_microusd: int
    after_microusd: int
    next: str | None


async def recompute_chunk(connection: AsyncConnection, author: Author, run: str, inferences: InferenceRange, limit: int) -> Recomputed:
    """Price the first `limit` inferences of a range again, in the connection's transaction, with its audit event."""
    prices = PriceIndex(await read_prices(connection))
    driver = await driver_connection(connection)
    rows, last = await lock_inferences(driver, inferences, limit)
    if not rows and inferences.after is None:
        named = NamedFilters(team=inferences.team, model=inferences.model, provider=inferences.provider)
        await check_named(connection, named)
    found = await asyncio.to_thread(_reprice_all, rows, prices)
    changed = [(row, change) for row, change in found if change is not None and _differs(change)]
    before = [row[_COST] or 0 for row in rows]
    after = [(row[_COST] if change is None else change.new_microusd) or 0 for row, change in found]
    result = Recomputed(run, len(rows), len(changed), [change for _, change in found].count(None), sum(before), sum(after), last)
    if changed:
        old_rows = [row for row, _ in changed]
        new_rows = [(*row[:_COST], change.new_microusd, *row[_COST + 1 :]) for row, change in changed]
        summer = RollupSummer(driver)
        rollups: RollupSums = subtract_rollups(await summer.sum(new_rows), await summer.sum(old_rows))
        usage = _subtract_usage(sum_usage(new_rows), sum_usage(old_rows))
        await apply_cost_changes(driver, author, run, [change for _, change in changed], usage, rollups)
        filters = {name: value for name in ("model", "provider", "team") if (value := getattr(inferences, name)) is not None}
        period = {"since": inferences.since.isoformat(), "until": inferences.until.isoformat()}
        summary = {**period, **filters, **{key: value for key, value in msgspec.structs.asdict(result).items() if key != "run"}}
        await record(connection, author, AuditEvent("recompute", "cost", run, None, summary))
    return result


async def recompute_all(
    database_url: str, author: Author, inferences: InferenceRange, *, dry_run: bool = False, chunk: int = 5000
) -> Recomputed:
    """Every chunk of a range, each in a transaction of its own; their results together, whose `next` is None.

    With `dry_run` each is rolled back. It may be interrupted, and be called again.
    """
    run, total = uuid7.mint(), Recomputed("", 0, 0, 0, 0, 0, None)
    database = create_database_engine(database_url, command_timeout_s=_CHUNK_TIMEOUT_S)
    try:
        while True:
            async with database.connect() as connection:
                done = await recompute_chunk(connection, author, run, inferences, chunk)
                await (connection.rollback() if dry_run else connection.commit())
            total = Recomputed(
                run,
                total.matched + done.matched,
                total.changed + done.changed,
                total.skipped + done.skipped,
                total.before_microusd + done.before_microusd,
                total.after_microusd + done.after_microusd,
                None,
            )
            if done.next is None:
                return total
            inferences = replace(inferences, after=done.next)
    finally:
        await database.dispose()


def _differs(change: CostChange) -> bool:
    return change.new_microusd != change.old_microusd or change.new_price != change.old_price


def _reprice_all(rows: Sequence[tuple[Any, ...]], prices: PriceIndex) -> list[tuple[tuple[Any, ...], CostChange | None]]:
    return [(row, _reprice(dict(zip(INFERENCE_COLUMNS, row, strict=True)), prices)) for row in rows]


def _reprice(row: Mapping[str, Any], prices: PriceIndex) -> CostChange | None:
    """Returns the change of an inference's cost, or None if it cannot be priced again."""
    charges = _charges_of(row)
    if charges is None:
        return None
    repriced = price_charges(charges, prices, row["received_at"].timestamp())
    if repriced is None:
        return None
    cost = min(MAX_COST_MICROUSD, sum(each.cost_microusd or 0 for each in repriced))
    new_charges = None if row["charges"] is None else encode_charges(repriced)
    price = next((each.price for each in reversed(repriced) if not each.continues), None)
    return CostChange(row["id"], row["cost_microusd"], cost, row["price"], price, new_charges)


def price_charges(charges: Sequence[_StoredCharge], prices: PriceIndex, at_s: float) -> list[_StoredCharge] | None:
    """Prices charges as app/gateway/state/charges.py does: the parts of one response are rounded together.

    Returns None if the price of one charge is unknown.
    """
    repriced: list[_StoredCharge] = []
    units: list[int] = []
    own_name: str | None = None
    for at, charge in enumerate(charges):
        if not charge.continues:
            own_name = charge.reported_model
        if charge.continues and charge.reported_model not in (None, own_name):
            found = prices.find(charge.provider, charge.reported_model, at_s)  # of another model, which has no other name
        else:
            found = prices.find_served(charge.provider, charge.model, at_s, charge.reported_model)
        priced = None if found is None else cost_units(as_usage(charge.usage), found.price, charge.duration_us, at_s)
        if found is None or priced is None:
            return None
        units.append(priced)
        repriced.append(replace(charge, price=found.name))
        if at + 1 == len(charges) or not charges[at + 1].continues:
            for part, amount in zip(range(len(repriced) - len(units), len(repriced)), round_together(units), strict=True):
                repriced[part] = replace(repriced[part], cost_microusd=min(MAX_COST_MICROUSD, amount))
            units = []
    return repriced


def _charges_of(row: Mapping[str, Any]) -> Sequence[_StoredCharge] | None:
    """Returns the charges of an inference, which are empty if nothing is charged.

    Returns None if too little was recorded, before there was `charges`.
    """
    if row["charges"] is not None:
        return decode_charges(row["charges"])
    if row["charged_input"] is None:
        return None
    if row["charge_basis"] is None and not row["charged_input"] and not row["charged_output"]:
        return ()
    is_older = row["served_us"] is None
    if row["served_provider"] is None or (is_older and (row["attempts"] is not None or row["charge_basis"] not in (None, "reported"))):
        return None
    details: dict[str, Any] = {} if row["usage_details"] is None else msgspec.json.decode(row["usage_details"])
    usage = _StoredUsage(
        **{"input": row["input_tokens"], "output": row["output_tokens"], "cached": row["cached_tokens"]},
        **{"reasoning": row["reasoning_tokens"], **details},
    )
    duration_us = row["duration_us"] if is_older else row["served_us"]
    charge = _StoredCharge(row["served_provider"], row["served_model"], usage, row["charge_basis"] or "reported")
    return [replace(charge, reported_model=row["reported_model"], duration_us=duration_us)]


def as_usage(stored: _StoredUsage) -> Usage:
    return Usage(*[getattr(stored, name) for name in Usage.__struct_fields__])


_charges_decoder = msgspec.json.Decoder(list[_StoredCharge])


def decode_charges(charges: str) -> list[_StoredCharge]:
    return _charges_decoder.decode(charges)


def encode_charges(charges: Sequence[_StoredCharge]) -> str:
    """Encodes charges as app/recording/rows/inference_rows.py writes them."""
    return msgspec.json.encode([{**_set_fields(each), "usage": _set_fields(each.usage)} for each in charges]).decode()


def _set_fields(struct: Struct) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(struct).items() if value is not None and value != ()}


def _subtract_usage(new: Sequence[tuple[Any, ...]], old: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The difference, by group. Both have the same groups."""
    before = {row[:_GROUPS]: row[_GROUPS:] for row in old}
    assert USAGE_COLUMNS[:_GROUPS] == ["key_id", "hour", "team_id", "model"]
    return [(*row[:_GROUPS], *(now - then for now, then in zip(row[_GROUPS:], before[row[:_GROUPS]], strict=True))) for row in new]
