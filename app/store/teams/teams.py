"""Teams: list them with their number of valid keys; set how much of their content is recorded, what may be dropped, and more."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, get_args

from msgspec.structs import asdict, replace
from sqlalchemy import Row, Select, delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.domain.callers import ContentPolicy, TeamConfig
from app.domain.complete_record import complete_record
from app.domain.errors import InvalidKeyField
from app.store.configuration.difference import EntryChange, to_entry
from app.store.configuration.history import publish_changes
from app.store.configuration.rows import lock_configuration
from app.store.configuration.validation.team_restrictions import check_restrictions
from app.store.keys.rows import lock_changes, notify_workers, valid_key_conditions
from app.store.keys.team_columns import COLUMNS, RESTRICTIONS, from_team_columns, team_columns
from app.store.postgres import tables
from app.store.postgres.audit_log import SYSTEM, Author
from app.store.postgres.conditions import one_of
from app.store.postgres.database import Database, transaction
from app.store.postgres.name_forms import check_form, explain_homograph, find_homograph
from app.store.postgres.names import check_priority, check_team
from app.store.postgres.paging import Keyset, Page, PageQuery, SortColumn

_keys, _teams = tables.keys, tables.teams


class Team(complete_record(TeamConfig), frozen=True):
    """A team, with its settings. `id`: the `team_id` of its inferences. `keys`: how many of its keys are valid."""

    id: str
    name: str
    created_at: str
    keys: int


_KEYSET = Keyset({"name": SortColumn(_teams.c.name), "created_at": SortColumn(_teams.c.created_at, datetime)}, SortColumn(_teams.c.name))


async def list_teams(database: Database, *, limit: int | None = None, with_drop: bool = False) -> list[Team]:
    """All teams by name. `with_drop` leaves only those with the option `drop`."""
    query = _select_rows().order_by(_teams.c.name).limit(limit)
    if with_drop:
        query = query.where(_teams.c.drop.is_not(None))
    async with transaction(database) as connection:
        return [_to_row(row) for row in await connection.execute(query)]


async def page_teams(connection: AsyncConnection, query: PageQuery, *, only: Collection[str] | None, search: str | None) -> Page[Team]:
    """A page of teams. `only` leaves those of these names; None means all. `search` leaves those with this text in their names, in any
    case.
    """
    selected = _select_rows()
    if only is not None:
        selected = selected.where(one_of(_teams.c.name, only))
    if search is not None:
        selected = selected.where(_teams.c.name.icontains(search, autoescape=True))
    rows = (await connection.execute(_KEYSET.page_query(selected, query))).all()
    return _KEYSET.page(rows, query, _to_row)


async def find_team(connection: AsyncConnection, name: str, *, lock: bool = False) -> Team | None:
    """The team with this name. With `lock` nobody else changes it until the end of the transaction."""
    if lock:
        await lock_configuration(connection)
        await lock_changes(connection)
    row = (await connection.execute(_select_rows().where(_teams.c.name == name))).one_or_none()
    return None if row is None else _to_row(row)


async def delete_team(connection: AsyncConnection, name: str, *, author: Author = SYSTEM) -> bool:
    """Delete a team that never had a key. Returns False if it had: its records and costs would belong to nobody."""
    await lock_configuration(connection)
    await lock_changes(connection)
    old = await show_team(connection, name)
    of_team = _teams.c.name == name
    has_keys = select(_keys.c.id).join(_teams, _teams.c.id == _keys.c.team_id).where(of_team).limit(1)
    if old is None or await connection.scalar(has_keys) is not None:
        return False
    await connection.execute(delete(_teams).where(of_team))
    await publish_changes(connection, author, [EntryChange("teams", name, to_entry(old), None)])
    return True


def _select_rows() -> Select[Any]:
    valid_keys = select(func.count()).where(_keys.c.team_id == _teams.c.id, *valid_key_conditions()).scalar_subquery()
    return select(_teams, valid_keys.label("keys"))


def _to_row(row: Row[Any]) -> Team:
    return Team(row.id, row.name, row.created_at.isoformat(), row.keys, **asdict(from_team_columns(row)))


async def set_team(database: Database, name: str, *, author: Author = SYSTEM, **settings: Any) -> TeamConfig:
    """Create or change a team; returns it as it is now. Raises InvalidKeyField.

    `settings` are fields of TeamConfig; the others stay, or are at their defaults in a new team.
    """
    check_team(name)
    if (content := settings.get("content", "full")) not in get_args(ContentPolicy):
        raise InvalidKeyField("content", f"A team's `content` may be {', '.join(get_args(ContentPolicy))}, not {content!r:.60}.")
    check_priority(settings.get("priority", 0))
    async with transaction(database) as connection:
        await lock_configuration(connection)
        wanted = replace(await show_team(connection, name) or TeamConfig(), **settings)
        if not settings.keys().isdisjoint(RESTRICTIONS):
            check_restrictions(wanted)
        return await upsert_team(connection, author, name, team_columns(wanted, settings))


async def upsert_team(connection: AsyncConnection, author: Author, name: str, values: Mapping[str, Any]) -> TeamConfig:
    """Create a team, or change columns of it, in the caller's transaction; returns it as it is then."""
    await lock_configuration(connection)
    await lock_changes(connection)
    old = await show_team(connection, name)
    if old is None:
        await _check_new_name(connection, name)
    team_insert = insert(_teams).values(id=uuid7.mint(), name=name, **values)
    # The name: without any value there would be no row to return.
    updates = {column: team_insert.excluded[column] for column in (*values, "name")}
    upsert = team_insert.on_conflict_do_update(index_elements=["name"], set_=updates)
    await connection.execute(upsert)
    await notify_workers(connection)  # even if nothing differs it is a new version of the keys
    after = await show_team(connection, name)
    assert after is not None, "it was stored in this transaction"
    if old != after:
        await publish_changes(connection, author, [EntryChange("teams", name, to_entry(old), to_entry(after))])
    return after


async def _check_new_name(connection: AsyncConnection, name: str) -> None:
    """Raises InvalidKeyField for a name that no path can have, or that looks like another team's."""
    if (fault := check_form(name)) is not None:
        raise InvalidKeyField("team", fault)
    other = find_homograph(name, await connection.scalars(select(_teams.c.name)))
    if other is not None:
        raise InvalidKeyField("team", explain_homograph(name, other))


async def show_team(connection: AsyncConnection, name: str) -> TeamConfig | None:
    row = (await connection.execute(select(*COLUMNS).where(_teams.c.name == name.replace("\0", "")))).one_or_none()
    return None if row is None else from_team_columns(row)
