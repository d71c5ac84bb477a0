"""Inferences and their content, as an erasure finds, changes and counts them."""

from collections.abc import Collection, Sequence
from typing import Any

from app.domain import uuid7
from app.recording.erasure.hashes import SqlHash
from app.recording.erasure.orders import Order
from app.store.postgres.inference_columns import INFERENCE_COLUMNS, ROW_EXPRESSIONS
from app.store.postgres.partitions import DAY_MS, Connection, partition_days

_CHANGED = {
    "episode_id": "uuid",
    "message": "text",
    "attempts": "jsonb",
    "tags": "jsonb",
    "end_user": "text",
    "trace_id": "text",
    "parent_span_id": "text",
    "request_id": "text",
    "episode_name": "text",
    "experiment_unit": "text",
    "erased_at": "timestamptz",
}
_POSITIONS = [INFERENCE_COLUMNS.index(name) for name in _CHANGED]
_IS_NAME_LEFT = "(erased_at IS NOT NULL AND episode_name IS NOT NULL)"
_OF_TEAM = "coalesce(content_team_id, team_id)"  # whose request it was
_VALUES = {"end_user": "end_user", "tag": "tags ->> {tag}", "episode": "episode_id::text"}


async def list_days(connection: Connection, table: str = "inferences") -> list[int]:
    """Return the days since 1970 that have a partition, the newest first."""
    rows = await connection.fetch("SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = $1::regclass", table)
    spans = [days for row in rows if (days := partition_days(row["name"])) is not None]
    return sorted({day for first, end in spans for day in range(first, end)}, reverse=True)


def id_range(order: Order, begin_ms: int, end_ms: int) -> tuple[str, str]:
    """The ids of a range of time, without those after the order."""
    return uuid7.lowest_at(begin_ms), min(uuid7.lowest_at(end_ms), order.before)


async def lock_matching(connection: Connection, order: Order, first: str, end: str, limit: int) -> list[tuple[Any, ...]]:
    """Lock and return rows of INFERENCE_COLUMNS of the order's inferences from `first` to before `end`, by
    id.
    """
    assert order.value is not None, "an order that is carried out has its value"
    if first >= end:
        return []
    values: list[Any] = [first, end, limit, order.value]
    match order.kind:
        case "end_user":
            condition = "end_user = $4"
        case "tag":
            condition = f"tags ->> ${len(values) + 1} = $4"
            values.append(order.tag)
        case "episode":
            condition = "episode_id = $4::uuid"
    if order.team_id is not None:
        condition += f" AND {_OF_TEAM} = ${len(values) + 1}::uuid"
        values.append(order.team_id)
    query = f"""
        SELECT {", ".join(ROW_EXPRESSIONS)} FROM inferences
        WHERE id >= $1::uuid AND id < $2::uuid AND {condition} ORDER BY id LIMIT $3 FOR UPDATE
    """  # noqa: S608
    return [tuple(row) for row in await connection.fetch(query, *values)]


async def lock_made_of(connection: Connection, ids: Collection[str]) -> list[tuple[Any, ...]]:
    """Lock and return what the gateway made of these inferences, as replays do, and that is not erased yet.

    The rows have INFERENCE_COLUMNS and are ordered by id.
    """
    query = f"""
        SELECT {", ".join(ROW_EXPRESSIONS)} FROM inferences
        WHERE original_id = any($1::uuid[]) AND original_id IS NOT NULL AND erased_at IS NULL ORDER BY id FOR UPDATE
    """  # noqa: S608
    return [tuple(row) for row in await connection.fetch(query, list(ids))]


async def lock_made_of_erased(connection: Connection, since_ms: int, limit: int) -> list[tuple[Any, ...]]:
    """Lock and return the same as lock_made_of(), but of any erased inference, of what was received from
    `since_ms` on.

    It was in progress while its original was erased.
    """
    query = f"""
        SELECT {", ".join(ROW_EXPRESSIONS)} FROM inferences
        WHERE id >= $1::uuid AND original_id IS NOT NULL AND erased_at IS NULL
            AND EXISTS (SELECT FROM inferences AS original WHERE original.id = inferences.original_id AND original.erased_at IS NOT NULL)
        ORDER BY id LIMIT $2 FOR UPDATE
    """  # noqa: S608
    return [tuple(row) for row in await connection.fetch(query, uuid7.lowest_at(since_ms), limit)]


async def store_erased(connection: Connection, rows: Sequence[tuple[Any, ...]]) -> int:
    """Store rows that were erased, which are ordered by id, and erase their content; returns how many had
    any.
    """
    ids = [row[0] for row in rows]
    columns = [[row[at] for row in rows] for at in _POSITIONS]
    parameters = ", ".join(f"${at}::{kind}[]" for at, kind in enumerate(("uuid", *_CHANGED.values()), 3))
    changes = ", ".join(f"{name} = erased.{name}" for name in _CHANGED)
    await connection.execute(
        f"""
        UPDATE inferences SET {changes} FROM unnest({parameters}) AS erased (id, {", ".join(_CHANGED)})
        WHERE inferences.id = erased.id AND inferences.id >= $1::uuid AND inferences.id <= $2::uuid
        """,  # noqa: S608
        *(ids[0], ids[-1], ids),
        *columns,
    )
    done = await connection.execute(
        """
        UPDATE inference_content SET policy = 'erased', request = NULL, response = NULL
        WHERE id = any($1::uuid[]) AND id >= $2::uuid AND id <= $3::uuid AND policy <> 'erased'
        """,
        *(ids, ids[0], ids[-1]),
    )
    return int(done.rpartition(" ")[2])


async def find_erased(connection: Connection, ids: Collection[str]) -> set[str]:
    """Return those of these inferences that are erased."""
    rows = await connection.fetch("SELECT id::text FROM inferences WHERE id = any($1::uuid[]) AND erased_at IS NOT NULL", list(ids))
    return {row["id"] for row in rows}


async def find_left_inferences(connection: Connection, order: Order, sql_hash: SqlHash, day: int) -> list[str]:
    """Return the inferences of a day that the order is about, by its hash.

    They include those, of whichever order, that a writer of an older version erased without the name of their
    episode, which it did not know.
    """
    first, end = id_range(order, day * DAY_MS, (day + 1) * DAY_MS)
    condition, values = hash_condition(order, sql_hash, 3)
    query = f"SELECT id::text FROM inferences WHERE id >= $1::uuid AND id < $2::uuid AND ({condition} OR {_IS_NAME_LEFT})"  # noqa: S608
    rows = await connection.fetch(query, first, end, *values)
    return [row["id"] for row in rows]


def hash_condition(order: Order, sql_hash: SqlHash, next_parameter: int, *, team: str = _OF_TEAM) -> tuple[str, list[Any]]:
    """Return an SQL condition that an inference is of the order, by its hash, and the condition's parameters.

    `team` is the column of the team, or what stands for it.
    """
    values: list[Any] = [order.hash, sql_hash.inner, sql_hash.outer]
    hash, inner, outer = (f"${next_parameter + at}" for at in range(3))
    value = _VALUES[order.kind]
    if order.kind == "tag":
        value = value.format(tag=f"${next_parameter + len(values)}::text")
        values.append(order.tag)
    condition = f"{SqlHash.expression(f'({value})', inner, outer)} = {hash}"
    if order.team_id is not None:
        condition += f" AND {team} = ${next_parameter + len(values)}::uuid"
        values.append(order.team_id)
    return condition, values


async def find_left_content(connection: Connection, day: int) -> list[str]:
    """Return the inferences of a day, of whichever order, that were erased while something that was written
    is left.
    """
    first, end = uuid7.lowest_at(day * DAY_MS), uuid7.lowest_at((day + 1) * DAY_MS)
    rows = await connection.fetch(
        """
        SELECT id::text FROM inferences JOIN inference_content AS content USING (id)
        WHERE inferences.id >= $1::uuid AND inferences.id < $2::uuid AND content.id >= $1::uuid AND content.id < $2::uuid
            AND erased_at IS NOT NULL AND (content.request IS NOT NULL OR content.response IS NOT NULL)
        """,
        *(first, end),
    )
    return [row["id"] for row in rows]


async def find_left_repetitions(connection: Connection, day: int) -> list[str]:
    """Return what is not erased though the gateway made it of erased inferences of a day, of whichever order."""
    rows = await connection.fetch(
        """
        SELECT made.id::text FROM inferences AS original JOIN inferences AS made ON made.original_id = original.id
        WHERE original.id >= $1::uuid AND original.id < $2::uuid AND original.erased_at IS NOT NULL AND made.erased_at IS NULL
        """,
        *(uuid7.lowest_at(day * DAY_MS), uuid7.lowest_at((day + 1) * DAY_MS)),
    )
    return [row["id"] for row in rows]


async def find_left_texts(connection: Connection, day: int) -> list[str]:
    """Return the inferences of a day, of whichever order, that were erased while words of theirs can still be
    searched.
    """
    first, end = uuid7.lowest_at(day * DAY_MS), uuid7.lowest_at((day + 1) * DAY_MS)
    rows = await connection.fetch(
        """
        SELECT id::text FROM inferences JOIN inference_texts AS texts USING (id)
        WHERE inferences.id >= $1::uuid AND inferences.id < $2::uuid AND texts.id >= $1::uuid AND texts.id < $2::uuid
            AND erased_at IS NOT NULL
        """,
        *(first, end),
    )
    return [row["id"] for row in rows]
