"""Writes of feedback: events as they come from the spool, which of them count, and which wait for their inference or episode."""

from collections.abc import Collection, Sequence
from typing import Any

from app.store.experiment_units.touched_units import touch_targets
from app.store.postgres.partitions import Connection
from app.store.postgres.tables import feedback
from app.store.records.feedback_repeats import differences
from app.store.records.feedback_targets import TargetKey

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
_MAX_CONFLICTS = 20  # of one feedback; what follows is counted alone
# One with the id of other feedback is a conflict: it is kept, so that somebody may look at it, and does not count.
_INSERT = f"""
    WITH added AS (
        SELECT * FROM unnest({", ".join(_ARRAYS)}, ${len(_ARRAYS) + 1}::boolean[])
            AS row ({_NAMES}, is_repeatable)
    ), compared AS (
        SELECT added.*, first.id IS NOT NULL AS is_repeated,
            first.id IS NOT NULL AND {differences("first", "added")} <> ARRAY[]::text[] AS differs,
            row_number() OVER (PARTITION BY added.team_id, added.feedback_id ORDER BY added.id) AS place
        FROM added LEFT JOIN LATERAL (
            SELECT * FROM feedback
            WHERE added.is_repeatable AND feedback.feedback_id = added.feedback_id AND feedback.team_id = added.team_id
                AND feedback.action = 'create'
            ORDER BY feedback.id LIMIT 1
        ) AS first ON true
    ), stored AS (
        INSERT INTO feedback ({_NAMES}, is_current)
        SELECT {", ".join("CASE WHEN differs THEN 'conflict' ELSE action END" if name == "action" else name for name in FEEDBACK_COLUMNS)},
            action <> 'withdraw' AND NOT differs
        FROM compared WHERE NOT is_repeated OR differs AND NOT EXISTS (
            SELECT FROM feedback AS conflict WHERE conflict.feedback_id = compared.feedback_id AND conflict.team_id = compared.team_id
                AND conflict.action = 'conflict' AND {differences("conflict", "compared")} = ARRAY[]::text[]
        ) AND {_MAX_CONFLICTS} >= place + (
            SELECT count(*) FROM feedback AS conflict WHERE conflict.feedback_id = compared.feedback_id
                AND conflict.team_id = compared.team_id AND conflict.action = 'conflict'
        )
        RETURNING id, team_id, level, target_id, received_at
    ), waiting AS (
        INSERT INTO feedback_pending (id, team_id, level, target_id, received_at) SELECT * FROM stored WHERE target_id IS NOT NULL
    )
    SELECT count(*) FROM compared WHERE differs
"""  # noqa: S608
# Events never count again, so it is enough to look at those that still do.
_RETIRE_CORRECTED = """
    UPDATE feedback AS older SET is_current = false
    WHERE is_current AND feedback_id = any($1::uuid[]) AND EXISTS (
        SELECT FROM feedback AS newer
        WHERE newer.feedback_id = older.feedback_id AND newer.id > older.id AND newer.team_id = older.team_id
            AND newer.action <> 'conflict'
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
                AND newer.number IS NOT NULL AND newer.team_id = older.team_id AND newer.action <> 'conflict'
        )
"""
_AT = {name: at for at, name in enumerate(FEEDBACK_COLUMNS)}


async def lock_feedback(connection: Connection) -> None:
    await connection.execute("SELECT pg_advisory_xact_lock($1)", FEEDBACK_LOCK)


async def add_feedback(connection: Connection, rows: Sequence[tuple[Any, ...]], repeatable: Collection[str]) -> int:
    """Insert rows of FEEDBACK_COLUMNS, inside a transaction. Their partitions must exist.

    `repeatable` has ids of events that are left out if their feedback exists. Returns how many of these are
    not as what was sent first. It holds FEEDBACK_LOCK from then on, so it comes late.
    """
    first, others = _split_repeated([row for row in rows if row[_AT["id"]] in repeatable])
    kept = first + [row for row in rows if row[_AT["id"]] not in repeatable]
    if not kept:
        return 0
    await lock_feedback(connection)
    conflicts = await _insert(connection, kept, repeatable)
    if others:
        conflicts += await _insert(connection, others, repeatable)
    retired = await connection.fetch(_RETIRE_CORRECTED, [row[_AT["feedback_id"]] for row in kept])
    # Those with another in their place are touched when that is matched, but a withdrawal is about nothing itself.
    await touch_targets(connection, [TargetKey(row["level"], row["team_id"], row["target_id"]) for row in retired if row["counted"]])
    measured = [row for row in kept if row[_AT["number"]] is not None]
    if measured:
        await connection.execute(_RETIRE_REPLACED, *([row[_AT[name]] for row in measured] for name in ("target_id", "metric", "key_id")))
    return conflicts


async def _insert(connection: Connection, rows: Sequence[tuple[Any, ...]], repeatable: Collection[str]) -> int:
    columns = [list(column) for column in zip(*rows, strict=True)]
    count: int = await connection.fetchval(_INSERT, *columns, [id in repeatable for id in columns[_AT["id"]]])
    return count


def _split_repeated(rows: Sequence[tuple[Any, ...]]) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The first event of each feedback, and those that may differ from it."""
    first: dict[tuple[str, str], tuple[Any, ...]] = {}
    others: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for row in sorted(rows, key=lambda row: row[_AT["id"]]):
        same = first.setdefault((row[_AT["team_id"]], row[_AT["feedback_id"]]), row)
        if _compared(row) != _compared(same):
            others.setdefault(_compared(row), row)
    return list(first.values()), list(others.values())


def _compared(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(row[_AT[name]] for name in ("team_id", "feedback_id", "metric", "level", "target_id", "value", "content", "tags"))
