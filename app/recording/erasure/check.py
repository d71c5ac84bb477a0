"""Proof of an erasure: every store is searched again, by the order's hash, and what is left is counted."""

import functools
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import NamedTuple

from msgspec import Struct
from sqlalchemy.ext.asyncio import AsyncConnection

from app.recording.erasure.copies import CopyStore
from app.recording.erasure.datasets import count_left_dataset_rows, list_dataset_days
from app.recording.erasure.erasures import resolve_selector
from app.recording.erasure.feedback import count_left_feedback
from app.recording.erasure.hashes import Selector, SqlHash, hash_of, read_key
from app.recording.erasure.inferences import (
    find_erased,
    find_left_content,
    find_left_inferences,
    find_left_repetitions,
    find_left_texts,
    list_days,
)
from app.recording.erasure.orders import Order, read_order
from app.recording.erasure.subjects import count_left_sums
from app.recording.writes.cost_changes import driver_connection
from app.settings import Settings
from app.store.postgres.partitions import DAY_MS, Connection

_MAX_EXAMPLES = 20
_SUBJECT_TABLE = "subject_rollups_by_day"

OpenTransaction = Callable[[], AbstractAsyncContextManager[AsyncConnection]]


class Left(NamedTuple):
    """The findings of one search: their number, and the ids of inferences among them."""

    number: int
    inferences: Sequence[str] = ()


class Checked(Struct, frozen=True):
    """The result of a check: what is left of an order in the part that was searched."""

    id: str
    hash: str
    left: Mapping[str, int]  # by store, 0 where nothing is left
    inferences: Sequence[str]  # ids of the first ones that are left
    matches: bool | None  # whether the order is about the selector that was given; null if none was
    days: int  # how many days were searched
    next: int | None  # the day (since 1970) to go on with; null if everything was searched


async def _left_inferences(connection: Connection, order: Order, sql_hash: SqlHash, day: int) -> Left:
    found = await find_left_inferences(connection, order, sql_hash, day)
    return Left(len(found), found)


async def _left_content(connection: Connection, _order: Order, _sql_hash: SqlHash, day: int) -> Left:
    found = await find_left_content(connection, day)
    return Left(len(found), found)


async def _left_repetitions(connection: Connection, _order: Order, _sql_hash: SqlHash, day: int) -> Left:
    found = await find_left_repetitions(connection, day)
    return Left(len(found), found)


async def _left_texts(connection: Connection, _order: Order, _sql_hash: SqlHash, day: int) -> Left:
    found = await find_left_texts(connection, day)
    return Left(len(found), found)


async def _left_sums(connection: Connection, order: Order, sql_hash: SqlHash, day: int) -> Left:
    return Left(await count_left_sums(connection, order, sql_hash, day))


async def _left_feedback(connection: Connection, order: Order, sql_hash: SqlHash, day: int) -> Left:
    return Left(await count_left_feedback(connection, order, sql_hash, day))


async def _left_dataset_rows(connection: Connection, order: Order, sql_hash: SqlHash, day: int) -> Left:
    return Left(await count_left_dataset_rows(connection, order, sql_hash, day))


# What is searched day by day, by the names of stores. A store that holds something of users gets a search here, and a step in
# app/recording/erasure/steps.py.
SEARCHES: Mapping[str, Callable[[Connection, Order, SqlHash, int], Awaitable[Left]]] = {
    "inferences": _left_inferences,
    "contents": _left_content,
    "repetitions": _left_repetitions,
    "texts": _left_texts,
    "sums": _left_sums,
    "feedback": _left_feedback,
    "dataset_rows": _left_dataset_rows,
}
_COPIES = ("stored_responses", "response_items", "idempotent_responses")


async def check_erasure(
    open_transaction: OpenTransaction,
    settings: Settings,
    id: str,
    *,
    from_day: int | None = None,
    selector: Selector | None = None,
    budget_s: float = 10.0,
) -> Checked | None:
    """Search Redis, and then day after day, the newest first, until `budget_s` is over; with `from_day` only
    days from then back.

    Returns None if there is no such order. Raises CopiesUnavailable, and InvalidKeyField for an episode that
    is named by a text if the order is of all teams.
    """
    deadline = time.monotonic() + budget_s
    async with _driver(open_transaction) as connection:
        order, key = await read_order(connection, id), await read_key(connection)
        if order is None or key is None:
            return None
        days = await _days(connection, order)
    matches = None if selector is None else hash_of(key, resolve_selector(selector, order.team_id)) == order.hash
    sql_hash, left, examples = SqlHash.of(key, order.kind, order.tag), Counter[str](), list[str]()
    if from_day is None:
        async with CopyStore(settings.redis_url) as copies, _driver(open_transaction) as connection:
            left.update(await copies.count(functools.partial(find_erased, connection)))
    remaining = [day for day in days if from_day is None or day <= from_day]
    searched = 0
    for day in remaining:
        if searched and time.monotonic() > deadline:
            break
        searched += 1
        async with _driver(open_transaction) as connection:
            for store, search in SEARCHES.items():
                found = await search(connection, order, sql_hash, day)
                left[store] += found.number
                examples += found.inferences[: _MAX_EXAMPLES - len(examples)]
    stores = (*SEARCHES, *(_COPIES if from_day is None else ()))
    return Checked(
        id,
        order.hash.hex(),
        {store: left[store] for store in stores},
        examples,
        matches,
        searched,
        remaining[searched] if searched < len(remaining) else None,
    )


async def _days(connection: Connection, order: Order) -> list[int]:
    """Return the days with anything from before the order, the newest first."""
    newest = int(order.requested_at.timestamp() * 1000) // DAY_MS
    days = {day for table in ("inferences", _SUBJECT_TABLE, "feedback") for day in await list_days(connection, table)}
    days.update(await list_dataset_days(connection))  # rows outlive their inferences
    return sorted((day for day in days if day <= newest), reverse=True)


@asynccontextmanager
async def _driver(open_transaction: OpenTransaction) -> AsyncGenerator[Connection]:
    """The asyncpg connection of a transaction that is opened."""
    async with open_transaction() as connection:
        yield await driver_connection(connection)
