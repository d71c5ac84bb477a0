"""Feedback that is sent again with an id of its caller's: in what it differs from what was sent first.

Values are compared as they are kept: of a team that keeps no words, other words are no difference.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from app.store.postgres.admin_transactions import admin_transaction


class SentBefore(Struct, frozen=True):
    """The feedback that was sent first with an id, and in what the new feedback differs from it.

    `differs` may name `metric`, `target`, `value` and `tags`; it is empty if both are the same, or if the
    first was erased.
    """

    metric: str
    level: str
    target_id: str
    differs: Sequence[str]


class NewFeedback(Struct, frozen=True):
    """Feedback as it would be stored; `value` and `tags` are JSON."""

    feedback_id: str
    metric: str
    level: str
    target_id: str
    value: str | None
    content: str
    tags: str | None


def differences(first: str, sent: str) -> str:
    """SQL: an array of what differs between two rows with the columns of feedback. Of what was erased nothing is known any more."""
    return f"""CASE WHEN {first}.erased_at IS NOT NULL THEN ARRAY[]::text[] ELSE array_remove(ARRAY[
        CASE WHEN {first}.metric <> {sent}.metric THEN 'metric' END,
        CASE WHEN ({first}.level, {first}.target_id) <> ({sent}.level, {sent}.target_id) THEN 'target' END,
        CASE WHEN {first}.content = {sent}.content AND {first}.value IS DISTINCT FROM {sent}.value THEN 'value' END,
        CASE WHEN {first}.tags IS DISTINCT FROM {sent}.tags THEN 'tags' END
    ], NULL) END"""


_TYPES = {"value": "jsonb", "tags": "jsonb", "feedback_id": "uuid", "target_id": "uuid"}
_COLUMNS = NewFeedback.__struct_fields__
_FIND = text(f"""
    SELECT sent.feedback_id::text, first.metric, first.level, first.target_id::text, {differences("first", "sent")} AS differs
    FROM (
        SELECT {", ".join(f"{name}::{_TYPES.get(name, 'text')}" for name in _COLUMNS)}
        FROM unnest({", ".join(f"CAST(:{name} AS text[])" for name in _COLUMNS)}) AS row ({", ".join(_COLUMNS)})
    ) AS sent
    CROSS JOIN LATERAL (
        SELECT * FROM feedback AS stored
        WHERE stored.feedback_id = sent.feedback_id AND stored.team_id = CAST(:team_id AS uuid) AND stored.action = 'create'
        ORDER BY stored.id LIMIT 1
    ) AS first
""")  # noqa: S608


async def find_sent_before(
    database: AsyncEngine, team_id: str, feedback: Sequence[NewFeedback], timeout_s: float
) -> Mapping[str, SentBefore]:
    """Returns what is stored with the same ids, by feedback_id.

    Raises Unavailable, or one of DB_UNAVAILABLE_ERRORS.
    """
    columns = {name: [getattr(each, name) for each in feedback] for name in _COLUMNS}
    async with admin_transaction(database, timeout_s, read_only=True) as connection:
        rows = (await connection.execute(_FIND, {"team_id": team_id, **columns})).all()
    return {row.feedback_id: SentBefore(row.metric, row.level, row.target_id, row.differs) for row in rows}
