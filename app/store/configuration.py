"""Configuration from a file: `apply` makes Postgres say what the file says, `export` writes the file that says what it says."""

import asyncio
import difflib
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from sqlalchemy import Table, delete, func, select, text, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from app import uuid7
from app.domain import Directory, Limit, Price, TeamConfig
from app.store import directory, keys, tables
from app.store.checks import check, warnings
from app.store.database import transaction
from app.store.directory import price_key
from app.store.file import BadConfiguration, File, read_file, write_file
from app.store.key_terms import BadKey, check_team
from app.store.limit_checks import Known

T = TypeVar("T")
K = TypeVar("K")

_KEY_LETTERS = 12
_NAMING = ("name = ", "provider = ", "model = ", "since = ")


class State(Struct, frozen=True):
    """All that a file can say. Teams are beside the directory: there may be many, and a caller carries theirs."""

    directory: Directory
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
    """Upserts what the file says, and with `prune` removes, in the sections it has, what it does not say; teams are never removed.

    `confirm` is shown the difference first, and below it warnings of what is probably not meant; for these, `output_tokens` is the
    setting for models that do not say it themselves. Returns, in a sentence, what came of it, once every worker serves it (or `wait_s`
    is over). Raises BadConfiguration, with nothing changed.
    """
    file = read_file(content)
    _check_teams(file)
    async with transaction(database_url) as connection:
        now = await _read(connection)
        known = await _known(connection, file, now, output_tokens)
    wanted = _merged(now, file, prune=prune)
    check(wanted.directory)
    if wanted.directory.hash == now.directory.hash and wanted.teams == now.teams:
        return "Nothing to change."
    shown = [_difference(now, wanted), *(f"Warning: {each}" for each in warnings(wanted.directory, known))]
    # Asked outside of any transaction: a person may take their time, and nobody should wait for them behind a lock.
    if not confirm("\n".join(shown)):
        return "Nothing was changed."
    async with transaction(database_url) as connection:
        # The lock makes two applies take turns; what the first changed after our diff was shown must not be lost unseen.
        await connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('narthex directory'))"))
        changed = {name: team for name, team in wanted.teams.items() if now.teams.get(name) != team}
        if changed:
            await keys.take_turns(connection)
        teams = await _read_teams(connection, changed)
        if await directory.read_version(connection) != now.directory.version or teams != {
            name: team for name, team in now.teams.items() if name in changed
        }:
            raise BadConfiguration("The configuration was changed by somebody else in the meantime: run this again to see the difference.")
        await _store_teams(connection, changed, now.teams)
        await _store(connection, tables.providers, now.directory.providers, wanted.directory.providers)
        await _store(connection, tables.models, now.directory.models, wanted.directory.models)
        await _store_limits(connection, now.directory.limits, wanted.directory.limits)
        await _store_prices(connection, now.directory.prices, wanted.directory.prices)
        # Of teams alone too: it is what tells another apply that the difference it has shown is out of date.
        version = await directory.announce(connection)
    return f"Applied as version {version}; {await wait_for_workers(database_url, version, wait_s)}"


async def current(database_url: str) -> Directory:
    """All that is in force, stored credentials included, encrypted."""
    async with transaction(database_url) as connection:
        return (await _read(connection)).directory


async def export(database_url: str) -> str:
    async with transaction(database_url) as connection:
        now = await _read(connection)
    return write_file(now.directory, now.teams)


async def _read(connection: AsyncConnection) -> State:
    await connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
    try:
        return State(await directory.read(connection), await _read_teams(connection))
    except msgspec.ValidationError as fault:
        raise BadConfiguration(f"A newer version has written the configuration that is there, so use that one: {fault}.") from None


async def _read_teams(connection: AsyncConnection, names: Mapping[str, Any] | None = None) -> dict[str, TeamConfig]:
    """All, or those of these names that there are, which nobody else changes then until the end of the transaction."""
    query = select(tables.teams.c.name, tables.teams.c.content)
    if names is not None:
        query = query.where(tables.teams.c.name.in_(list(names))).with_for_update()
    rows = await connection.execute(query)
    return dict(sorted((row.name, msgspec.convert({"content": row.content}, TeamConfig)) for row in rows))


def _check_teams(file: File) -> None:
    for name in file.teams or ():
        try:
            check_team(name)
        except BadKey as fault:
            raise BadConfiguration(f"teams.{name!r:.60}: {fault}") from None


async def _known(connection: AsyncConnection, file: File, now: State, output_tokens: int | None) -> Known:
    named = {limit.scope.get("key", "each") for limit in (*now.directory.limits, *(file.limits or ()))}
    prefixes = {name.removeprefix("nx-") for name in named if len(name) == len("nx-") + _KEY_LETTERS}
    found = await connection.scalars(select(tables.keys.c.prefix).where(tables.keys.c.prefix.in_(prefixes)))
    return Known({*now.teams, *(file.teams or ())}, {f"nx-{prefix}" for prefix in found}, output_tokens)


def _merged(now: State, file: File, *, prune: bool) -> State:
    old = now.directory
    wanted = directory.assemble(
        old.version,
        dict(sorted(_section(old.providers, file.providers, prune=prune).items())),
        dict(sorted(_section(old.models, file.models, prune=prune).items())),
        list(_section(_by_name(old.limits), None if file.limits is None else _by_name(file.limits), prune=prune).values()),
        list(_section(_by_key(old.prices), None if file.prices is None else _by_key(file.prices), prune=prune).values()),
        old.credentials,
    )
    return State(wanted, dict(sorted({**now.teams, **(file.teams or {})}.items())))


def _section(old: Mapping[K, T], new: Mapping[K, T] | None, *, prune: bool) -> dict[K, T]:
    if new is None:
        return dict(old)
    return {**({} if prune else old), **new}


def _by_name(limits: tuple[Limit, ...]) -> dict[str, Limit]:
    return {limit.name: limit for limit in limits}


def _by_key(prices: tuple[Price, ...]) -> dict[tuple[str, str, str], Price]:
    return {price_key(price): price for price in prices}


def _difference(now: State, wanted: State) -> str:
    """Table by table, each whole: of two rules it is told which is which, and ten thousand of them are compared in a moment."""
    old, new = ({_heading(table): table for table in write_file(each.directory, each.teams).split("\n\n")} for each in (now, wanted))
    told = ["--- now", "+++ then"]
    for heading in dict.fromkeys([*old, *new]):
        before, after = (tables.get(heading, "").splitlines() for tables in (old, new))
        if before != after:
            told += ["", *list(difflib.unified_diff(before, after, lineterm="", n=len(before)))[3:]]
    return "\n".join(told) if len(told) > 2 else "Only the order of limits changes."


def _heading(table: str) -> tuple[str, ...]:
    """What tells a table from others: its heading, and for those in lists their names."""
    lines = table.splitlines()
    return (*lines[:1], *(line for line in lines if line.startswith(_NAMING) and table.startswith("[[")))


async def _store(connection: AsyncConnection, table: Table, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    for name in old.keys() - new.keys():
        await connection.execute(table.delete().where(table.c.name == name))
    for name, config in new.items():
        if old.get(name) != config:
            row = insert(table).values(name=name, config=msgspec.to_builtins(config))
            await connection.execute(
                row.on_conflict_do_update(index_elements=["name"], set_={"config": row.excluded.config, "updated_at": func.now()})
            )


async def _store_teams(connection: AsyncConnection, changed: Mapping[str, TeamConfig], now: Mapping[str, TeamConfig]) -> None:
    for name, team in changed.items():
        row = insert(tables.teams).values(id=uuid7.mint(), name=name, content=team.content)
        await connection.execute(row.on_conflict_do_update(index_elements=["name"], set_={"content": row.excluded.content}))
    if changed.keys() & now.keys():
        await keys.notify(connection)  # what is kept of a team's asks is part of what workers remember of every key of it


async def _store_limits(connection: AsyncConnection, old: tuple[Limit, ...], new: tuple[Limit, ...]) -> None:
    limits, before = tables.limits, {limit.name: (position, limit) for position, limit in enumerate(old)}
    gone = before.keys() - {limit.name for limit in new}
    changed = [
        {"name": limit.name, "position": position, "config": msgspec.to_builtins(limit)}
        for position, limit in enumerate(new)
        if before.get(limit.name) != (position, limit)
    ]
    if gone:
        await connection.execute(delete(limits).where(limits.c.name.in_(gone)))
    if changed:
        row = insert(limits)
        kept = {"position": row.excluded.position, "config": row.excluded.config, "updated_at": func.now()}
        await connection.execute(row.on_conflict_do_update(index_elements=["name"], set_=kept), changed)


async def _store_prices(connection: AsyncConnection, old: tuple[Price, ...], new: tuple[Price, ...]) -> None:
    prices, before, after = tables.prices, _by_key(old), _by_key(new)
    key = tuple_(prices.c.provider, prices.c.model, prices.c.since)
    gone = before.keys() - after.keys()
    changed = [
        {"provider": provider, "model": model, "since": since, "config": msgspec.to_builtins(price)}
        for (provider, model, since), price in after.items()
        if before.get((provider, model, since)) != price
    ]
    if gone:
        await connection.execute(delete(prices).where(key.in_(gone)))
    if changed:
        row = insert(prices)
        kept = {"config": row.excluded.config, "updated_at": func.now()}
        await connection.execute(row.on_conflict_do_update(index_elements=["provider", "model", "since"], set_=kept), changed)


async def wait_for_workers(database_url: str, version: int, wait_s: float) -> str:
    """How many serve a version, once all do or `wait_s` is over: the end of a sentence. Who was not seen for a minute counts as gone."""
    workers = tables.workers
    alive = workers.c.seen_at > func.now() - text("interval '60 seconds'")
    until = time.monotonic() + wait_s
    while True:
        async with transaction(database_url) as connection:
            behind = await connection.scalar(select(func.count()).where(alive, workers.c.version < version))
            served = await connection.scalar(select(func.count()).where(alive, workers.c.version >= version))
        if not behind:
            return f"{served} worker{'s serve' if served != 1 else ' serves'} it."
        if time.monotonic() > until:
            return f"{behind} worker(s) have not taken it up within {wait_s:.0f} s: see their logs."
        await asyncio.sleep(0.05)
