"""The inferences next to one in a list: the one before it and the one after it that the same filters match."""

from msgspec import Struct, structs
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.domain.errors import InvalidKeyField
from app.store.postgres import tables
from app.store.records.inference_filter import InferenceFilter, check_names, conditions, id_conditions
from app.store.records.inference_queries import list_inferences, searched_ranges, with_episode_ids


class Neighbours(Struct, frozen=True):
    """Ids of the next newer and the next older inference; None: there is none."""

    newer: str | None
    older: str | None


async def find_neighbours(connection: AsyncConnection, filters: InferenceFilter, id: str, *, keep_hours_days: int) -> Neighbours:
    """Finds the neighbours of an id, which need not match the filters itself. Raises InvalidKeyField as page_inferences(), and for text."""
    if filters.text is not None:
        raise InvalidKeyField("text", "What is found by `text` has no neighbours: list it.")
    older = await list_inferences(connection, filters, keep_hours_days=keep_hours_days, before=id, limit=1)
    newer = await _find_newer(connection, filters, id, keep_hours_days)
    await check_names(connection, filters, is_empty=newer is None and not older)
    return Neighbours(newer, older[0]["id"] if older else None)


async def _find_newer(connection: AsyncConnection, filters: InferenceFilter, id: str, keep_hours_days: int) -> str | None:
    """Finds the oldest that is newer. Hours without a match are not read."""
    filters = await with_episode_ids(connection, filters)
    since_ms = max(uuid7.created_ms(id), filters.since_ms or 0)
    filters, ids = structs.replace(filters, since_ms=since_ms), tables.inferences.c.id
    query = select(ids).where(ids > id, *conditions(filters), *id_conditions(filters)).order_by(ids).limit(1)
    ranges = [each async for each in searched_ranges(connection, filters, keep_hours_days, None)]
    for begin_ms, end_ms in reversed(ranges):
        within = query.where(ids >= uuid7.lowest_at(begin_ms), ids < uuid7.lowest_at(end_ms))
        if (found := await connection.scalar(within)) is not None:
            return found
    return None
