"""Rows of keys and teams: what every change to them must lock and notify, and which keys are valid."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import ARRAY, ColumnElement, Select, Text, cast, func, literal, or_, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.postgres import tables

CHANNEL = "narthex_keys"

_keys = tables.keys


def valid_key_conditions() -> tuple[Any, ...]:
    """The conditions on keys that are neither revoked nor expired."""
    return _keys.c.revoked_at.is_(None), or_(_keys.c.expires_at.is_(None), _keys.c.expires_at > func.now())


def counted_prefix() -> ColumnElement[str]:
    """The prefix as which limits count a key: of the first of those that it replaces."""
    return func.coalesce(_keys.c.counts_as, _keys.c.prefix)


def ids_counted_as(prefixes: Collection[str]) -> Select[Any]:
    """The ids of keys that limits count as these, each by an index."""
    wanted = cast(list(prefixes), ARRAY(Text))
    return select(_keys.c.id).where(
        or_(_keys.c.counts_as == func.any(wanted), (_keys.c.prefix == func.any(wanted)) & _keys.c.counts_as.is_(None))
    )


def one_of_key(name: ColumnElement[str], key: str) -> ColumnElement[bool]:
    """Whether a name, nx- and the prefix, is of a key or of one of those that replace each other with it."""
    first = select(counted_prefix()).where(_keys.c.prefix == key.removeprefix("nx-")).scalar_subquery()
    return or_(name == key, name.in_(select(literal("nx-") + _keys.c.prefix).where(counted_prefix() == first)))


async def lock_changes(connection: AsyncConnection) -> None:
    """Lock the row that every change to keys or teams must lock first, so that two changes cannot deadlock."""
    await connection.execute(select(tables.keys_version.c.version).with_for_update())


async def notify_workers(connection: AsyncConnection, payload: str = "") -> None:
    """Notify every worker, at the commit, that keys or teams have changed; without it they notice within a second."""
    await connection.execute(text("SELECT pg_notify(:channel, :payload)"), {"channel": CHANNEL, "payload": payload})
