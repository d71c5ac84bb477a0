"""Signing in: the account of a person whom the issuer has identified, kept as the issuer describes it, and a new session."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from sqlalchemy import Row, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.store.access.locking import lock_access
from app.store.access.tokens import SessionKind, create_session
from app.store.postgres import tables
from app.store.postgres.audit_log import AuditEvent, Author, record
from app.store.postgres.name_forms import looks_like_ascii
from app.store.postgres.names import MAX_NAME_CHARACTERS

MAX_USERS = 100_000  # issuers that anybody can join exist, too

_accounts = tables.principals


class Person(Struct, frozen=True):
    """A person as the issuer describes them. `issuer` and `subject` identify them; the name may change, and others may have the same."""

    issuer: str
    subject: str
    name: str
    email: str | None
    groups: Sequence[str]


class Device(Struct, frozen=True):
    """The device on which somebody signs in, for the audit log and the list of sessions."""

    kind: SessionKind
    ip: str | None
    user_agent: str | None
    request_id: str


class SignedIn(Struct, frozen=True):
    """A new session. `token` is to be handed over once. `expires_at` is when it ends at the latest."""

    token: str
    name: str
    expires_at: datetime


class AccountDisabled(Exception):
    """An administrator has disabled this account."""


class TooManyUsers(Exception):
    """There are MAX_USERS accounts of users."""


async def sign_in(connection: AsyncConnection, person: Person, device: Device, *, lasts_s: float) -> SignedIn:
    """Create the account or bring it up to date, and begin a session. Raises AccountDisabled, TooManyUsers."""
    await lock_access(connection)
    identity = _accounts.c.kind == "user", _accounts.c.issuer == person.issuer, _accounts.c.subject == person.subject
    row = (await connection.execute(select(_accounts).where(*identity))).one_or_none()
    if row is not None and row.disabled_at is not None:
        raise AccountDisabled
    if row is None and (await connection.scalar(select(func.count()).where(_accounts.c.kind == "user")) or 0) >= MAX_USERS:
        raise TooManyUsers
    id = uuid7.mint() if row is None else row.id
    name = await _free_name(connection, person, id)
    values = {"name": name, "email": person.email, "groups": list(person.groups)}
    author = Author("user", id, name, "sign_in", device.ip, device.user_agent, device.request_id)
    if row is None:
        identified = {"id": id, "kind": "user", "issuer": person.issuer, "subject": person.subject}
        await connection.execute(_accounts.insert().values(**identified, **values, signed_in_at=func.now()))
        await record(connection, author, AuditEvent("create", "user", name, None, {**identified, **values}))
    else:
        await connection.execute(update(_accounts).where(_accounts.c.id == id).values(**values, signed_in_at=func.now()))
        before = _describe(row)
        if before != values:
            await record(connection, author, AuditEvent("update", "user", name, before, values))
    token, expires_at = await create_session(connection, id, device.kind, lasts_s=lasts_s, ip=device.ip, user_agent=device.user_agent)
    await record(connection, author, AuditEvent("sign_in", "session", name, None, {"kind": device.kind}))
    return SignedIn(token, name, expires_at)


async def _free_name(connection: AsyncConnection, person: Person, id: str) -> str:
    """The person's name, or one made of it where somebody else has it: names are for people, who must not take one for another.

    So one that looks like a name of ASCII, and is none, is not taken alone either: whoever has that name may come later.
    """
    candidates = [person.name, f"{person.name[:80]} ({person.subject[: MAX_NAME_CHARACTERS - 90]})"]
    for candidate in candidates[1:] if looks_like_ascii(person.name) else candidates:
        taken = select(_accounts.c.id).where(_accounts.c.kind == "user", _accounts.c.name == candidate, _accounts.c.id != id)
        if await connection.scalar(taken) is None:
            return candidate
    return f"{person.name[:80]} ({id})"


def _describe(row: Row[Any]) -> Mapping[str, Any]:
    return {"name": row.name, "email": row.email, "groups": list(row.groups or ())}
