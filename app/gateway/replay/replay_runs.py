"""The queries of a gateway process that runs a replay: its lease, the items, and what each came to.

Everything is written under the lease: a process that has lost it writes nothing any more.
"""

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.records.outcome_conditions import refused, schema_failed
from app.store.replays.replays import COUNTS, ReplayDefinition, ReplayStatus

LEASE_S = 15.0
_JSON_COLUMNS = frozenset({"original", "replayed", "judgement"})


class LeaseLost(Exception):
    """Another process runs the replay by now."""


class OriginalErased(Exception):
    """The original was erased after its content was read."""


class ReplayCancelled(Exception):
    """No further item is to be begun."""


class HeldReplay(Struct, frozen=True):
    """A replay that this process runs."""

    id: str
    lease: int
    definition: ReplayDefinition
    key_id: str
    spent_microusd: int  # when the lease was taken


class Item(Struct, frozen=True):
    """An inference that a replay answers again."""

    number: int
    original_id: str
    tries: int  # processes that have begun it
    inference_id: str | None = None
    began_at: datetime.datetime | None = None  # None: no request of it is in progress, or what that cost is settled
    reserved_microusd: int = 0
    replayed: Mapping[str, Any] | None = None  # the values of the response that is known already, of an item whose judge was interrupted


class RecordedRequest(Struct, frozen=True):
    """An inference as it is recorded."""

    id: str
    team_id: str
    team_content: str
    route: str
    function: str | None
    streamed: bool
    outcome: str
    policy: str | None  # None: its content is kept no longer
    is_deleted: bool
    request: bytes | None  # packed
    response: bytes | None  # packed
    values: Mapping[str, Any]  # of the metrics that are compared, as results of experiments define them


_TAKE = text("""
    UPDATE replays SET holder = :holder, lease = lease + 1, lease_until = clock_timestamp() + :lease_s * interval '1 second'
    WHERE id = (
        SELECT id FROM replays WHERE status = 'running' AND (lease_until IS NULL OR lease_until < clock_timestamp())
        ORDER BY (
            SELECT count(*) FROM replays AS held
            WHERE held.team_id = replays.team_id AND held.status = 'running' AND held.lease_until >= clock_timestamp()
        ), lease_until NULLS FIRST, id LIMIT 1 FOR UPDATE SKIP LOCKED
    )
    RETURNING id::text, lease, definition, key_id::text, spent_microusd
""")
_OTHERS_WAIT = text("""
    WITH open AS (
        SELECT id, team_id, coalesce(lease_until >= clock_timestamp(), false) AS is_held FROM replays WHERE status = 'running'
    ), teams AS (SELECT team_id, count(*) FILTER (WHERE is_held) AS held, bool_and(is_held) AS are_held FROM open GROUP BY team_id)
    SELECT EXISTS (
        SELECT FROM teams AS waiting, teams AS own
        WHERE NOT waiting.are_held AND waiting.held < own.held AND own.team_id = (SELECT team_id FROM open WHERE id = :id)
    )
""")
_RENEW = text("""
    UPDATE replays SET lease_until = clock_timestamp() + :lease_s * interval '1 second',
        reason = CASE status WHEN 'running' THEN :reason ELSE reason END
    WHERE id = :id AND lease = :lease RETURNING status
""")
# Both tables have an original_id.
_IS_NOT_ERASED = "NOT EXISTS (SELECT FROM inferences AS i WHERE i.id = replay_items.original_id AND i.erased_at IS NOT NULL)"
# Locked until the end of the transaction: nothing is written after the lease has gone to another process.
_HOLDS = text("SELECT status FROM replays WHERE id = :id AND lease = :lease FOR NO KEY UPDATE")


async def take_replay(connection: AsyncConnection, holder: str) -> HeldReplay | None:
    """A replay that nobody runs, of the teams of which the fewest are run: one that never was, else the one that has waited for longest.

    None: there is none.
    """
    row = (await connection.execute(_TAKE, {"holder": holder, "lease_s": LEASE_S})).first()
    if row is None:
        return None
    return HeldReplay(row.id, row.lease, msgspec.convert(row.definition, ReplayDefinition), row.key_id, row.spent_microusd)


async def renew_lease(connection: AsyncConnection, held: HeldReplay, reason: str | None) -> bool:
    """Whether it still runs; False: it was cancelled. Raises LeaseLost.

    `reason` is what it waits for; None means that it waits for nothing.
    """
    status = await connection.scalar(_RENEW, {"id": held.id, "lease": held.lease, "lease_s": LEASE_S, "reason": reason})
    if status is None:
        raise LeaseLost
    return status == "running"


async def others_wait(connection: AsyncConnection, held: HeldReplay) -> bool:
    """Whether a team has a replay that nobody runs, and fewer that are run than the team of this one."""
    return bool(await connection.scalar(_OTHERS_WAIT, {"id": held.id}))


async def release_lease(connection: AsyncConnection, held: HeldReplay) -> None:
    """Another process may go on at once; those that have waited for longer come first."""
    query = text(f"""
        UPDATE replays SET holder = NULL, lease_until = clock_timestamp(), lease = lease + 1,
            counts = CASE WHEN status <> 'running' THEN {COUNTS} END
        WHERE id = :id AND lease = :lease
    """)  # noqa: S608
    await connection.execute(query, {"id": held.id, "lease": held.lease})


async def finish_replay(connection: AsyncConnection, held: HeldReplay, status: ReplayStatus, reason: str | None) -> None:
    query = text(f"""
        UPDATE replays SET status = :status, reason = :reason, ended_at = clock_timestamp(), holder = NULL, lease_until = NULL,
            lease = lease + 1, counts = {COUNTS}
        WHERE id = :id AND lease = :lease AND status = 'running'
    """)  # noqa: S608
    await connection.execute(query, {"id": held.id, "lease": held.lease, "status": status, "reason": reason})


async def read_interrupted(connection: AsyncConnection, held: HeldReplay) -> Sequence[Item]:
    """Items that a process had begun when it ended."""
    query = text("""
        SELECT number, original_id::text, tries, inference_id::text, began_at, reserved_microusd, replayed FROM replay_items
        WHERE replay_id = :id AND status = 'running' ORDER BY number
    """)
    return [Item(*row) for row in await connection.execute(query, {"id": held.id})]


async def read_pending(connection: AsyncConnection, held: HeldReplay, after: int, limit: int) -> Sequence[Item]:
    query = text("""
        SELECT number, original_id::text, tries FROM replay_items
        WHERE replay_id = :id AND status = 'pending' AND number > :after ORDER BY number LIMIT :limit
    """)
    return [Item(*row) for row in await connection.execute(query, {"id": held.id, "after": after, "limit": limit})]


async def take_item(connection: AsyncConnection, held: HeldReplay, item: Item) -> None:
    """Counts a try before anything is done that may end the process. Raises LeaseLost, ReplayCancelled."""
    await _check_lease(connection, held, must_run=True)
    query = text("""
        UPDATE replay_items SET status = 'running', tries = :tries, inference_id = NULL, began_at = NULL
        WHERE replay_id = :id AND number = :number
    """)
    await connection.execute(query, {"id": held.id, "number": item.number, "tries": item.tries + 1})


async def begin_item(connection: AsyncConnection, held: HeldReplay, item: Item, inference_id: str, microusd: int) -> None:
    """An engine is about to be called for it, for which so much is reserved. Raises LeaseLost, ReplayCancelled, OriginalErased."""
    await _check_lease(connection, held, must_run=True)
    query = text(f"""
        UPDATE replay_items SET status = 'running', inference_id = :inference_id, tries = :tries, began_at = clock_timestamp(),
            reserved_microusd = :microusd
        WHERE replay_id = :id AND number = :number AND {_IS_NOT_ERASED}
    """)  # noqa: S608
    values = {"id": held.id, "number": item.number, "inference_id": inference_id, "tries": item.tries + 1, "microusd": microusd}
    if not (await connection.execute(query, values)).rowcount:
        raise OriginalErased


async def reserve_for_judge(connection: AsyncConnection, held: HeldReplay, item: Item, microusd: int) -> None:
    """Counts the try, too. Raises LeaseLost, OriginalErased."""
    await _check_lease(connection, held)
    query = text(f"""
        UPDATE replay_items SET tries = :tries, reserved_microusd = reserved_microusd + :microusd
        WHERE replay_id = :id AND number = :number AND {_IS_NOT_ERASED}
    """)  # noqa: S608
    values = {"id": held.id, "number": item.number, "tries": item.tries + 1, "microusd": microusd}
    if not (await connection.execute(query, values)).rowcount:
        raise OriginalErased


async def settle_item(
    connection: AsyncConnection, held: HeldReplay, item: Item, *, reserved_microusd: int, cost_microusd: int, **columns: Any
) -> None:
    """Counts what was charged in place of what was reserved, and stores what is known. `columns` are those of replay_items. Raises
    LeaseLost.
    """
    await _check_lease(connection, held)
    encoded = {name: _encode(value) if name in _JSON_COLUMNS else value for name, value in columns.items()}
    changes = "".join(f", {name} = " + (f"CAST(:{name} AS jsonb)" if name in _JSON_COLUMNS else f":{name}") for name in columns)
    query = text(f"""
        UPDATE replay_items
        SET reserved_microusd = greatest(0, reserved_microusd - :reserved), cost_microusd = cost_microusd + :cost{changes}
        WHERE replay_id = :id AND number = :number
    """)  # noqa: S608
    values = {"id": held.id, "number": item.number, "reserved": reserved_microusd, "cost": cost_microusd, **encoded}
    await connection.execute(query, values)
    if cost_microusd:
        add = text("UPDATE replays SET spent_microusd = spent_microusd + :cost WHERE id = :id")
        await connection.execute(add, {"id": held.id, "cost": cost_microusd})


async def read_request(connection: AsyncConnection, id: str) -> RecordedRequest | None:
    """An inference with its content. None: it is not recorded, or no longer."""
    row = (await connection.execute(_READ_REQUEST, {"id": id})).first()
    if row is None:
        return None
    values: dict[str, Any] = {
        **{"error": row.outcome != "answered", "schema_failure": row.schema_failure, "refusal": row.refusal, "latency_us": row.duration_us},
        **{"cost_microusd": row.cost_microusd, "input_tokens": row.input_tokens, "output_tokens": row.output_tokens},
    }
    return RecordedRequest(
        row.id,
        row.team_id,
        row.team_content,
        row.route,
        row.function,
        row.streamed,
        row.outcome,
        row.policy,
        row.is_deleted,
        row.request,
        row.response,
        values,
    )


_READ_REQUEST = text(f"""
    SELECT i.id::text, i.team_id::text, coalesce(t.content, 'none') AS team_content, i.route, i.function, i.streamed, i.outcome,
        i.duration_us, i.cost_microusd, coalesce(i.charged_input, i.input_tokens, 0) AS input_tokens,
        coalesce(i.charged_output, i.output_tokens, 0) AS output_tokens,
        coalesce({schema_failed("i.")}, false) AS schema_failure, coalesce({refused("i.")}, false) AS refusal,
        c.policy, d.id IS NOT NULL AS is_deleted, c.request, c.response
    FROM inferences i LEFT JOIN inference_content c ON c.id = i.id LEFT JOIN teams t ON t.id = i.team_id
        LEFT JOIN deleted_responses d ON d.id = i.id
    WHERE i.id = :id
""")  # noqa: S608


async def _check_lease(connection: AsyncConnection, held: HeldReplay, *, must_run: bool = False) -> None:
    row = (await connection.execute(_HOLDS, {"id": held.id, "lease": held.lease})).first()
    if row is None:
        raise LeaseLost
    if must_run and row.status != "running":
        raise ReplayCancelled


def _encode(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()
