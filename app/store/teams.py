"""Teams: list them with their number of valid keys; set how much of their content is recorded, what may be dropped, their priority."""

from collections.abc import Mapping
from typing import Any, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType
from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from app import uuid7
from app.domain import ContentPolicy, DroppableFields, TeamConfig
from app.store import tables
from app.store.audit_log import SYSTEM, Author
from app.store.configuration_difference import EntryChange
from app.store.configuration_history import publish_changes
from app.store.configuration_rows import lock_configuration
from app.store.database import Database, transaction
from app.store.droppable_fields import drop_column, from_drop_column
from app.store.errors import InvalidKeyField
from app.store.key_rows import lock_changes, notify_workers, valid_key_conditions
from app.store.key_validation import check_priority, check_team

_keys, _teams = tables.keys, tables.teams


class TeamRow(Struct, frozen=True):
    """`keys`: how many of its keys are valid. `created_at` as ISO 8601."""

    name: str
    content: ContentPolicy
    drop: DroppableFields
    priority: int
    created_at: str
    keys: int


async def list_teams(database: Database, *, after: str | None = None, limit: int | None = None, with_drop: bool = False) -> list[TeamRow]:
    """Teams by name, after the team `after`. `with_drop`: only those with the option `drop`."""
    valid_keys = select(func.count()).where(_keys.c.team_id == _teams.c.id, *valid_key_conditions()).scalar_subquery()
    query = select(_teams, valid_keys.label("keys")).order_by(_teams.c.name).limit(limit)
    if after is not None:
        query = query.where(_teams.c.name > after.replace("\0", ""))
    if with_drop:
        query = query.where(_teams.c.drop.is_not(None))
    async with transaction(database) as connection:
        return [
            TeamRow(row.name, row.content, from_drop_column(row.drop), row.priority, row.created_at.isoformat(), row.keys)
            for row in await connection.execute(query)
        ]


async def set_team(
    database: Database,
    name: str,
    content: ContentPolicy | UnsetType = UNSET,
    drop: DroppableFields | UnsetType = UNSET,
    priority: int | UnsetType = UNSET,
    *,
    author: Author = SYSTEM,
) -> TeamConfig:
    """Create or change a team; returns it as it is now. UNSET: unchanged, or the default of a new team. Raises InvalidKeyField."""
    check_team(name)
    if content is not UNSET and content not in get_args(ContentPolicy):
        raise InvalidKeyField("content", f"A team's `content` may be {', '.join(get_args(ContentPolicy))}, not {content!r:.60}.")
    values = {
        **({} if content is UNSET else {"content": content}),
        **({} if drop is UNSET else {"drop": drop_column(drop)}),
        **({} if priority is UNSET else {"priority": check_priority(priority)}),
    }
    async with transaction(database) as connection:
        return await upsert_team(connection, author, name, values)


async def upsert_team(connection: AsyncConnection, author: Author, name: str, values: Mapping[str, Any]) -> TeamConfig:
    """Create a team, or change columns of it, in the caller's transaction; returns it as it is then."""
    await lock_configuration(connection)
    await lock_changes(connection)
    old = await show_team(connection, name)
    team_insert = insert(_teams).values(id=uuid7.mint(), name=name, **values)
    # The name: without any value there would be no row to return.
    updates = {column: team_insert.excluded[column] for column in (*values, "name")}
    upsert = team_insert.on_conflict_do_update(index_elements=["name"], set_=updates)
    await connection.execute(upsert)
    after = await show_team(connection, name)
    assert after is not None, "it was stored in this transaction"
    if old != after:
        await notify_workers(connection)
        await publish_changes(connection, author, [EntryChange("teams", name, msgspec.to_builtins(old), msgspec.to_builtins(after))])
    return after


async def show_team(connection: AsyncConnection, name: str) -> TeamConfig | None:
    columns = select(_teams.c.content, _teams.c.drop, _teams.c.priority)
    row = (await connection.execute(columns.where(_teams.c.name == name.replace("\0", "")))).one_or_none()
    return None if row is None else TeamConfig(row.content, from_drop_column(row.drop), row.priority)
