"""What the records know of an inference whose request nobody can be asked about any more."""

import asyncio
import zlib
from typing import Any

from msgspec import Struct
from sqlalchemy import Row, func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from app.record.content import PLAIN
from app.store.answers import Answer
from app.store.away import AWAY
from app.store.tables import inference_content, inferences

_PATIENCE_S = 5.0


class RecordsAway(Exception):
    """Postgres cannot be asked."""


class Recorded(Struct, frozen=True):
    """`answered` and no `answer`: what was said is not kept in full, or is longer than was wanted."""

    answered: bool
    answer: Answer | None = None


async def recorded(database: AsyncEngine, id: str, most_bytes: int) -> Recorded | None:
    """None: no record of it is there. Raises RecordsAway."""
    of, content = inferences.c, inference_content.c
    # More than PLAIN and the answer is more than what may be told again: such a reply is not even loaded.
    fits = func.length(content.reply) <= most_bytes + len(PLAIN)
    kept = inferences.outerjoin(inference_content, (content.id == of.id) & (content.policy == "full") & fits)
    columns = (of.outcome, of.status, of.episode_id, of.streamed, of.served_provider, of.served_model, of.dropped, of.guided, content.reply)
    query = select(*columns).select_from(kept).where(of.id == id)
    try:
        async with asyncio.timeout(_PATIENCE_S), database.connect() as connection:
            row = (await connection.execute(query)).first()
    except AWAY as fault:
        raise RecordsAway(repr(fault)) from fault
    return None if row is None else await asyncio.to_thread(_read, id, row, most_bytes)


def _read(id: str, row: Row[*tuple[Any, ...]], most_bytes: int) -> Recorded:
    if row.outcome != "answered":
        return Recorded(False)
    reply = None if row.reply is None else unpacked_within(row.reply, most_bytes)
    if reply is None:
        return Recorded(True)
    answer = Answer(
        inference_id=id,
        episode_id=row.episode_id,
        streamed=row.streamed,
        body=reply,
        served_provider=row.served_provider,
        served_model=row.served_model,
        dropped=tuple(row.dropped or ()),
        status=row.status,
        guided=row.guided,
    )
    return Recorded(True, answer)


def unpacked_within(packed: bytes, most_bytes: int) -> bytes | None:
    """An ask or a reply as it passed. None: it is longer.

    A few bytes may be of a gigabyte of the same letter, so no more of it is unpacked than is wanted.
    """
    if packed[:1] == PLAIN:
        return packed[1:] if len(packed) <= most_bytes + 1 else None
    reply = zlib.decompressobj().decompress(packed, most_bytes + 1)
    return reply if len(reply) <= most_bytes else None
