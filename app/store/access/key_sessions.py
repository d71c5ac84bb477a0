"""Sessions of browsers that signed in with a key, and one-time codes that begin one: each is stored as a hash, and names its key.

A session ends when its key is revoked or expires. Whether the key may be used from where a request comes is asked again with each request.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct
from sqlalchemy import ColumnElement, Select, delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.store.access.tokens import Session, mint_token, to_session
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
    """End a session from the next request on: that of who signs out."""
    if await end_key_sessions(connection, [session_id]):
        await record(connection, author, AuditEvent("sign_out", "session", author.name))


async def list_key_sessions(connection: AsyncConnection, prefix: str) -> list[Session]:
    """The sessions of browsers that signed in with a key, the newest first. One that was idle for too long may still be among them."""
    of_key = select(_tokens).join(_keys, _keys.c.id == _tokens.c.key_id).where(_keys.c.prefix == prefix, *valid_key_conditions())
    of_key = of_key.where(_tokens.c.kind == "browser", _tokens.c.revoked_at.is_(None), _tokens.c.expires_at > func.now())
    return [to_session(row) for row in await connection.execute(of_key.order_by(_tokens.c.id.desc()))]


async def end_key_sessions(connection: AsyncConnection, ids: Sequence[str]) -> int:
    """End sessions of keys from the next request on; how many had not ended. It is not audited here."""
    ended = update(_tokens).where(_tokens.c.id.in_(ids), _tokens.c.key_id.is_not(None), _tokens.c.revoked_at.is_(None))
    return (await connection.execute(ended.values(revoked_at=func.now()))).rowcount


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


async def find_one_time_code(connection: AsyncConnection, code: str) -> KeySession | None:
    """The key whose code this is. Returns None for a code that is unknown, used or expired. use_one_time_code() uses it up."""
    valid = select(_tokens.c.id, _keys.c.hash, _keys.c.prefix).join(_keys, _keys.c.id == _tokens.c.key_id)
    row = (await connection.execute(valid.where(*_is_code(code), _keys.c.admin, *valid_key_conditions()))).one_or_none()
    return None if row is None else KeySession(row.id, row.hash, row.prefix)


async def use_one_time_code(connection: AsyncConnection, code: str) -> bool:
    """Use a code up. Returns whether it could still be used: of two that use it at once, one waits for the other's transaction."""
    return bool((await connection.execute(delete(_tokens).where(*_is_code(code)))).rowcount)


def _is_code(code: str) -> tuple[ColumnElement[bool], ...]:
    return _tokens.c.hash == hash_key(code), _tokens.c.kind == "once", _tokens.c.expires_at > func.now()


def _valid_key(key: str) -> Select[Any]:
    return select(_keys.c.id).where(_keys.c.prefix == parse_prefix(key), *valid_key_conditions())


async def _forget_ended(connection: AsyncConnection, key_id: str) -> None:
    since = datetime.now(UTC) - timedelta(days=_ENDED_KEPT_DAYS)
    ended = or_(_tokens.c.revoked_at < since, _tokens.c.expires_at < since)
    await connection.execute(delete(_tokens).where(_tokens.c.key_id == key_id, ended))
