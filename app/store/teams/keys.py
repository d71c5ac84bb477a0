"""Keys: create, change, rotate and revoke them. A key itself is shown once and stored nowhere; shown_keys.py lists what may be shown.

Changes are audited in their transactions. `database` is an address, an engine, or the connection of a transaction to take part in.
"""

import secrets
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType
from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.domain.callers import ContentPolicy, DroppableFields
from app.domain.errors import BoundReached
from app.store.configuration.validation.team_restrictions import check_within_team
from app.store.keys.droppable_fields import drop_column
from app.store.keys.key_format import check_expiry, check_name, hash_key, parse_prefix
from app.store.keys.rows import lock_changes, notify_workers, valid_key_conditions
from app.store.keys.validation import check_models, check_networks, check_overlap, check_routes
from app.store.postgres import tables
from app.store.postgres.audit_log import SYSTEM, AuditEvent, Author, record
from app.store.postgres.database import Database, transaction
from app.store.postgres.names import check_priority, check_team
from app.store.teams.shown_keys import KeyRow, show_key
from app.store.teams.teams import upsert_team

MAX_VALID_KEYS_OF_TEAM = 100_000  # whoever makes keys for one team leaves room for those of others in the index that all share

_keys, _teams = tables.keys, tables.teams


class KeyReplaced(Exception):
    """A key that was rotated to one that is valid."""


class KeyChanges(Struct, frozen=True, forbid_unknown_fields=True):
    """Changes to a key, as a merge patch: what is left out stays. null: the restriction, `drop` or `priority` is removed."""

    name: str | UnsetType | None = UNSET
    models: Sequence[str] | UnsetType | None = UNSET
    routes: Sequence[str] | UnsetType | None = UNSET
    networks: Sequence[str] | UnsetType | None = UNSET
    expires_at: datetime | UnsetType | None = UNSET
    drop: DroppableFields | UnsetType | None = UNSET
    priority: int | UnsetType | None = UNSET


async def create_key(
    database: Database,
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
    author: Author = SYSTEM,
) -> str:
    """Create a key, which is returned to be shown once, and its team if that is new. Raises InvalidKeyField and BoundReached.

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
        team_id = await _find_or_create_team(connection, author, team, content)
        await lock_changes(connection)
        await check_within_team(connection, team, terms)
        await _check_room(connection, team, team_id)
        key = await _store(connection, {**terms, "team_id": team_id})
        await notify_workers(connection)
        await _record(connection, author, "create", key)
    return key


async def revoke_key(database: Database, prefix: str, *, author: Author = SYSTEM) -> bool:
    """Revoke a key; returns whether there was one to revoke. `prefix` is what parse_prefix() takes."""
    return await _update_key(database, prefix, {"revoked_at": func.now()}, author, "revoke")


async def change_key(database: Database, prefix: str, changes: KeyChanges, *, author: Author = SYSTEM) -> bool:
    """Change a key; returns False if it is unknown or revoked. Raises InvalidKeyField."""
    checks: dict[str, Callable[[Any], Any]] = {
        "name": lambda name: check_name(name or ""),
        "models": check_models,
        "routes": check_routes,
        "networks": check_networks,
        "expires_at": check_expiry,
        "drop": lambda drop: drop_column(drop or ()),
        "priority": lambda priority: None if priority is None else check_priority(priority),
    }
    changed_fields = {field: value for field, value in msgspec.structs.asdict(changes).items() if value is not UNSET}
    values = {field: checks[field](value) for field, value in changed_fields.items()}
    return await _update_key(database, prefix, values, author, "update")


async def rotate_key(database: Database, prefix: str, *, overlap_s: float, author: Author = SYSTEM) -> str | None:
    """Create a key with the old one's restrictions and expiry; the old one expires after the overlap, if not before.

    Limits count both as one key, and go on with what was spent. Returns the new key; None: there is no valid key with this prefix. Raises
    InvalidKeyField, and KeyReplaced while what it was rotated to is valid.
    """
    overlap = check_overlap(overlap_s)
    async with transaction(database) as connection:
        await lock_changes(connection)
        valid_key = select(_keys).where(_keys.c.prefix == parse_prefix(prefix), *valid_key_conditions())
        old = (await connection.execute(valid_key)).mappings().one_or_none()
        if old is None:
            return None
        of_heir = select(_keys.c.prefix).where(_keys.c.prefix == old["replaced_by"], *valid_key_conditions())
        if (heir := await connection.scalar(of_heir)) is not None:
            raise KeyReplaced(
                f"nx-{old['prefix']} was rotated to nx-{heir} already, and a key is replaced by one. Rotate nx-{heir}, or revoke it first."
            )
        copied_fields = ("name", "admin", "models", "routes", "networks", "expires_at", "drop", "priority", "team_id")
        counts_as = old["counts_as"] or old["prefix"]
        key = await _store(connection, {**{field: old[field] for field in copied_fields}, "counts_as": counts_as})
        before = await show_key(connection, prefix)
        expires_at = func.least(_keys.c.expires_at, func.now() + overlap)  # least() ignores null
        await connection.execute(update(_keys).where(_keys.c.id == old["id"]).values(expires_at=expires_at, replaced_by=parse_prefix(key)))
        await notify_workers(connection)
        await _record(connection, author, "rotate", prefix, before)
        await _record(connection, author, "create", key)
    return key


async def _find_or_create_team(connection: AsyncConnection, author: Author, name: str, content: ContentPolicy | None) -> str:
    """The id of a team, which is created, or gets the content policy, if it must."""
    query = select(_teams.c.id, _teams.c.content).where(_teams.c.name == name)
    row = (await connection.execute(query)).one_or_none()
    if row is None or (content is not None and content != row.content):
        await upsert_team(connection, author, name, {} if content is None else {"content": content})
        row = (await connection.execute(query)).one()
    return row.id


async def _check_room(connection: AsyncConnection, team: str, team_id: str) -> None:
    """Raises BoundReached if the team may have no more keys. One that replaces another always has room: it may have to be replaced."""
    valid = select(func.count()).select_from(_keys).where(_keys.c.team_id == team_id, *valid_key_conditions())
    if (await connection.scalar(valid) or 0) >= MAX_VALID_KEYS_OF_TEAM:
        raise BoundReached(
            f"The team {team!r:.100} has {MAX_VALID_KEYS_OF_TEAM:,} valid keys, which is the most that a team may have: revoke those that"
            " are no longer used (`narthex keys list --team TEAM`, GET /admin/v1/keys?unused_since=TIME), or give new ones an expiry."
        )


async def _store(connection: AsyncConnection, terms: dict[str, Any]) -> str:
    prefix = secrets.token_hex(6)
    key = f"nx-{prefix}-{secrets.token_urlsafe(32)}"
    await connection.execute(_keys.insert().values(id=uuid7.mint(), prefix=prefix, hash=hash_key(key), **terms))
    return key


async def _update_key(database: Database, prefix: str, values: dict[str, Any], author: Author, action: str) -> bool:
    async with transaction(database) as connection:
        await lock_changes(connection)
        before = await show_key(connection, prefix)
        if before is None or before.revoked_at is not None:
            return False
        if values:
            await check_within_team(connection, before.team, values)
            await connection.execute(update(_keys).where(_keys.c.prefix == before.prefix).values(values))
            await notify_workers(connection)
            await _record(connection, author, action, prefix, before)
    return True


async def _record(connection: AsyncConnection, author: Author, action: str, prefix: str, before: KeyRow | None = None) -> None:
    """Audit a key that is new, or which fields differ from `before`, if any do."""
    after = await show_key(connection, prefix)
    assert after is not None, "it was stored in this transaction"
    if after != before:
        old, new = before and _audited(before), _audited(after)
        if old is not None:  # the log keeps everything for ever, and lists of a key may be long
            changed = [field for field in new if new[field] != old[field]]
            old, new = {field: old[field] for field in changed}, {field: new[field] for field in changed}
        await record(connection, author, AuditEvent(action, "key", f"nx-{after.prefix}", old, new, after.team))


def _audited(row: KeyRow) -> dict[str, Any]:
    return {**msgspec.to_builtins(row), "prefix": f"nx-{row.prefix}"}
