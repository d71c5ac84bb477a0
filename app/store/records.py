"""What is recorded of inferences, read back."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct
from sqlalchemy import Row, Select, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from app import uuid7
from app.record.content import unpack
from app.store import tables

# A caller may send an episode that was born up to a minute from now, so its inferences may be that much older than it.
_EPISODE_TOLERANCE_MS = 60_000
_PATIENCE_S = 30.0  # enough for a wide question


class Filter(Struct, frozen=True):
    """Which inferences; None = any. `since_ms` and `until_ms`: times of receipt, Unix time."""

    model: str | None = None
    team_id: str | None = None
    outcome: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None


@asynccontextmanager
async def asking(database: AsyncEngine) -> AsyncGenerator[AsyncConnection, None]:
    """A connection for a while. Raises TimeoutError over it: a Postgres that says nothing for so long is away."""
    async with asyncio.timeout(_PATIENCE_S), database.connect() as connection:
        yield connection


async def list_inferences(connection: AsyncConnection, wanted: Filter, *, before: str | None, limit: int) -> list[dict[str, Any]]:
    """Newest first; `before`: the id that the last page ended with."""
    of = tables.inferences.c
    query = select(tables.inferences).order_by(of.id.desc()).limit(limit)
    if before is not None:
        query = query.where(of.id < before)
    if wanted.model is not None:
        query = query.where(of.model == wanted.model)
    if wanted.team_id is not None:
        query = query.where(of.team_id == wanted.team_id)
    if wanted.outcome is not None:
        query = query.where(of.outcome == wanted.outcome)
    if wanted.since_ms is not None:
        query = query.where(of.id >= uuid7.first_at(wanted.since_ms))
    if wanted.until_ms is not None:
        query = query.where(of.id < uuid7.first_at(wanted.until_ms))
    return [_told(row) for row in await connection.execute(query)]


async def show_inference(connection: AsyncConnection, id: str) -> dict[str, Any] | None:
    """One, with what was asked and answered, as text of the wire; None if there is none (yet: records arrive within moments)."""
    row = (await connection.execute(select(tables.inferences).where(tables.inferences.c.id == id))).first()
    if row is None:
        return None
    content = tables.inference_content
    said = (await connection.execute(select(content).where(content.c.id == id))).first()
    told = _told(row)
    told["content"] = None if said is None else {"policy": said.policy, "ask": _text(said.ask), "reply": _text(said.reply)}
    return told


async def list_episode(connection: AsyncConnection, episode_id: str, *, after: str | None, limit: int) -> list[dict[str, Any]]:
    """Inferences of an episode, oldest first; `after`: the id that the last page ended with."""
    of = tables.inferences.c
    earliest = uuid7.first_at(uuid7.born_ms(episode_id) - _EPISODE_TOLERANCE_MS)
    query: Select[Any] = select(tables.inferences).where(of.episode_id == episode_id, of.id >= earliest).order_by(of.id).limit(limit)
    if after is not None:
        query = query.where(of.id > after)
    return [_told(row) for row in await connection.execute(query)]


def _told(row: Row[Any]) -> dict[str, Any]:
    return {**row._mapping, "received_at": row.received_at.isoformat()}  # pyright: ignore[reportPrivateUsage]


def _text(packed: bytes | None) -> str | None:
    return None if packed is None else unpack(packed).decode("utf-8", "replace")
