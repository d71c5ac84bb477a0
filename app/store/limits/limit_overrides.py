"""Overrides: another amount of a limit for one subject, until a time. Every worker has those in force in its snapshot."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from sqlalchemy import ColumnElement, Row, and_, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.domain.errors import BadConfiguration, InvalidKeyField
from app.domain.limits import Limit, LimitOverride
from app.store.configuration.rows import lock_configuration
from app.store.configuration.snapshots import publish_version
from app.store.configuration.validation.limits import check_amount
from app.store.postgres import tables
from app.store.postgres.audit_log import AuditEvent, Author, record
from app.store.postgres.conditions import one_of
from app.store.postgres.names import is_name
from app.store.postgres.paging import Keyset, Page, PageQuery, SortColumn

MAX_IN_FORCE = 10_000  # every worker has all of them
MAX_REASON_CHARACTERS = 500
_MAX_DAYS = 400

State = Literal["in_force", "ended"]

_overrides, _limits = tables.limit_overrides, tables.limits
_KEYSET = Keyset(
    {"created_at": SortColumn(_overrides.c.created_at, datetime), "ends_at": SortColumn(_overrides.c.ends_at, datetime)},
    SortColumn(_overrides.c.id),
)


Amount = Annotated[float, Meta(description="In place of the limit's, in the same unit.")]
EndsAt = Annotated[datetime, Meta(description="When the limit's own amount is in force again; without a zone it is UTC.")]
Reason = Annotated[str, Meta(min_length=1, max_length=MAX_REASON_CHARACTERS, description="Why; for people, and in the audit log.")]


class Override(Struct, frozen=True):
    """Another amount of a limit, for one subject. `ended_at`: it was ended before `ends_at`; null: it was not."""

    id: str
    limit: str
    subject: Mapping[str, str]
    amount: float
    reason: str
    author: str
    created_at: str
    ends_at: str
    ended_at: str | None
    in_force: bool


class OverrideEdit(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Changes of an override; what is left out stays."""

    amount: Amount | None = None
    ends_at: EndsAt | None = None
    reason: Reason | None = None


class OverrideExists(Exception):
    """The subject has one already."""

    def __init__(self, id: str) -> None:
        super().__init__(f"This subject of the limit has an override already, {id}: change it, or end it first.")
        self.id = id


class UnknownLimit(Exception):
    """There is no limit of this name."""


async def page_overrides(connection: AsyncConnection, query: PageQuery, limit_name: str | None, state: State | None) -> Page[Override]:
    selected = select(_overrides)
    if limit_name is not None:
        selected = selected.where(_overrides.c.limit_name == limit_name)
    if state is not None:
        selected = selected.where(_in_force() if state == "in_force" else ~_in_force())
    rows = (await connection.execute(_KEYSET.page_query(selected, query))).all()
    return _KEYSET.page(rows, query, _to_override)


async def find_override(connection: AsyncConnection, id: str) -> Override | None:
    if not uuid7.is_uuid7(id):
        return None
    row = (await connection.execute(select(_overrides).where(_overrides.c.id == id))).one_or_none()
    return None if row is None else _to_override(row)


async def read_overrides(connection: AsyncConnection, limit_names: Sequence[str] | None) -> list[LimitOverride]:
    """Returns the overrides in force, as snapshots have them; of all limits if `limit_names` is None."""
    query = select(_overrides).where(_in_force())
    if limit_names is not None:
        query = query.where(one_of(_overrides.c.limit_name, limit_names))
    return [
        msgspec.convert(
            {
                "id": row.id,
                "limit": row.limit_name,
                "subject": row.subject,
                "amount": row.amount,
                "until_ms": int(row.ends_at.timestamp() * 1000),
                "counts": (row.resource, row.per),
            },
            LimitOverride,
        )
        for row in await connection.execute(query)
    ]


async def create_override(
    connection: AsyncConnection, author: Author, limit_name: str, subject: Mapping[str, str], amount: float, ends_at: datetime, reason: str
) -> Override:
    """Creates an override, which is in force as soon as every worker has read it.

    Raises UnknownLimit, OverrideExists, InvalidKeyField, BadConfiguration.
    """
    await lock_configuration(connection)
    config = await connection.scalar(select(_limits.c.config).where(_limits.c.name == limit_name))
    if config is None:
        raise UnknownLimit(f"There is no limit {limit_name!r:.200}.")
    limit = msgspec.convert(config, Limit)
    _check_subject(limit, subject)
    _check(limit, amount, ends_at, reason)
    subject = await _as_counted(connection, subject)
    if (await connection.scalar(select(func.count()).select_from(_overrides).where(_in_force())) or 0) >= MAX_IN_FORCE:
        raise BadConfiguration(f"There are {MAX_IN_FORCE:,} overrides in force already, which is the most there may be.")
    of_subject = and_(_overrides.c.limit_name == limit_name, _overrides.c.subject == dict(subject), _overrides.c.ended_at.is_(None))
    if existing := await connection.scalar(select(_overrides.c.id).where(of_subject, _in_force())):
        raise OverrideExists(existing)
    await connection.execute(update(_overrides).where(of_subject).values(ended_at=_overrides.c.ends_at))
    row = {"limit_name": limit_name, "subject": dict(subject), "amount": amount, "resource": limit.resource, "per": limit.per}
    values = {"id": uuid7.mint(), **row, "reason": reason.strip(), "author": author.name, "ends_at": ends_at}
    stored = (await connection.execute(_overrides.insert().values(values).returning(_overrides))).one()
    return await _publish(connection, author, "create", None, _to_override(stored))


async def change_override(connection: AsyncConnection, author: Author, before: Override, changes: OverrideEdit) -> Override:
    """Changes an override that is in force. Raises InvalidKeyField, BadConfiguration."""
    limit = msgspec.convert(await connection.scalar(select(_limits.c.config).where(_limits.c.name == before.limit)), Limit)
    amount = before.amount if changes.amount is None else changes.amount
    ends_at = datetime.fromisoformat(before.ends_at) if changes.ends_at is None else changes.ends_at
    reason = before.reason if changes.reason is None else changes.reason
    _check(limit, amount, ends_at, reason)
    values = {"amount": amount, "ends_at": ends_at, "reason": reason.strip()}
    changed = update(_overrides).where(_overrides.c.id == before.id).values(values).returning(_overrides)
    return await _publish(connection, author, "update", before, _to_override((await connection.execute(changed)).one()))


async def end_override(connection: AsyncConnection, author: Author, before: Override) -> Override:
    """Ends an override now. One that has ended stays as it is."""
    if not before.in_force:
        return before
    ended = update(_overrides).where(_overrides.c.id == before.id).values(ended_at=func.now()).returning(_overrides)
    return await _publish(connection, author, "end", before, _to_override((await connection.execute(ended)).one()))


async def lock_override(connection: AsyncConnection, id: str) -> Override | None:
    """Finds an override under the lock of the configuration, which is held until the end of the transaction."""
    await lock_configuration(connection)
    return await find_override(connection, id)


async def _publish(connection: AsyncConnection, author: Author, action: str, before: Override | None, after: Override) -> Override:
    version = await publish_version(connection)
    old, new = (None if each is None else msgspec.to_builtins(each) for each in (before, after))
    event = AuditEvent(action, "limit_override", after.limit, old, new, team=after.subject.get("team"), version=version)
    await record(connection, author, event)
    return after


def _check_subject(limit: Limit, subject: Mapping[str, str]) -> None:
    names = sorted(name for name, value in limit.scope.items() if value == "each" and name != "all")
    if sorted(subject) != names:
        wanted = "{" + ", ".join(f'"{name}": ...' for name in names) + "}"
        raise InvalidKeyField("subject", f"`subject` must say whose amount it is: for this limit {wanted}, and nothing else.")
    for name, value in subject.items():
        if not is_name(value) or value == "each":
            raise InvalidKeyField("subject", f"`subject.{name}` must be one name, not {value!r:.60}.")
        if name == "key" and not (value.startswith("nx-") and len(value) == len("nx-") + 12):
            raise InvalidKeyField("subject", "`subject.key` must be a key's public part: nx- and 12 hex digits.")


async def _as_counted(connection: AsyncConnection, subject: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the subject with the key as which limits count the one that is named."""
    if "key" not in subject:
        return subject
    of_key = select(tables.keys.c.counts_as).where(tables.keys.c.prefix == subject["key"].removeprefix("nx-"))
    first = await connection.scalar(of_key)
    return subject if first is None else {**subject, "key": f"nx-{first}"}


def _check(limit: Limit, amount: float, ends_at: datetime, reason: str) -> None:
    if not math.isfinite(amount):
        raise InvalidKeyField("amount", "`amount` must be a number.")
    check_amount(msgspec.structs.replace(limit, amount=amount))
    now = datetime.now(UTC)
    if not now < ends_at <= now + timedelta(days=_MAX_DAYS):
        raise InvalidKeyField("ends_at", f"`ends_at` must be in the future, and within {_MAX_DAYS} days.")
    if not reason.strip() or len(reason) > MAX_REASON_CHARACTERS or "\0" in reason:
        raise InvalidKeyField("reason", f"`reason` is required: why, in at most {MAX_REASON_CHARACTERS} characters.")


def _in_force() -> ColumnElement[bool]:
    return and_(_overrides.c.ended_at.is_(None), _overrides.c.ends_at > func.now())


def _to_override(row: Row[Any]) -> Override:
    ended_at: datetime | None = row.ended_at
    in_force = ended_at is None and row.ends_at > datetime.now(UTC)
    return Override(
        *(row.id, row.limit_name, row.subject, row.amount, row.reason, row.author, row.created_at.isoformat(), row.ends_at.isoformat()),
        None if ended_at is None or ended_at == row.ends_at else ended_at.isoformat(),
        in_force,
    )
