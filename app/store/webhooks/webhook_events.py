"""Events of webhooks and their deliveries: an outbox. What is created here, in any transaction, is sent by a writer until it is taken."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec
from msgspec import Struct
from sqlalchemy import Row, func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.store.postgres import tables
from app.store.postgres.paging import Keyset, Page, PageQuery, SortColumn

EventType = Literal["budget.threshold_reached", "experiment.arm_stopped", "experiment.promoted", "webhook.test"]
Status = Literal["pending", "delivered", "failed"]
# A delivery that a writer has begun, and of which nothing was heard since, is tried again.
CLAIM_S = 60
# Deliveries of one webhook that are tried together: one that does not answer holds up no other.
_EACH_AT_ONCE = 4
_AT_ONCE = 40

_events, _deliveries, _webhooks = tables.webhook_events, tables.webhook_deliveries, tables.webhooks
_KEYSET = Keyset({"created_at": SortColumn(_deliveries.c.created_at, datetime)}, SortColumn(_deliveries.c.id))


class Delivery(Struct, frozen=True):
    """One event to one webhook. `event_id`: sent as `webhook-id`, the same each time. `response_status` null: there was no response.

    `next_attempt_at`: of a pending one.
    """

    id: str
    event_id: str
    type: str
    status: Status
    attempts: int
    created_at: str
    next_attempt_at: str | None
    attempted_at: str | None
    response_status: int | None
    error: str | None


class DueDelivery(Struct, frozen=True):
    """A delivery that a writer is to send now. `attempts` includes this one."""

    id: str
    webhook_id: str
    event_id: str
    url: str
    encrypted: str
    body: str
    attempts: int


async def add_event(
    connection: AsyncConnection,
    type: EventType,
    fields: Mapping[str, Any],
    webhook_ids: Sequence[str],
    once: Sequence[Any] | None,
) -> str | None:
    """Returns the event's id, or None if there is one with the same `once` already."""
    id, now = uuid7.mint(), datetime.now(UTC).isoformat(timespec="milliseconds")
    body = msgspec.json.encode({"type": type, "timestamp": now, "data": fields}).decode()
    digest = None if once is None else hashlib.blake2b(msgspec.msgpack.encode(once), digest_size=16).digest()
    row = insert(_events).values(id=id, once=digest, body=body)
    if await connection.scalar(row.on_conflict_do_nothing(index_elements=["once"]).returning(_events.c.id)) is None:
        return None
    if not webhook_ids:
        return id
    await connection.execute(_deliveries.insert(), [{"id": uuid7.mint(), "webhook_id": each, "event_id": id} for each in webhook_ids])
    return id


async def lock_budget_check(connection: AsyncConnection) -> bool:
    """Takes a lock until the end of the transaction.

    Returns False if another process has it, which creates the same events.
    """
    return bool(await connection.scalar(text("SELECT pg_try_advisory_xact_lock(hashtext('narthex budget check'))")))


async def page_deliveries(connection: AsyncConnection, query: PageQuery, webhook_id: str, status: Status | None) -> Page[Delivery]:
    selected = _select_deliveries().where(_deliveries.c.webhook_id == webhook_id)
    if status is not None:
        selected = selected.where(_deliveries.c.status == status)
    rows = (await connection.execute(_KEYSET.page_query(selected, query))).all()
    return _KEYSET.page(rows, query, _to_delivery)


async def find_delivery(connection: AsyncConnection, webhook_id: str, id: str) -> Delivery | None:
    if not uuid7.is_uuid7(id):
        return None
    query = _select_deliveries().where(_deliveries.c.webhook_id == webhook_id, _deliveries.c.id == id)
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else _to_delivery(row)


async def find_delivery_of(connection: AsyncConnection, webhook_id: str, event_id: str) -> Delivery:
    """The newest of an event."""
    query = _select_deliveries().where(_deliveries.c.webhook_id == webhook_id, _deliveries.c.event_id == event_id)
    return _to_delivery((await connection.execute(query.order_by(_deliveries.c.id.desc()).limit(1))).one())


async def redeliver(connection: AsyncConnection, webhook_id: str, id: str) -> None:
    """Sends a delivery again, from the first attempt on, whether it was delivered or not."""
    again = update(_deliveries).where(_deliveries.c.id == id, _deliveries.c.webhook_id == webhook_id)
    await connection.execute(again.values(status="pending", attempts=0, next_attempt_at=func.now()))


async def claim_due(connection: AsyncConnection) -> list[DueDelivery]:
    """Deliveries whose time has come, for this writer alone, the oldest first; others may claim them again after CLAIM_S."""
    rows = await connection.execute(_CLAIM, {"each": _EACH_AT_ONCE, "most": _AT_ONCE, "claim_s": CLAIM_S})
    return [DueDelivery(**row._mapping) for row in rows]  # pyright: ignore[reportPrivateUsage]


async def note_attempt(
    connection: AsyncConnection, due: DueDelivery, *, response_status: int | None, error: str | None, retry_in_s: float | None
) -> None:
    """Notes what came of an attempt.

    `error` is None if it was delivered, `retry_in_s` if it is not tried again. Nothing is noted of an earlier
    attempt, whose claim has ended.
    """
    delivered = error is None
    values: dict[str, Any] = {
        "status": "delivered" if delivered else "failed" if retry_in_s is None else "pending",
        "attempted_at": func.now(),
        "response_status": response_status,
        "error": error,
    }
    if retry_in_s is not None:
        values["next_attempt_at"] = func.now() + timedelta(seconds=retry_in_s)
    of_attempt = update(_deliveries).where(_deliveries.c.id == due.id, _deliveries.c.attempts == due.attempts)
    await connection.execute(of_attempt.values(values))


def _select_deliveries() -> Any:
    type = text("webhook_events.body::jsonb ->> 'type' AS type")
    return select(_deliveries, type).join(_events, _events.c.id == _deliveries.c.event_id)


def _to_delivery(row: Row[Any]) -> Delivery:
    next_attempt_at, attempted_at = (None if each is None else each.isoformat() for each in (row.next_attempt_at, row.attempted_at))
    return Delivery(
        *(row.id, row.event_id, row.type, row.status, row.attempts, row.created_at.isoformat()),
        next_attempt_at if row.status == "pending" else None,
        attempted_at,
        row.response_status,
        row.error,
    )


_CLAIM = text("""
    WITH due AS (
        SELECT id FROM (
            SELECT deliveries.id, deliveries.next_attempt_at,
                   row_number() OVER (PARTITION BY deliveries.webhook_id ORDER BY deliveries.next_attempt_at) AS place
            FROM webhook_deliveries AS deliveries JOIN webhooks ON webhooks.id = deliveries.webhook_id AND webhooks.enabled
            WHERE deliveries.status = 'pending' AND deliveries.next_attempt_at <= now()
        ) AS ranked
        WHERE place <= :each ORDER BY next_attempt_at LIMIT :most
    )
    UPDATE webhook_deliveries AS claimed
    SET attempts = claimed.attempts + 1, next_attempt_at = now() + make_interval(secs => :claim_s)
    FROM webhooks, webhook_events AS events
    WHERE claimed.id IN (SELECT id FROM due) AND claimed.status = 'pending' AND claimed.next_attempt_at <= now()
        AND webhooks.id = claimed.webhook_id AND events.id = claimed.event_id
    RETURNING claimed.id::text, claimed.webhook_id::text, claimed.event_id::text, webhooks.url, webhooks.encrypted, events.body,
        claimed.attempts
""")
