"""Orders of erasures as they are carried out: the one that is due, how far it is, and what arrives late."""

import datetime
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from app.domain import uuid7
from app.recording.erasure.hashes import SelectorKind
from app.store.postgres.partitions import Connection

_MAX_ERROR_CHARACTERS = 300


class Order(Struct, frozen=True):
    """An order as it is carried out. If `value` is None, it is complete, and only its hash is known."""

    id: str
    number: int
    kind: SelectorKind
    tag: str | None
    hash: bytes
    value: str | None
    team_id: str | None
    keep_tags: Sequence[str]
    requested_at: datetime.datetime
    step: str
    position: Any
    counts: Mapping[str, int]
    failures: int
    completed_at: datetime.datetime | None

    @property
    def before(self) -> str:
        """Inferences with lower ids are those that were received before the order."""
        return uuid7.lowest_at(int(self.requested_at.timestamp() * 1000) + 1)


_ORDER_COLUMNS = """
    id::text, number, kind, tag, hash, value, team_id::text, keep_tags, requested_at, step, position::text, counts::text, failures,
    completed_at
"""


async def read_order(connection: Connection, id: str) -> Order | None:
    row = await connection.fetchrow(f"SELECT {_ORDER_COLUMNS} FROM erasures WHERE id = $1::uuid", id)  # noqa: S608
    return None if row is None else _to_order(row)


async def lock_due_order(connection: Connection, settle_s: float) -> Order | None:
    """Returns the order that has waited longest, locked for this transaction: other writers take others.

    Returns None if nothing is due. An order that is complete is due again `settle_s` after late records of it
    were erased.
    """
    row = await connection.fetchrow(_LOCK_DUE, settle_s)
    return None if row is None else _to_order(row)


# Not FOR UPDATE: nothing of an order is locked by others.
_LOCK_DUE = f"""
    SELECT {_ORDER_COLUMNS} FROM erasures
    WHERE next_at <= clock_timestamp() AND (completed_at IS NULL OR id IN (
        SELECT erasure_id FROM erasure_arrivals WHERE at <= clock_timestamp() - make_interval(secs => $1)
    ))
    ORDER BY next_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
"""  # noqa: S608


async def move_order(
    connection: Connection, order: Order, step: str, position: Any, counts: Mapping[str, int], continues_at: datetime.datetime | None
) -> None:
    """Stores what one piece of work did, in its transaction.

    If `continues_at` is None, the order goes on at once, after the others that are due.
    """
    await connection.execute(
        """
        UPDATE erasures SET step = $2, position = $3::jsonb, counts = $4::jsonb, next_at = coalesce($5, clock_timestamp()),
            failures = 0, error = NULL
        WHERE id = $1::uuid
        """,
        order.id,
        step,
        None if position is None else msgspec.json.encode(position).decode(),
        msgspec.json.encode(counts).decode(),
        continues_at,
    )


async def complete_order(connection: Connection, order: Order) -> None:
    """Completes the order: from now on only the hash of its value is known."""
    await connection.execute(
        "UPDATE erasures SET value = NULL, completed_at = coalesce(completed_at, clock_timestamp()) WHERE id = $1::uuid", order.id
    )


async def note_failure(connection: Connection, id: str, error: str, wait_s: float) -> None:
    await connection.execute(
        """
        UPDATE erasures SET error = $2, failures = failures + 1, next_at = clock_timestamp() + make_interval(secs => $3)
        WHERE id = $1::uuid
        """,
        id,
        error[:_MAX_ERROR_CHARACTERS],
        wait_s,
    )


async def note_arrivals(connection: Connection, records: Mapping[str, int]) -> None:
    """Notes late records that were erased as they were stored, by order, in the transaction that stores them."""
    if records:
        await connection.execute(
            "INSERT INTO erasure_arrivals (erasure_id, records) SELECT * FROM unnest($1::uuid[], $2::integer[])",
            list(records),
            list(records.values()),
        )


async def due_arrivals(connection: Connection, id: str, settle_s: float) -> dict[int, int]:
    """Returns how many late records of an order came `settle_s` ago or earlier, by the id of the note."""
    rows = await connection.fetch(
        "SELECT id, records FROM erasure_arrivals WHERE erasure_id = $1::uuid AND at <= clock_timestamp() - make_interval(secs => $2)",
        id,
        settle_s,
    )
    return {row["id"]: row["records"] for row in rows}


async def forget_arrivals(connection: Connection, ids: Collection[int]) -> None:
    await connection.execute("DELETE FROM erasure_arrivals WHERE id = any($1::bigint[])", list(ids))


async def last_arrival(connection: Connection, id: str) -> datetime.datetime | None:
    return await connection.fetchval("SELECT max(at) FROM erasure_arrivals WHERE erasure_id = $1::uuid", id)


async def read_orders_after(connection: Connection, number: int, since: datetime.datetime) -> list[Order]:
    """Returns the orders with higher numbers that were given after `since`."""
    rows = await connection.fetch(
        f"SELECT {_ORDER_COLUMNS} FROM erasures WHERE number > $1 AND requested_at > $2 ORDER BY number",  # noqa: S608
        number,
        since,
    )
    return [_to_order(row) for row in rows]


async def newest_number(connection: Connection) -> int:
    return await connection.fetchval("SELECT coalesce(max(number), 0) FROM erasures")


def _to_order(row: Mapping[str, Any]) -> Order:
    fields: dict[str, Any] = {name: row[name] for name in Order.__struct_fields__}
    fields["position"] = None if row["position"] is None else msgspec.json.decode(row["position"])
    fields["counts"] = msgspec.json.decode(row["counts"])
    return Order(**fields)
