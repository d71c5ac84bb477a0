"""Feedback, as an erasure finds, changes and counts it: what was written in it, and its tags. Numbers stay, and what they are about.

An order reaches feedback by its inference or episode, and by its own tags. What is sent after the order is recorded as usual, but for words
about something that was erased, which may quote it.
"""

import time
from collections.abc import Collection, Sequence
from typing import Any

from app.domain import uuid7
from app.recording.erasure.episodes import find_erased_episodes
from app.recording.erasure.hashes import SqlHash
from app.recording.erasure.orders import Order
from app.recording.writes.feedback_writes import lock_feedback
from app.store.postgres.locks import ERASED
from app.store.postgres.partitions import DAY_MS, Connection
from app.store.records.feedback_targets import TargetKey, find_targets

_ROWS_AT_ONCE = 1_000
_REACHABLE = """
    SELECT id::text, level, team_id::text, target_id::text, tags ->> $4::text AS tag FROM feedback
    WHERE id > $1::uuid AND id < $2::uuid AND erased_at IS NULL AND action <> 'withdraw' AND ($5::uuid IS NULL OR team_id = $5::uuid)
        AND (id < $6::uuid OR number IS NULL)
    ORDER BY id LIMIT $3
"""
_COUNT_NEW = "SELECT count(*) FROM feedback_pending WHERE id = any($1::uuid[]) AND searches = 0"
_OF_EPISODES = """
    SELECT id::text FROM feedback JOIN unnest($1::uuid[], $2::uuid[]) AS episode (team_id, episode_id)
        ON feedback.target_id = episode.episode_id AND feedback.team_id = episode.team_id
    WHERE feedback.level = 'episode' AND feedback.erased_at IS NULL AND feedback.id < $3::uuid
"""
_ERASE = f"""
    UPDATE feedback SET
        value = CASE WHEN number IS NULL THEN NULL ELSE value END,
        content = CASE WHEN number IS NULL THEN 'erased' ELSE content END,
        tags = (
            SELECT jsonb_object_agg(name, CASE WHEN name = any($4::text[]) THEN tag ELSE '"{ERASED}"' END)
            FROM jsonb_each(tags) AS each (name, tag)
        ),
        target_id = CASE WHEN level = 'episode' AND target_id = any($5::uuid[]) THEN id ELSE target_id END,
        erased_at = now()
    WHERE id = any($1::uuid[]) AND id >= $2::uuid AND id <= $3::uuid AND erased_at IS NULL AND (number IS NULL OR NOT $6)
"""  # noqa: S608


async def erase_some_feedback(connection: Connection, order: Order, after: str) -> tuple[str | None, int]:
    """Erase some of it, after this id; returns the id to go on with, None at the end, and how much was erased."""
    assert order.value is not None, "an order that is carried out has its value"
    end = uuid7.lowest_at(int(time.time() * 1000) + DAY_MS)  # clocks of gateways may be ahead
    rows = await connection.fetch(_REACHABLE, after, end, _ROWS_AT_ONCE, order.tag, order.team_id, order.before)
    targets = [TargetKey(row["level"], row["team_id"], row["target_id"]) for row in rows]
    erased_targets = await _find_erased(connection, targets)
    episode_id = order.value if order.kind == "episode" else None
    keep_tags = [tag for tag in order.keep_tags if tag != order.tag]
    earlier, later = list[str](), list[str]()
    for row, target in zip(rows, targets, strict=True):
        is_of_order = (order.kind == "tag" and row["tag"] == order.value) or (target.level == "episode" and target.id == episode_id)
        if row["id"] >= order.before:
            later += [row["id"]] if target in erased_targets else []
        elif is_of_order or target in erased_targets:
            earlier.append(row["id"])
    await erase_by_ids(connection, earlier, keep_tags, [] if episode_id is None else [episode_id])
    await erase_by_ids(connection, later, keep_tags, only_words=True)
    return rows[-1]["id"] if len(rows) == _ROWS_AT_ONCE else None, len(earlier) + len(later)


async def erase_feedback_on_episodes(
    connection: Connection, episodes: Collection[tuple[str, str]], keep_tags: Collection[str], before: str, *, lose_id: bool = True
) -> int:
    """Erase feedback with a lower id than `before` on episodes, by team and id; returns how much there was.

    With `lose_id` the feedback is on none of the episodes any more.
    """
    if not episodes:
        return 0
    teams, ids = ([*column] for column in zip(*episodes, strict=True))
    found = [row["id"] for row in await connection.fetch(_OF_EPISODES, teams, ids, before)]
    await erase_by_ids(connection, found, keep_tags, ids if lose_id else ())
    return len(found)


async def erase_by_ids(
    connection: Connection,
    ids: Sequence[str],
    keep_tags: Collection[str],
    episodes: Collection[str] = (),
    *,
    only_words: bool = False,
) -> None:
    """Erase feedback by its ids.

    Feedback on one of `episodes` becomes feedback on an episode that nobody has. With `only_words` numbers
    stay, with their tags.
    """
    if not ids:
        return
    await lock_feedback(connection)
    await connection.execute(_ERASE, ids, min(ids), max(ids), list(keep_tags), list(episodes), only_words)
    if episodes:
        await connection.execute("DELETE FROM feedback_pending WHERE id = any($1::uuid[])", ids)


async def count_left_feedback(connection: Connection, order: Order, sql_hash: SqlHash, day: int) -> int:
    """Count the feedback of a day that the order should have erased, or that is on what was erased.

    What was stored this moment is left out: it is erased when it is looked for, which is at once.
    """
    first, end = uuid7.lowest_at(day * DAY_MS), uuid7.lowest_at((day + 1) * DAY_MS)
    left = 0 if order.kind == "end_user" else await _count_by_hash(connection, order, sql_hash, first, min(end, order.before))
    while True:
        rows = await connection.fetch(_REACHABLE, first, end, _ROWS_AT_ONCE, None, order.team_id, order.before)
        targets = [TargetKey(row["level"], row["team_id"], row["target_id"]) for row in rows]
        erased = await _find_erased(connection, targets)
        found = [row["id"] for row, target in zip(rows, targets, strict=True) if target in erased]
        left += len(found) - await connection.fetchval(_COUNT_NEW, found)
        if len(rows) < _ROWS_AT_ONCE:
            return left
        first = rows[-1]["id"]


async def _find_erased(connection: Connection, targets: Sequence[TargetKey]) -> Collection[TargetKey]:
    """Return the inferences that were erased, episodes of which one was, and episodes that lost their id."""
    return {*await find_targets(connection, targets, only_erased=True), *await find_erased_episodes(connection, targets)}


async def _count_by_hash(connection: Connection, order: Order, sql_hash: SqlHash, first: str, end: str) -> int:
    value = "CASE WHEN level = 'episode' THEN target_id::text END" if order.kind == "episode" else "tags ->> $7::text"
    values: list[Any] = [first, end, order.hash, sql_hash.inner, sql_hash.outer, order.team_id]
    count: int = await connection.fetchval(
        f"""
        SELECT count(*) FROM feedback WHERE id >= $1::uuid AND id < $2::uuid AND ($6::uuid IS NULL OR team_id = $6::uuid)
            AND {SqlHash.expression(f"({value})", "$4", "$5")} = $3
        """,  # noqa: S608
        *values,
        *([] if order.kind == "episode" else [order.tag]),
    )
    return count
