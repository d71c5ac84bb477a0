"""Keys: made, listed, revoked, and found by their hash. The key itself is shown once and stored nowhere."""

import hashlib
import secrets
from typing import cast

from msgspec import Struct
from sqlalchemy import func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from app import uuid7
from app.domain import Caller, ContentPolicy
from app.store import tables
from app.store.database import transaction

CHANNEL = "narthex_keys"


class KeyRow(Struct, frozen=True):
    """What may be shown of a key. Times as ISO 8601."""

    prefix: str
    team: str
    name: str
    admin: bool
    created_at: str
    revoked_at: str | None


def hashed(key: str) -> bytes:
    """What is stored of a key. It has 256 random bits, so a fast hash without salt gives nothing away."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


async def create_key(database_url: str, team: str, *, name: str = "", admin: bool = False, content: ContentPolicy | None = None) -> str:
    """A new key, to be shown once. The team is made if it is new; `content` sets what is kept of its asks and replies, None leaves it."""
    prefix = secrets.token_hex(6)
    key = f"nx-{prefix}-{secrets.token_urlsafe(32)}"
    async with transaction(database_url) as connection:
        made = insert(tables.teams).values(id=uuid7.mint(), name=team, content=content or "full")
        kept = {"content": made.excluded.content} if content else {"name": made.excluded.name}
        team_id = await connection.scalar(made.on_conflict_do_update(index_elements=["name"], set_=kept).returning(tables.teams.c.id))
        await connection.execute(
            tables.keys.insert().values(id=uuid7.mint(), prefix=prefix, hash=hashed(key), team_id=team_id, name=name, admin=admin)
        )
        # The empty payload: a team's content policy is part of what workers remember of every key of the team.
        await notify(connection, "" if content else hashed(key).hex())
    return key


async def list_keys(database_url: str) -> list[KeyRow]:
    async with transaction(database_url) as connection:
        keys, teams = tables.keys, tables.teams
        rows = await connection.execute(
            select(keys.c.prefix, teams.c.name.label("team"), keys.c.name, keys.c.admin, keys.c.created_at, keys.c.revoked_at)
            .join(teams, teams.c.id == keys.c.team_id)
            .order_by(keys.c.created_at)
        )
        return [
            KeyRow(row.prefix, row.team, row.name, row.admin, row.created_at.isoformat(), row.revoked_at and row.revoked_at.isoformat())
            for row in rows
        ]


async def revoke_key(database_url: str, prefix: str) -> bool:
    """Whether there was such a key to revoke. `prefix`: the public part, with or without what stands around it."""
    public = prefix.removeprefix("nx-").split("-")[0]
    async with transaction(database_url) as connection:
        revoked = update(tables.keys).where(tables.keys.c.prefix == public, tables.keys.c.revoked_at.is_(None))
        found = await connection.scalar(revoked.values(revoked_at=func.now()).returning(tables.keys.c.hash))
        if found is not None:
            await notify(connection, bytes(found).hex())
        return found is not None


async def find(connection: AsyncConnection, hashes: list[bytes]) -> dict[bytes, Caller]:
    """Whom these keys stand for, by hash; without those that are unknown or revoked."""
    keys, teams = tables.keys, tables.teams
    rows = await connection.execute(
        select(keys.c.hash, keys.c.id, keys.c.admin, teams.c.id.label("team_id"), teams.c.name, teams.c.content)
        .join(teams, teams.c.id == keys.c.team_id)
        .where(keys.c.hash.in_(hashes), keys.c.revoked_at.is_(None))
    )
    return {bytes(row.hash): Caller(row.id, row.team_id, row.name, cast(ContentPolicy, row.content), row.admin) for row in rows}


async def notify(connection: AsyncConnection, payload: str) -> None:
    """Tells every worker, at the commit, to forget what it knows of a key (its hash in hex), or of all keys (empty)."""
    await connection.execute(text("SELECT pg_notify(:channel, :payload)"), {"channel": CHANNEL, "payload": payload})
