"""Configuration files and Postgres: `apply` stores a file's content, `export` writes a file from what is stored."""

import asyncio
import difflib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from sqlalchemy import ARRAY, Column, ColumnElement, Table, Text, and_, bindparam, cast, delete, func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from app import uuid7
from app.domain import Limit, Price, Snapshot, TeamConfig
from app.store import keys, snapshots, tables
from app.store.config_file import ConfigFile, parse_config_file, write_file
from app.store.config_validation import check_drop, find_warnings, validate
from app.store.database import create_database_engine, transaction
from app.store.droppable_fields import drop_column, from_drop_column
from app.store.errors import BadConfiguration, InvalidKeyField
from app.store.key_validation import check_priority, check_team
from app.store.limit_validation import KnownNames, counted_subject
from app.store.snapshots import price_key

T = TypeVar("T")
K = TypeVar("K")

_KEY_PREFIX_CHARACTERS = 12
_IDENTIFYING_LINES = ("name = ", "provider = ", "model = ", "since = ")


class State(Struct, frozen=True):
    """Everything that a file can set. Teams are not in the snapshot: there may be many, and a Caller carries its team's settings."""

    snapshot: Snapshot
    teams: Mapping[str, TeamConfig]


async def apply(
    database_url: str,
    content: str,
    *,
    prune: bool,
    confirm: Callable[[str], bool],
    wait_s: float = 30.0,
    output_tokens: int | None = None,
) -> str:
    """Upsert the content of a file; with `prune` also remove what its sections lack, except teams.

    `confirm` is shown the difference first, followed by warnings about probable mistakes; these use `output_tokens`, the setting for
    models without one of their own. Returns the result as a sentence, once every worker serves it (or `wait_s` is over). Raises
    BadConfiguration, with nothing changed.
    """
    file = parse_config_file(content)
    _check_teams(file)
    async with transaction(database_url) as connection:
        current_state = await _read(connection)
        known_names = await _read_known_names(connection, file, current_state, output_tokens)
    wanted = _merge(current_state, file, prune=prune)
    validate(wanted.snapshot)
    if wanted.snapshot.hash == current_state.snapshot.hash and wanted.teams == current_state.teams:
        return "Nothing to change."
    message_lines = [
        _format_difference(current_state, wanted),
        *(f"Warning: {each}" for each in find_warnings(wanted.snapshot, known_names)),
    ]
    # Outside of any transaction: a person may take their time, and nobody should wait for them behind a lock.
    if not confirm("\n".join(message_lines)):
        return "Nothing was changed."
    async with transaction(database_url) as connection:
        # The lock serialises two applies; changes of the first after this one's difference was shown must not be overwritten unseen.
        await connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('narthex directory'))"))
        changed = {name: team for name, team in wanted.teams.items() if current_state.teams.get(name) != team}
        if changed:
            await keys.lock_changes(connection)
        teams = await _read_teams(connection, changed)
        if await snapshots.read_version(connection) != current_state.snapshot.version or teams != {
            name: team for name, team in current_state.teams.items() if name in changed
        }:
            raise BadConfiguration("Somebody else changed the configuration in the meantime: run this again to see the new difference.")
        await _store_teams(connection, changed, current_state.teams)
        await _store_table(connection, tables.providers, current_state.snapshot.providers, wanted.snapshot.providers)
        await _store_table(connection, tables.models, current_state.snapshot.models, wanted.snapshot.models)
        await _store_limits(connection, current_state.snapshot.limits, wanted.snapshot.limits)
        await _store_prices(connection, current_state.snapshot.prices, wanted.snapshot.prices)
        # Also if only teams changed: by the version another apply knows that the difference it has shown is out of date.
        version = await snapshots.publish_version(connection)
    return f"Applied as version {version}; {await wait_for_workers(database_url, version, wait_s)}"


async def read_current(database_url: str) -> Snapshot:
    """The configuration in force, with stored credentials, encrypted."""
    async with transaction(database_url) as connection:
        return (await _read(connection)).snapshot


async def export(database_url: str) -> str:
    async with transaction(database_url) as connection:
        current_state = await _read(connection)
    return write_file(current_state.snapshot, current_state.teams)


async def _read(connection: AsyncConnection) -> State:
    await connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
    try:
        return State(await snapshots.read_snapshot(connection), await _read_teams(connection))
    except msgspec.ValidationError as fault:
        raise BadConfiguration(f"The configuration was written by a newer version of Narthex, so use that version: {fault}.") from None


async def _read_teams(connection: AsyncConnection, names: Mapping[str, Any] | None = None) -> dict[str, TeamConfig]:
    """All teams, or the existing ones of `names`, which are then locked until the end of the transaction."""
    query = select(tables.teams.c.name, tables.teams.c.content, tables.teams.c.drop, tables.teams.c.priority)
    if names is not None:
        query = query.where(_one_of(tables.teams.c.name, names)).with_for_update()
    rows = await connection.execute(query)
    teams = ((row.name, {"content": row.content, "drop": from_drop_column(row.drop), "priority": row.priority}) for row in rows)
    return dict(sorted((name, msgspec.convert(team, TeamConfig)) for name, team in teams))


def _one_of(column: Column[str], values: Iterable[str]) -> ColumnElement[bool]:
    """As column.in_(), with one parameter: a statement has at most 32,767."""
    return column == func.any(cast(list(values), ARRAY(Text)))


def _check_teams(file: ConfigFile) -> None:
    for name, team in (file.teams or {}).items():
        try:
            check_team(name)
            check_priority(team.priority)
        except InvalidKeyField as fault:
            raise BadConfiguration(f"teams.{name!r:.60}: {fault}") from None
        check_drop(f"teams.{name}.drop", team.drop)


async def _read_known_names(connection: AsyncConnection, file: ConfigFile, current_state: State, output_tokens: int | None) -> KnownNames:
    key_names = {limit.scope.get("key", "each") for limit in (*current_state.snapshot.limits, *(file.limits or ()))}
    prefixes = {name.removeprefix("nx-") for name in key_names if len(name) == len("nx-") + _KEY_PREFIX_CHARACTERS}
    existing = await connection.scalars(select(tables.keys.c.prefix).where(_one_of(tables.keys.c.prefix, prefixes)))
    return KnownNames({*current_state.teams, *(file.teams or ())}, {f"nx-{prefix}" for prefix in existing}, output_tokens)


def _merge(current_state: State, file: ConfigFile, *, prune: bool) -> State:
    old = current_state.snapshot
    wanted = snapshots.build_snapshot(
        old.version,
        dict(sorted(_merge_section(old.providers, file.providers, prune=prune).items())),
        dict(sorted(_merge_section(old.models, file.models, prune=prune).items())),
        list(_merge_section(_by_name(old.limits), None if file.limits is None else _by_name(file.limits), prune=prune).values()),
        list(_merge_section(_by_key(old.prices), None if file.prices is None else _by_key(file.prices), prune=prune).values()),
        old.credentials,
    )
    return State(wanted, dict(sorted({**current_state.teams, **(file.teams or {})}.items())))


def _merge_section(old: Mapping[K, T], new: Mapping[K, T] | None, *, prune: bool) -> dict[K, T]:
    if new is None:
        return dict(old)
    return {**({} if prune else old), **new}


def _by_name(limits: tuple[Limit, ...]) -> dict[str, Limit]:
    return {limit.name: limit for limit in limits}


def _by_key(prices: tuple[Price, ...]) -> dict[tuple[str, str, str], Price]:
    return {price_key(price): price for price in prices}


def _format_difference(current_state: State, wanted: State) -> str:
    """A unified diff, table by table: each hunk shows a complete table. Only entries that change are written as text."""
    old, new = (
        {_heading(table): table for table in write_file(each.snapshot, each.teams).split("\n\n")}
        for each in _changed_entries(current_state, wanted)
    )
    lines = ["--- now", "+++ then"]
    for heading in dict.fromkeys([*old, *new]):
        before, after = (tables.get(heading, "").splitlines() for tables in (old, new))
        if before != after:
            lines += ["", *list(difflib.unified_diff(before, after, lineterm="", n=len(before)))[3:]]
    return "\n".join(lines) if len(lines) > 2 else "Only the order of limits changes."


def _changed_entries(current_state: State, wanted: State) -> tuple[State, State]:
    """Both states without the entries that are the same in both."""
    old, new = current_state.snapshot, wanted.snapshot
    teams = _differing(current_state.teams, wanted.teams)
    providers = _differing(old.providers, new.providers)
    models = _differing(old.models, new.models)
    limits = _differing(_by_name(old.limits), _by_name(new.limits))
    prices = _differing(_by_key(old.prices), _by_key(new.prices))
    before, after = (
        State(Snapshot(0, "", providers[at], models[at], tuple(limits[at].values()), tuple(prices[at].values())), teams[at])
        for at in (0, 1)
    )
    return before, after


def _differing(old: Mapping[K, T], new: Mapping[K, T]) -> tuple[dict[K, T], dict[K, T]]:
    return (
        {key: value for key, value in old.items() if key not in new or new[key] != value},
        {key: value for key, value in new.items() if key not in old or old[key] != value},
    )


def _heading(table: str) -> tuple[str, ...]:
    """What identifies a table: its heading, and for a table of a list its names."""
    lines = table.splitlines()
    return (*lines[:1], *(line for line in lines if line.startswith(_IDENTIFYING_LINES) and table.startswith("[[")))


async def _store_table(connection: AsyncConnection, table: Table, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    await _delete(connection, table, [{"name": name} for name in old.keys() - new.keys()])
    changed = [{"name": name, "config": msgspec.to_builtins(config)} for name, config in new.items() if old.get(name) != config]
    await _upsert(connection, table, ["name"], ["config"], changed)


async def _store_teams(connection: AsyncConnection, changed: Mapping[str, TeamConfig], existing: Mapping[str, TeamConfig]) -> None:
    if changed:
        row = insert(tables.teams)
        rows = [
            {"id": uuid7.mint(), "name": name, "content": team.content, "drop": drop_column(team.drop), "priority": team.priority}
            for name, team in changed.items()
        ]
        updates = {name: row.excluded[name] for name in ("content", "drop", "priority")}
        await connection.execute(row.on_conflict_do_update(index_elements=["name"], set_=updates), rows)
    if changed.keys() & existing.keys():
        await keys.notify_workers(connection)  # workers cache a team's settings with every key of it


async def _store_limits(connection: AsyncConnection, old: tuple[Limit, ...], new: tuple[Limit, ...]) -> None:
    before = {limit.name: (position, limit) for position, limit in enumerate(old)}
    await _delete(connection, tables.limits, [{"name": name} for name in before.keys() - {limit.name for limit in new}])
    changed = [
        {"name": limit.name, "position": position, "config": msgspec.to_builtins(limit)}
        for position, limit in enumerate(new)
        if before.get(limit.name) != (position, limit)
    ]
    await _upsert(connection, tables.limits, ["name"], ["position", "config"], changed)
    restarted = [
        {"key_name": limit.name}
        for limit in new
        if limit.name not in before or counted_subject(before[limit.name][1]) != counted_subject(limit)
    ]
    if restarted:
        # A moment before workers have it, as this transaction has yet to be committed: what is counted too much is nothing.
        of_rule = update(tables.limits).where(tables.limits.c.name == bindparam("key_name"))
        await connection.execute(of_rule.values(counted_since=func.clock_timestamp()), restarted)


async def _store_prices(connection: AsyncConnection, old: tuple[Price, ...], new: tuple[Price, ...]) -> None:
    names = ("provider", "model", "since")
    before, after = _by_key(old), _by_key(new)
    await _delete(connection, tables.prices, [dict(zip(names, key, strict=True)) for key in before.keys() - after.keys()])
    changed = [
        {**dict(zip(names, key, strict=True)), "config": msgspec.to_builtins(price)}
        for key, price in after.items()
        if before.get(key) != price
    ]
    await _upsert(connection, tables.prices, names, ["config"], changed)


async def _upsert(
    connection: AsyncConnection, table: Table, key: Sequence[str], changing: Sequence[str], rows: Sequence[Mapping[str, Any]]
) -> None:
    """All rows in one batch: a statement for each would wait for Postgres each time."""
    if rows:
        row = insert(table)
        updates = {**{name: row.excluded[name] for name in changing}, "updated_at": func.now()}
        await connection.execute(row.on_conflict_do_update(index_elements=key, set_=updates), rows)


async def _delete(connection: AsyncConnection, table: Table, keys: Sequence[Mapping[str, str]]) -> None:
    """A batch, too: a list in one statement has at most 32,767 values."""
    if keys:
        condition = and_(*(table.c[name] == bindparam(f"key_{name}") for name in keys[0]))
        await connection.execute(delete(table).where(condition), [{f"key_{name}": value for name, value in key.items()} for key in keys])


async def wait_for_workers(database_url: str, version: int, wait_s: float) -> str:
    """How many workers serve a version, once all do or `wait_s` is over, as the end of a sentence.

    A worker that was not seen for a minute counts as gone.
    """
    workers = tables.workers
    alive = workers.c.seen_at > func.now() - text("interval '60 seconds'")
    is_behind = workers.c.version < version
    counts = select(func.count().filter(is_behind), func.count().filter(~is_behind)).where(alive)
    deadline = time.monotonic() + wait_s
    database = create_database_engine(database_url, isolation_level="AUTOCOMMIT")
    try:
        async with database.connect() as connection:
            while True:
                behind, serving = (await connection.execute(counts)).one()
                if not behind:
                    return f"{serving} worker{'s serve' if serving != 1 else ' serves'} it."
                if time.monotonic() > deadline:
                    return f"{behind} worker(s) do not serve it after {wait_s:.0f} s: see their logs."
                await asyncio.sleep(0.05)
    finally:
        await database.dispose()
