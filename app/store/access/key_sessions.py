"""Sessions of browsers that signed in with a key, and one-time codes that begin one: each is stored as a hash, and names its key.

A session ends when its key is revoked or expires. Whether the key may be used from where a request comes is asked again with each request.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct
from sqlalchemy import Select, delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.store.access.tokens import mint_token
from app.store.keys.key_format import hash_key, parse_prefix
from app.store.keys.rows import valid_key_conditions
from app.store.postgres import tables
from app.store.postgres.audit_log import AuditEvent, Author, record
from app.store.postgres.database import Database, transaction

_MAX_SESSIONS = 50  # of one key; the oldest end first
_ENDED_KEPT_DAYS = 30

_tokens, _keys = tables.admin_tokens, tables.keys


class KeySession(Struct, frozen=True):
    """The session of a browser that signed in with a key. `hash` and `prefix` are the key's, by which its caller is looked up."""

    id: str
    hash: bytes
    prefix: str


class SignedInWithKey(Struct, frozen=True):
    """A new session. `token` goes into the cookie, and is stored nowhere else."""

    token: str
    expires_at: datetime


async def create_key_session(connection: AsyncConnection, author: Author, *, lasts_s: float) -> SignedInWithKey | None:
    """Begin a session of the key that the author is. Returns None if there is no such key any more."""
    key_id: str | None = await connection.scalar(_valid_key(author.id or ""))
    if key_id is None:
        return None
    await _forget_ended(connection, key_id)
    token, expires_at = mint_token("browser"), datetime.now(UTC) + timedelta(seconds=lasts_s)
    held = {"kind": "browser", "key_id": key_id, "ip": author.ip, "user_agent": author.user_agent and author.user_agent[:300]}
    await connection.execute(_tokens.insert().values(id=uuid7.mint(), hash=hash_key(token), expires_at=expires_at, **held))
    valid = _tokens.c.key_id == key_id, _tokens.c.kind == "browser", _tokens.c.revoked_at.is_(None)
    oldest = select(_tokens.c.id).where(*valid).order_by(_tokens.c.id.desc()).offset(_MAX_SESSIONS)
    await connection.execute(update(_tokens).where(_tokens.c.id.in_(oldest)).values(revoked_at=func.now()))
    await record(connection, author, AuditEvent("sign_in", "session", author.name, None, {"kind": "browser"}))
    return SignedInWithKey(token, expires_at)


async def end_key_session(connection: AsyncConnection, author: Author, session_id: str) -> None:
    """End a session from the next request on."""
    ended = update(_tokens).where(_tokens.c.id == session_id, _tokens.c.key_id.is_not(None), _tokens.c.revoked_at.is_(None))
    if (await connection.execute(ended.values(revoked_at=func.now()))).rowcount:
        await record(connection, author, AuditEvent("sign_out", "session", author.name))


async def create_one_time_code(database: Database, key: str, *, lasts_s: float) -> str | None:
    """A code with which a browser begins a session of this admin key, once. Returns None if the key is no valid admin key."""
    code = mint_token("once")
    async with transaction(database) as connection:
        key_id = await connection.scalar(_valid_key(key).where(_keys.c.admin))
        if key_id is None:
            return None
        await connection.execute(delete(_tokens).where(_tokens.c.key_id == key_id, _tokens.c.kind == "once"))
        expires_at = datetime.now(UTC) + timedelta(seconds=lasts_s)
        held = {"kind": "once", "key_id": key_id, "expires_at": expires_at}
        await connection.execute(_tokens.insert().values(id=uuid7.mint(), hash=hash_key(code), **held))
    return code


async def redeem_one_time_code(connection: AsyncConnection, code: str) -> KeySession | None:
    """The key whose code this is, which is then used up. Returns None for a code that is unknown, used or expired."""
    used = delete(_tokens).where(_tokens.c.hash == hash_key(code), _tokens.c.kind == "once", _tokens.c.expires_at > func.now())
    row = (await connection.execute(used.returning(_tokens.c.id, _tokens.c.key_id))).one_or_none()
    if row is None:
        return None
    valid = select(_keys.c.hash, _keys.c.prefix).where(_keys.c.id == row.key_id, _keys.c.admin, *valid_key_conditions())
    key = (await connection.execute(valid)).one_or_none()
    return None if key is None else KeySession(row.id, key.hash, key.prefix)


def _valid_key(key: str) -> Select[Any]:
    return select(_keys.c.id).where(_keys.c.prefix == parse_prefix(key), *valid_key_conditions())


async def _forget_ended(connection: AsyncConnection, key_id: str) -> None:
    since = datetime.now(UTC) - timedelta(days=_ENDED_KEPT_DAYS)
    ended = or_(_tokens.c.revoked_at < since, _tokens.c.expires_at < since)
    await connection.execute(delete(_tokens).where(_tokens.c.key_id == key_id, ended))
