"""Writes of feedback: events as they come from the spool, which of them count, and which wait for their inference or episode."""

from collections.abc import Collection, Sequence
from typing import Any

from app.store.feedback_targets import TargetKey
from app.store.partitions import Connection
from app.store.tables import feedback
from app.store.touched_units import touch_targets

# Held by whoever changes feedback, until the end of the transaction: two writers that store the same feedback, or corrections of it, at
# once see each other's.
FEEDBACK_LOCK = 0x6E617274_66656564  # for pg_advisory_xact_lock

_SET_LATER = ("is_current", "matched_at", "model", "function", "variant", "not_enrolled")
FEEDBACK_COLUMNS = [column.name for column in feedback.columns if column.name not in _SET_LATER]

_TYPES = {
    **dict.fromkeys(("id", "feedback_id", "team_id", "key_id", "target_id"), "uuid"),
    **dict.fromkeys(("value", "tags"), "jsonb"),
    **dict.fromkeys(("received_at", "erased_at"), "timestamptz"),
    "number": "double precision",
}
_NAMES = ", ".join(FEEDBACK_COLUMNS)
_ARRAYS = [f"${at}::{_TYPES.get(name, 'text')}[]" for at, name in enumerate(FEEDBACK_COLUMNS, 1)]
_INSERT = f"""
    WITH added AS (
        SELECT * FROM unnest({", ".join(_ARRAYS)}, ${len(_ARRAYS) + 1}::boolean[])
            AS row ({_NAMES}, is_repeatable)
    ), stored AS (
        INSERT INTO feedback ({_NAMES}, is_current) SELECT {_NAMES}, action <> 'withdraw' FROM added
        WHERE NOT is_repeatable OR NOT EXISTS (
            SELECT FROM feedback AS first
            WHERE first.feedback_id = added.feedback_id AND first.team_id = added.team_id AND first.action = 'create'
        )
        RETURNING id, team_id, level, target_id, received_at
    )
    INSERT INTO feedback_pending (id, team_id, level, target_id, received_at) SELECT * FROM stored WHERE target_id IS NOT NULL
"""  # noqa: S608
# Events never count again, so it is enough to look at those that still do.
_RETIRE_CORRECTED = """
    UPDATE feedback AS older SET is_current = false
    WHERE is_current AND feedback_id = any($1::uuid[]) AND EXISTS (
        SELECT FROM feedback AS newer
        WHERE newer.feedback_id = older.feedback_id AND newer.id > older.id AND newer.team_id = older.team_id
    )
    RETURNING level, team_id::text, target_id::text, number IS NOT NULL AS counted
"""
_RETIRE_REPLACED = """
    UPDATE feedback AS older SET is_current = false
    FROM (SELECT DISTINCT * FROM unnest($1::uuid[], $2::text[], $3::uuid[]) AS row (target_id, metric, key_id)) AS series
    WHERE older.is_current AND older.number IS NOT NULL
        AND older.target_id = series.target_id AND older.metric = series.metric AND older.key_id = series.key_id AND EXISTS (
            SELECT FROM feedback AS newer
            WHERE newer.target_id = older.target_id AND newer.metric = older.metric AND newer.key_id = older.key_id AND newer.id > older.id
                AND newer.number IS NOT NULL AND newer.team_id = older.team_id
        )
"""
_LOOK_AGAIN = """
    UPDATE feedback_pending SET check_at = now() WHERE id IN (
        SELECT id FROM feedback_pending WHERE target_id = any($1::uuid[]) AND check_at > now() FOR UPDATE SKIP LOCKED
    )
"""

_AT = {name: at for at, name in enumerate(FEEDBACK_COLUMNS)}


async def lock_feedback(connection: Connection) -> None:
    await connection.execute("SELECT pg_advisory_xact_lock($1)", FEEDBACK_LOCK)


async def add_feedback(connection: Connection, rows: Sequence[tuple[Any, ...]], repeatable: Collection[str]) -> None:
    """Insert rows of FEEDBACK_COLUMNS, inside a transaction. Their partitions must exist.

    `repeatable`: ids of events that are left out if their feedback exists. It holds FEEDBACK_LOCK from then on, so it comes late.
    """
    kept = _without_repeated([row for row in rows if row[_AT["id"]] in repeatable]) + [
        row for row in rows if row[_AT["id"]] not in repeatable
    ]
    if not kept:
        return
    await lock_feedback(connection)
    columns = [list(column) for column in zip(*kept, strict=True)]
    await connection.execute(_INSERT, *columns, [id in repeatable for id in columns[_AT["id"]]])
    retired = await connection.fetch(_RETIRE_CORRECTED, columns[_AT["feedback_id"]])
    # Those with another in their place are touched when that is matched, but a withdrawal is about nothing itself.
    await touch_targets(connection, [TargetKey(row["level"], row["team_id"], row["target_id"]) for row in retired if row["counted"]])
    measured = [row for row in kept if row[_AT["number"]] is not None]
    if measured:
        await connection.execute(_RETIRE_REPLACED, *([row[_AT[name]] for row in measured] for name in ("target_id", "metric", "key_id")))


async def look_again(connection: Connection, targets: Collection[str]) -> None:
    """For feedback that waits for these inferences or episodes, which are being stored in this transaction."""
    await connection.execute(_LOOK_AGAIN, list(targets))


def _without_repeated(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The first event of each feedback."""
    first: dict[tuple[str, str], tuple[Any, ...]] = {}
    for row in sorted(rows, key=lambda row: row[_AT["id"]]):
        first.setdefault((row[_AT["team_id"]], row[_AT["feedback_id"]]), row)
    return list(first.values())
