"""Teams: list them with their number of valid keys; set how much of their content is recorded."""

from typing import get_args

from msgspec import Struct
from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine

from app import uuid7
from app.domain import ContentPolicy
from app.store import tables
from app.store.database import transaction
from app.store.errors import InvalidKeyField
from app.store.key_validation import check_team
from app.store.keys import lock_changes, notify_workers, valid_key_conditions

_keys, _teams = tables.keys, tables.teams


class TeamRow(Struct, frozen=True):
    """`keys`: how many of its keys are valid. `created_at` as ISO 8601."""

    name: str
    content: ContentPolicy
    created_at: str
    keys: int


async def list_teams(database: str | AsyncEngine, *, after: str | None = None, limit: int | None = None) -> list[TeamRow]:
    """Teams by name, after the team `after`."""
    valid_keys = select(func.count()).where(_keys.c.team_id == _teams.c.id, *valid_key_conditions()).scalar_subquery()
    query = select(_teams.c.name, _teams.c.content, _teams.c.created_at, valid_keys.label("keys")).order_by(_teams.c.name).limit(limit)
    if after is not None:
        query = query.where(_teams.c.name > after.replace("\0", ""))
    async with transaction(database) as connection:
        return [TeamRow(row.name, row.content, row.created_at.isoformat(), row.keys) for row in await connection.execute(query)]


async def set_team(database: str | AsyncEngine, name: str, content: ContentPolicy) -> None:
    """Create or change a team. Raises InvalidKeyField."""
    check_team(name)
    if content not in get_args(ContentPolicy):
        raise InvalidKeyField("content", f"A team's `content` may be {', '.join(get_args(ContentPolicy))}, not {content!r:.60}.")
    async with transaction(database) as connection:
        await lock_changes(connection)
        team_insert = insert(_teams).values(id=uuid7.mint(), name=name, content=content)
        await connection.execute(team_insert.on_conflict_do_update(index_elements=["name"], set_={"content": team_insert.excluded.content}))
        await notify_workers(connection)
