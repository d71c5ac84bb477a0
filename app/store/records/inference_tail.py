"""Inferences as they are stored, each once: those of transactions that an earlier moment did not see, and a later one does.

A position is a snapshot of Postgres, as pg_current_snapshot() writes it: which transactions had ended.
"""

import datetime
import re
from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Row, Text, cast, func, or_, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.store.postgres import tables
from app.store.records.inference_queries import row_to_dict, shown_columns

MAX_POSITION_CHARACTERS = 4000
_POSITION = re.compile(r"\d{1,18}:\d{1,18}:(?:\d{1,18}(?:,\d{1,18})*)?")
# What was received before that is in partitions that are not read each time: its machine was cut off for days.
_OLDEST = datetime.timedelta(days=2)

_columns = tables.inferences.c

After = tuple[int, str]  # the transaction and the id of the last row of a page


def is_position(text: str) -> bool:
    return len(text) <= MAX_POSITION_CHARACTERS and _POSITION.fullmatch(text) is not None


def is_later(position: str, than: str) -> bool:
    """Whether it has seen transactions that began later: a database that was restored counts from the beginning."""
    return _next(position) > _next(than)


async def current_position(connection: AsyncConnection) -> str:
    return (await connection.execute(select(cast(func.pg_current_snapshot(), Text)))).scalar_one()


async def read_stored(
    connection: AsyncConnection, since: str, until: str, after: After | None, limit: int
) -> tuple[list[dict[str, Any]], After | None]:
    """A page of what was stored since one position and until another, in the order of storing; and the `after` of the next page, None: the
    last. A row has `key`, too: the public part of its key.
    """
    oldest_ms = int((datetime.datetime.now(datetime.UTC) - _OLDEST).timestamp() * 1000)
    query = (
        select(*shown_columns, _columns.stored_in)
        .where(_columns.id >= uuid7.lowest_at(oldest_ms), _unseen(since), ~_unseen(until))
        .order_by(_columns.stored_in, _columns.id)
        .limit(limit)
    )
    if after is not None:
        query = query.where(tuple_(_columns.stored_in, _columns.id) > tuple_(*after))
    rows = (await connection.execute(query)).all()
    last = (rows[-1].stored_in, rows[-1].id) if len(rows) == limit else None
    return [_to_dict(row) for row in rows], last


def _to_dict(row: Row[Any]) -> dict[str, Any]:
    fields = row_to_dict(row)
    del fields["stored_in"]
    return fields


def _unseen(position: str) -> ColumnElement[bool]:
    """Returns the condition on rows of transactions that were running at a position, or began later."""
    began_later = _columns.stored_in >= cast(_next(position), BigInteger)
    running = _running(position)
    return or_(began_later, _columns.stored_in.in_(running)) if running else began_later


def _next(position: str) -> int:
    return int(position.split(":")[1])


def _running(position: str) -> Sequence[int]:
    return [int(each) for each in position.split(":")[2].split(",") if each]
