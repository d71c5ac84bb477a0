"""Keys: create, list, change, rotate and revoke them. A key itself is shown once and stored nowhere."""

import secrets
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType
from sqlalchemy import Row, func, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from app import uuid7
from app.domain import ContentPolicy, DroppableFields
from app.store import tables
from app.store.database import transaction
from app.store.droppable_fields import drop_column, from_drop_column
from app.store.key_validation import (
    check_expiry,
    check_models,
    check_name,
    check_networks,
    check_overlap,
    check_priority,
    check_routes,
    check_team,
    hash_key,
    parse_prefix,
)

CHANNEL = "narthex_keys"

_keys, _teams = tables.keys, tables.teams


class KeyRow(Struct, frozen=True):
    """What may be shown of a key. Times are ISO 8601; None in a restriction: there is none. `drop`: without what its team's adds.

    `priority` None: the team's.
    """

    prefix: str
    team: str
    name: str
    admin: bool
    created_at: str
    revoked_at: str | None
    expires_at: str | None
    models: list[str] | None
    routes: list[str] | None
    networks: list[str] | None
    drop: DroppableFields
    priority: int | None
    replaced_by: str | None
    id: str


class KeyChanges(Struct, frozen=True, forbid_unknown_fields=True):
    """Changes to a key. UNSET: unchanged. None: the restriction, `drop` or `priority` is removed."""

    name: str | UnsetType = UNSET
    models: Sequence[str] | UnsetType | None = UNSET
    routes: Sequence[str] | UnsetType | None = UNSET
    networks: Sequence[str] | UnsetType | None = UNSET
    expires_at: datetime | UnsetType | None = UNSET
    drop: DroppableFields | UnsetType | None = UNSET
    priority: int | UnsetType | None = UNSET


async def create_key(
    database: str | AsyncEngine,
    team: str,
    *,
    name: str = "",
    admin: bool = False,
    content: ContentPolicy | None = None,
    models: Sequence[str] | None = None,
    routes: Sequence[str] | None = None,
    networks: Sequence[str] | None = None,
    expires_at: datetime | None = None,
    drop: DroppableFields = (),
    priority: int | None = None,
) -> str:
    """Create a key, which is returned to be shown once, and its team if that is new. Raises InvalidKeyField.

    `content` sets how much of the team's requests and responses is recorded; None leaves it unchanged.
    """
    terms = {
        "name": check_name(name),
        "admin": admin,
        "models": check_models(models),
        "routes": check_routes(routes),
        "networks": check_networks(networks),
        "expires_at": check_expiry(expires_at),
        "drop": drop_column(drop),
        "priority": None if priority is None else check_priority(priority),
    }
    check_team(team)
    async with transaction(database) as connection:
        await lock_changes(connection)
        team_insert = insert(_teams).values(id=uuid7.mint(), name=team, content=content or "full").on_conflict_do_nothing()
        await connection.execute(team_insert)
        if content is not None:
            await connection.execute(update(_teams).where(_teams.c.name == team, _teams.c.content != content).values(content=content))
        team_id = await connection.scalar(select(_teams.c.id).where(_teams.c.name == team))
        key = await _store(connection, {**terms, "team_id": team_id})
        await notify_workers(connection)
    return key


async def list_keys(
    database: str | AsyncEngine,
    *,
    team: str | None = None,
    after: str | None = None,
    limit: int | None = None,
    valid_only: bool = False,
    with_drop: bool = False,
) -> list[KeyRow]:
    """Keys, oldest first, after the one with the prefix `after`.

    `valid_only`: without those revoked or expired. `with_drop`: only those with the option `drop`.
    """
    query = select(_keys, _teams.c.name.label("team")).join(_teams, _teams.c.id == _keys.c.team_id).order_by(_keys.c.id).limit(limit)
    if team is not None:
        team_id = select(_teams.c.id).where(_teams.c.name == team.replace("\0", "")).scalar_subquery()
        query = query.where(_keys.c.team_id == team_id)
    if valid_only:
        query = query.where(*valid_key_conditions())
    if with_drop:
        query = query.where(_keys.c.drop.is_not(None))
    if after is not None:
        last = select(_keys.c.id).where(_keys.c.prefix == parse_prefix(after)).scalar_subquery()
        query = query.where(_keys.c.id > last)
    async with transaction(database) as connection:
        return [_to_key_row(row) for row in await connection.execute(query)]


async def show_key(database: str | AsyncEngine, prefix: str) -> KeyRow | None:
    query = select(_keys, _teams.c.name.label("team")).join(_teams, _teams.c.id == _keys.c.team_id)
    async with transaction(database) as connection:
        row = (await connection.execute(query.where(_keys.c.prefix == parse_prefix(prefix)))).one_or_none()
    return None if row is None else _to_key_row(row)


async def revoke_key(database: str | AsyncEngine, prefix: str) -> bool:
    """Revoke a key; returns whether there was one to revoke. `prefix`: as parse_prefix() takes it."""
    return await _update_key(database, prefix, {"revoked_at": func.now()})


async def change_key(database: str | AsyncEngine, prefix: str, changes: KeyChanges) -> bool:
    """Change a key; returns False if it is unknown or revoked. Raises InvalidKeyField."""
    checks: dict[str, Callable[[Any], Any]] = {
        "name": check_name,
        "models": check_models,
        "routes": check_routes,
        "networks": check_networks,
        "expires_at": check_expiry,
        "drop": lambda drop: drop_column(drop or ()),
        "priority": lambda priority: None if priority is None else check_priority(priority),
    }
    changed_fields = {field: value for field, value in msgspec.structs.asdict(changes).items() if value is not UNSET}
    return await _update_key(database, prefix, {field: checks[field](value) for field, value in changed_fields.items()})


async def rotate_key(database: str | AsyncEngine, prefix: str, *, overlap_s: float) -> str | None:
    """Create a key with the old one's restrictions and expiry; the old one expires after the overlap, if not before.

    Returns the new key; None: there is no valid key with this prefix. Raises InvalidKeyField.
    """
    overlap = check_overlap(overlap_s)
    async with transaction(database) as connection:
        await lock_changes(connection)
        valid_key = select(_keys).where(_keys.c.prefix == parse_prefix(prefix), *valid_key_conditions())
        old = (await connection.execute(valid_key)).mappings().one_or_none()
        if old is None:
            return None
        copied_fields = ("name", "admin", "models", "routes", "networks", "expires_at", "drop", "priority", "team_id")
        key = await _store(connection, {field: old[field] for field in copied_fields})
        expires_at = func.least(_keys.c.expires_at, func.now() + overlap)  # least() ignores null
        await connection.execute(update(_keys).where(_keys.c.id == old["id"]).values(expires_at=expires_at, replaced_by=parse_prefix(key)))
        await notify_workers(connection)
    return key


def valid_key_conditions() -> tuple[Any, ...]:
    """The conditions on keys that are neither revoked nor expired."""
    return _keys.c.revoked_at.is_(None), or_(_keys.c.expires_at.is_(None), _keys.c.expires_at > func.now())


async def lock_changes(connection: AsyncConnection) -> None:
    """Lock the row that every change to keys or teams must lock first, so that two changes cannot deadlock."""
    await connection.execute(select(tables.keys_version.c.version).with_for_update())


async def notify_workers(connection: AsyncConnection, payload: str = "") -> None:
    """Notify every worker, at the commit, that keys or teams have changed; without it they notice within a second."""
    await connection.execute(text("SELECT pg_notify(:channel, :payload)"), {"channel": CHANNEL, "payload": payload})


async def _store(connection: AsyncConnection, terms: dict[str, Any]) -> str:
    prefix = secrets.token_hex(6)
    key = f"nx-{prefix}-{secrets.token_urlsafe(32)}"
    await connection.execute(_keys.insert().values(id=uuid7.mint(), prefix=prefix, hash=hash_key(key), **terms))
    return key


async def _update_key(database: str | AsyncEngine, prefix: str, values: dict[str, Any]) -> bool:
    async with transaction(database) as connection:
        await lock_changes(connection)
        statement = update(_keys).where(_keys.c.prefix == parse_prefix(prefix), _keys.c.revoked_at.is_(None))
        # Without changes, the statement still finds out whether there is such a key.
        changed_id = await connection.scalar(statement.values(values or {"name": _keys.c.name}).returning(_keys.c.id))
        await notify_workers(connection)
    return changed_id is not None


def _to_key_row(row: Row[Any]) -> KeyRow:
    return KeyRow(
        row.prefix,
        row.team,
        row.name,
        row.admin,
        row.created_at.isoformat(),
        row.revoked_at and row.revoked_at.isoformat(),
        row.expires_at and row.expires_at.isoformat(),
        row.models,
        row.routes,
        row.networks,
        from_drop_column(row.drop),
        row.priority,
        row.replaced_by,
        row.id,
    )
