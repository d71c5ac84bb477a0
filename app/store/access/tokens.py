"""Tokens of service accounts, and sessions of users: created, listed, revoked. A token is shown once, and stored as a hash."""

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from msgspec import Struct
from sqlalchemy import Row, delete, func, or_, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.domain.errors import InvalidKeyField
from app.store.access.accounts import Account
from app.store.keys.key_format import check_expiry, check_name, hash_key
from app.store.postgres import tables
from app.store.postgres.audit_log import AuditEvent, Author, record

TokenKind = Literal["service_account", "cli", "browser", "once"]
SessionKind = Literal["cli", "browser"]

PREFIXES: dict[TokenKind, str] = {"service_account": "nxs-", "cli": "nxc-", "browser": "nxb-", "once": "nxo-"}
MAX_TOKENS = 100  # of one service account
MAX_SESSIONS = 50  # of one user; the oldest end first

# Of tokens and sessions that have ended, those are kept that ended lately, and of these the newest.
_ENDED_KEPT_DAYS = 30
_ENDED_KEPT = 200

_tokens = tables.admin_tokens


class Token(Struct, frozen=True):
    """A token of a service account. `expires_at` is null if it does not expire.

    `used_at` is right to within a minute.
    """

    id: str
    name: str
    created_at: str
    expires_at: str | None
    used_at: str | None
    revoked_at: str | None


class Session(Struct, frozen=True):
    """A place where a user, or whoever has a key, is signed in. `used_at` is right to within a minute."""

    id: str
    kind: SessionKind
    created_at: str
    expires_at: str | None
    used_at: str | None
    ip: str | None
    user_agent: str | None


async def create_token(
    connection: AsyncConnection,
    author: Author,
    account: Account,
    *,
    name: str = "",
    expires_at: datetime | None = None,
    team: str | None = None,
) -> tuple[str, Token]:
    """A token, to be shown once, and what is stored of it. Raises InvalidKeyField. `team` is for the audit log."""
    expires_at = check_expiry(expires_at)
    check_name(name)
    # Locks the account: two of these at once must not pass the limit.
    await connection.execute(select(tables.principals.c.id).where(tables.principals.c.id == account.id).with_for_update())
    valid = _tokens.c.revoked_at.is_(None), or_(_tokens.c.expires_at.is_(None), _tokens.c.expires_at > func.now())
    if (await connection.scalar(select(func.count()).where(_tokens.c.principal_id == account.id, *valid)) or 0) >= MAX_TOKENS:
        raise InvalidKeyField("name", f"{account.name!r:.60} has {MAX_TOKENS} valid tokens, the most that it may have: revoke some first.")
    token, id = mint_token("service_account"), uuid7.mint()
    await _forget_ended(connection, account.id)
    values = {"hash": hash_key(token), "kind": "service_account", "principal_id": account.id, "name": name, "expires_at": expires_at}
    await connection.execute(_tokens.insert().values(id=id, **values))
    stored = await find_token(connection, account.id, id)
    assert stored is not None, "it was stored in this transaction"
    await record(connection, author, AuditEvent("create", "token", f"{account.name}/{id}", None, _audited(stored), team))
    return token, stored


async def list_tokens(connection: AsyncConnection, account_id: str) -> list[Token]:
    """The tokens of a service account, newest first, with those that ended lately."""
    rows = await connection.execute(
        select(_tokens).where(_tokens.c.principal_id == account_id, _tokens.c.kind == "service_account").order_by(_tokens.c.id.desc())
    )
    return [_to_token(row) for row in rows]


async def find_token(connection: AsyncConnection, account_id: str, id: str) -> Token | None:
    return next((each for each in await list_tokens(connection, account_id) if each.id == id.lower()), None)


async def revoke_token(connection: AsyncConnection, author: Author, account: Account, token: Token, *, team: str | None = None) -> None:
    """Revoke a token of a service account, from the next request on."""
    await connection.execute(update(_tokens).where(_tokens.c.id == token.id, _tokens.c.revoked_at.is_(None)).values(revoked_at=func.now()))
    if token.revoked_at is None:
        after = await find_token(connection, account.id, token.id)
        assert after is not None, "the transaction that revoked it can see it"
        event = AuditEvent("revoke", "token", f"{account.name}/{token.id}", _audited(token), _audited(after), team)
        await record(connection, author, event)


async def create_session(
    connection: AsyncConnection, account_id: str, kind: SessionKind, *, lasts_s: float, ip: str | None, user_agent: str | None
) -> tuple[str, datetime]:
    """The token of a new session, and when it ends at the latest."""
    token, expires_at = mint_token(kind), datetime.now(UTC) + timedelta(seconds=lasts_s)
    await _forget_ended(connection, account_id)
    values = {"kind": kind, "principal_id": account_id, "expires_at": expires_at, "ip": ip, "user_agent": user_agent and user_agent[:300]}
    await connection.execute(_tokens.insert().values(id=uuid7.mint(), hash=hash_key(token), **values))
    sessions = select(_tokens.c.id).where(_tokens.c.principal_id == account_id, _tokens.c.kind != "service_account")
    oldest = sessions.where(_tokens.c.revoked_at.is_(None)).order_by(_tokens.c.id.desc()).offset(MAX_SESSIONS)
    await connection.execute(update(_tokens).where(_tokens.c.id.in_(oldest)).values(revoked_at=func.now()))
    return token, expires_at


async def list_sessions(connection: AsyncConnection, account_id: str) -> list[Session]:
    """The sessions of a user that have not ended, newest first. One that was idle for too long may still be among them."""
    valid = _tokens.c.revoked_at.is_(None), _tokens.c.expires_at > func.now()
    of_user = select(_tokens).where(_tokens.c.principal_id == account_id, _tokens.c.kind != "service_account", *valid)
    return [to_session(row) for row in await connection.execute(of_user.order_by(_tokens.c.id.desc()))]


async def end_sessions(connection: AsyncConnection, account_id: str, ids: Sequence[str]) -> int:
    """End sessions from the next request on; how many had not ended. It is not audited here."""
    valid = _tokens.c.kind != "service_account", _tokens.c.revoked_at.is_(None)
    ended = update(_tokens).where(_tokens.c.principal_id == account_id, _tokens.c.id.in_(ids), *valid).values(revoked_at=func.now())
    return (await connection.execute(ended)).rowcount


def to_session(row: Row[Any]) -> Session:
    return Session(row.id, row.kind, row.created_at.isoformat(), _iso(row.expires_at), _iso(row.used_at), row.ip, row.user_agent)


def mint_token(kind: TokenKind) -> str:
    return PREFIXES[kind] + secrets.token_urlsafe(32)


async def _forget_ended(connection: AsyncConnection, account_id: str) -> None:
    limit = func.now() - text(f"interval '{_ENDED_KEPT_DAYS} days'")
    ended = _tokens.c.principal_id == account_id, or_(_tokens.c.revoked_at.is_not(None), _tokens.c.expires_at < func.now())
    too_many = select(_tokens.c.id).where(*ended).order_by(_tokens.c.id.desc()).offset(_ENDED_KEPT)
    forgotten = or_(_tokens.c.revoked_at < limit, _tokens.c.expires_at < limit, _tokens.c.id.in_(too_many))
    await connection.execute(delete(_tokens).where(*ended, forgotten))


def _to_token(row: Row[Any]) -> Token:
    return Token(row.id, row.name, row.created_at.isoformat(), _iso(row.expires_at), _iso(row.used_at), _iso(row.revoked_at))


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _audited(token: Token) -> dict[str, Any]:
    return {"name": token.name, "expires_at": token.expires_at, "revoked_at": token.revoked_at}
