"""What the records know of an inference whose request nobody can be asked about any more."""

import asyncio
import zlib
from typing import Any

from msgspec import Struct
from sqlalchemy import Row, func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from app.store.content_packing import UNCOMPRESSED_PREFIX
from app.store.db_errors import DB_UNAVAILABLE_ERRORS
from app.store.idempotent_responses import StoredResponse
from app.store.tables import inference_content, inferences

_QUERY_TIMEOUT_S = 5.0


class RecordsUnavailable(Exception):
    """Postgres cannot be asked."""


class RecordedOutcome(Struct, frozen=True):
    """`answered` and no `answer`: what was said is not kept in full, or is longer than was wanted."""

    succeeded: bool
    stored_response: StoredResponse | None = None


async def find_recorded_outcome(database: AsyncEngine, id: str, max_bytes: int) -> RecordedOutcome | None:
    """None: no record of it is there. Raises RecordsAway."""
    inference, content = inferences.c, inference_content.c
    # More than PLAIN and the answer is more than what may be told again: such a reply is not even loaded.
    fits = func.length(content.reply) <= max_bytes + len(UNCOMPRESSED_PREFIX)
    joined = inferences.outerjoin(inference_content, (content.id == inference.id) & (content.policy == "full") & fits)
    columns = (
        inference.outcome,
        inference.status,
        inference.episode_id,
        inference.streamed,
        inference.served_provider,
        inference.served_model,
        inference.dropped,
        inference.guided,
        content.reply,
    )
    query = select(*columns).select_from(joined).where(inference.id == id)
    try:
        async with asyncio.timeout(_QUERY_TIMEOUT_S), database.connect() as connection:
            row = (await connection.execute(query)).first()
    except DB_UNAVAILABLE_ERRORS as fault:
        raise RecordsUnavailable(repr(fault)) from fault
    return None if row is None else await asyncio.to_thread(_to_outcome, id, row, max_bytes)


def _to_outcome(id: str, row: Row[*tuple[Any, ...]], max_bytes: int) -> RecordedOutcome:
    if row.outcome != "answered":
        return RecordedOutcome(False)
    body = None if row.reply is None else unpack_within(row.reply, max_bytes)
    if body is None:
        return RecordedOutcome(True)
    stored_response = StoredResponse(
        inference_id=id,
        episode_id=row.episode_id,
        streamed=row.streamed,
        body=body,
        served_provider=row.served_provider,
        served_model=row.served_model,
        dropped=tuple(row.dropped or ()),
        status=row.status,
        guided=row.guided,
    )
    return RecordedOutcome(True, stored_response)


def unpack_within(packed: bytes, max_bytes: int) -> bytes | None:
    """An ask or a reply as it passed. None: it is longer.

    A few bytes may be of a gigabyte of the same letter, so no more of it is unpacked than is wanted.
    """
    if packed[:1] == UNCOMPRESSED_PREFIX:
        return packed[1:] if len(packed) <= max_bytes + 1 else None
    unpacked = zlib.decompressobj().decompress(packed, max_bytes + 1)
    return unpacked if len(unpacked) <= max_bytes else None
