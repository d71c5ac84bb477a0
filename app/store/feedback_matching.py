"""Matching of feedback with the inference or episode that it is about, of the same team, whichever of the two is stored first."""

import datetime
from collections.abc import Sequence
from typing import NamedTuple

from app.domain import MODEL_PREFIXES
from app.store.erased_feedback import erase_by_ids
from app.store.feedback_targets import Target, TargetKey, find_targets
from app.store.feedback_writes import lock_feedback
from app.store.partitions import Connection
from app.store.touched_units import touch_targets

# One that waits is looked for again when its age has doubled. What is stored late makes it due at once: see look_again().
_DUE = """
    SELECT id::text, level, team_id::text, target_id::text, received_at FROM feedback_pending
    WHERE check_at <= now() ORDER BY check_at LIMIT $1 FOR UPDATE SKIP LOCKED
"""
_POSTPONE = """
    UPDATE feedback_pending SET check_at = now() + least(interval '6 hours', greatest(interval '0.5 seconds', now() - received_at))
    WHERE id = any($1::uuid[])
"""
_MARK = """
    UPDATE feedback SET matched_at = now(), model = matched.model, function = matched.function, variant = matched.variant,
        not_enrolled = matched.not_enrolled
    FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[]) AS matched (id, model, function, variant, not_enrolled)
    WHERE feedback.id = matched.id AND feedback.id >= $6::uuid AND feedback.id <= $7::uuid
"""


class Matched(NamedTuple):
    """How many were looked for, and found."""

    checked: int
    found: int


class _Pending(NamedTuple):
    id: str
    target: TargetKey
    received_at: datetime.datetime


async def match_due(connection: Connection, limit: int) -> Matched:
    """Look for the targets of feedback that is due, inside a transaction."""
    rows = await connection.fetch(_DUE, limit)
    if not rows:
        return Matched(0, 0)
    due = [_Pending(row["id"], TargetKey(row["level"], row["team_id"], row["target_id"]), row["received_at"]) for row in rows]
    targets = await find_targets(connection, [each.target for each in due])
    found = [(each, targets[each.target]) for each in due if each.target in targets]
    await connection.execute(_POSTPONE, [each.id for each in due if each.target not in targets])
    if found:
        await _mark(connection, found)
        await touch_targets(connection, [each.target for each, _ in found])
        await _erase_late(connection, [each for each, _ in found])
    return Matched(len(due), len(found))


async def count_unmatched(connection: Connection, age: datetime.timedelta) -> int:
    """How many wait for longer than that."""
    count: int = await connection.fetchval("SELECT count(*) FROM feedback_pending WHERE received_at < now() - $1::interval", age)
    return count


async def _mark(connection: Connection, found: Sequence[tuple[_Pending, Target]]) -> None:
    await lock_feedback(connection)
    ids = [each.id for each, _ in found]
    values = [(_plain_model(target.model), target.function, target.variant, target.not_enrolled) for _, target in found]
    await connection.execute(_MARK, ids, *([*column] for column in zip(*values, strict=True)), min(ids), max(ids))
    await connection.execute("DELETE FROM feedback_pending WHERE id = any($1::uuid[])", ids)


async def _erase_late(connection: Connection, matched: Sequence[_Pending]) -> None:
    """What was received before its target was erased, and stored after that."""
    erased = await find_targets(connection, [each.target for each in matched], only_erased=True)
    late: list[str] = []
    for each in matched:
        erased_at = erased[each.target].erased_at if each.target in erased else None
        if erased_at is not None and each.received_at <= erased_at:
            late.append(each.id)
    await erase_by_ids(connection, late, keep_tags=())


def _plain_model(model: str) -> str:
    for prefix in MODEL_PREFIXES:
        model = model.removeprefix(prefix)
    return model
