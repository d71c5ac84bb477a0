"""Rows of keys and teams: what every change to them must lock and notify, and which keys are valid."""

from typing import Any

from sqlalchemy import func, or_, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store import tables

CHANNEL = "narthex_keys"

_keys = tables.keys


def valid_key_conditions() -> tuple[Any, ...]:
    """The conditions on keys that are neither revoked nor expired."""
    return _keys.c.revoked_at.is_(None), or_(_keys.c.expires_at.is_(None), _keys.c.expires_at > func.now())


async def lock_changes(connection: AsyncConnection) -> None:
    """Lock the row that every change to keys or teams must lock first, so that two changes cannot deadlock."""
    await connection.execute(select(tables.keys_version.c.version).with_for_update())


async def notify_workers(connection: AsyncConnection, payload: str = "") -> None:
    """Notify every worker, at the commit, that keys or teams have changed; without it they notice within a second."""
    await connection.execute(text("SELECT pg_notify(:channel, :payload)"), {"channel": CHANNEL, "payload": payload})
