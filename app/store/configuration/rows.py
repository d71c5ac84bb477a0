"""The rows of the configuration: reads the state that a file can set, and stores what differs from it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import Table, and_, bindparam, delete, func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.domain.callers import TeamConfig
from app.domain.errors import BadConfiguration
from app.domain.limits import Limit
from app.domain.prices import Price
from app.domain.snapshot import Snapshot
from app.process.thread_steps import run_in_steps
from app.store.configuration import snapshots
from app.store.configuration.limit_heirs import find_heirs, keep_counters, read_counters
from app.store.configuration.limit_positions import place_limits
from app.store.configuration.snapshots import StoredConfiguration
from app.store.configuration.validation.limits import counted_subject
from app.store.configuration.validation.paths import price_key
from app.store.keys.rows import notify_workers
from app.store.keys.team_columns import COLUMNS, from_team_columns, team_columns
from app.store.postgres import tables
from app.store.postgres.batches import execute_in_batches
from app.store.postgres.conditions import one_of


class State(Struct, frozen=True):
    """Everything that a file can set. Teams are not in the snapshot: there may be many, and a Caller carries its team's settings."""

    snapshot: Snapshot
    teams: Mapping[str, TeamConfig]


async def lock_configuration(connection: AsyncConnection) -> None:
    """Wait until no other transaction changes what a file can set, and keep others from it until the end of this one."""
    await connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('narthex directory'))"))


async def read_state(connection: AsyncConnection) -> State:
    """Decoded beside the event loop. Raises BadConfiguration for what a newer version of Narthex has written."""
    stored = await snapshots.read_stored(connection)
    return State(await run_in_steps(lambda: _decode(stored)), await read_teams(connection))


def _decode(stored: StoredConfiguration) -> Snapshot:
    try:
        return snapshots.decode(stored)
    except msgspec.ValidationError as fault:
        raise BadConfiguration(f"The configuration was written by a newer version of Narthex, so use that version: {fault}.") from None


async def read_teams(connection: AsyncConnection, names: Mapping[str, Any] | None = None) -> dict[str, TeamConfig]:
    """All teams, or the existing ones of `names`, which are then locked until the end of the transaction."""
    query = select(tables.teams.c.name, *COLUMNS)
    if names is not None:
        query = query.where(one_of(tables.teams.c.name, names)).with_for_update()
    rows = await connection.execute(query)
    return dict(sorted((row.name, from_team_columns(row)) for row in rows))


def by_name(limits: tuple[Limit, ...]) -> dict[str, Limit]:
    return {limit.name: limit for limit in limits}


def by_price_key(prices: tuple[Price, ...]) -> dict[tuple[str, str, str], Price]:
    return {price_key(price): price for price in prices}


async def store_table(connection: AsyncConnection, table: Table, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    await _delete(connection, table, [{"name": name} for name in old.keys() - new.keys()])
    changed = ({"name": name, "config": msgspec.to_builtins(config)} for name, config in new.items() if old.get(name) != config)
    await _upsert(connection, table, ["name"], ["config"], changed)


async def store_teams(connection: AsyncConnection, changed: Mapping[str, TeamConfig]) -> None:
    row = insert(tables.teams)
    rows = ({"id": uuid7.mint(), "name": name, **team_columns(team)} for name, team in changed.items())
    updates = {column.name: row.excluded[column.name] for column in COLUMNS}
    await execute_in_batches(connection, row.on_conflict_do_update(index_elements=["name"], set_=updates), rows)
    await notify_workers(connection)  # workers cache a team's settings with every key of it


async def store_limits(
    connection: AsyncConnection, old: tuple[Limit, ...], new: tuple[Limit, ...]
) -> tuple[dict[str, int], dict[str, int]]:
    """Store limits; the positions of all before, and of all after."""
    before, after = by_name(old), by_name(new)
    stored, counters = await read_limit_positions(connection), await read_counters(connection)
    positions = await run_in_steps(lambda: place_limits([limit.name for limit in new], stored))
    heirs = find_heirs(before, after, counters)
    changed = (
        {"name": limit.name, "position": positions[limit.name], "config": msgspec.to_builtins(limit)}
        for limit in new
        if before.get(limit.name) != limit or stored.get(limit.name) != positions[limit.name]
    )
    await _upsert(connection, tables.limits, ["name"], ["position", "config"], changed)
    restarted = [limit.name for limit in new if limit.name not in before or counted_subject(before[limit.name]) != counted_subject(limit)]
    # A moment before workers have it, as this transaction has yet to be committed: what is counted too much is nothing.
    of_rule = update(tables.limits).where(tables.limits.c.name == bindparam("key_name"))
    rows = ({"key_name": name} for name in restarted)
    await execute_in_batches(connection, of_rule.values(counted_since=func.clock_timestamp()), rows)
    await keep_counters(connection, heirs, restarted, counters)
    await _delete(connection, tables.limits, [{"name": name} for name in before.keys() - positions.keys()])
    return stored, positions


async def read_limit_positions(connection: AsyncConnection) -> dict[str, int]:
    return {row.name: row.position for row in await connection.execute(select(tables.limits.c.name, tables.limits.c.position))}


async def store_prices(connection: AsyncConnection, old: tuple[Price, ...], new: tuple[Price, ...]) -> None:
    names = ("provider", "model", "since")
    before, after = by_price_key(old), by_price_key(new)
    await _delete(connection, tables.prices, [dict(zip(names, key, strict=True)) for key in before.keys() - after.keys()])
    changed = (
        {**dict(zip(names, key, strict=True)), "config": msgspec.to_builtins(price)}
        for key, price in after.items()
        if before.get(key) != price
    )
    await _upsert(connection, tables.prices, names, ["config"], changed)


async def _upsert(
    connection: AsyncConnection, table: Table, key: Sequence[str], changing: Sequence[str], rows: Iterable[Mapping[str, Any]]
) -> None:
    row = insert(table)
    updates = {**{name: row.excluded[name] for name in changing}, "updated_at": func.now()}
    await execute_in_batches(connection, row.on_conflict_do_update(index_elements=key, set_=updates), rows)


async def _delete(connection: AsyncConnection, table: Table, keys: Sequence[Mapping[str, str]]) -> None:
    if keys:
        condition = and_(*(table.c[name] == bindparam(f"key_{name}") for name in keys[0]))
        rows = ({f"key_{name}": value for name, value in key.items()} for key in keys)
        await execute_in_batches(connection, delete(table).where(condition), rows)
