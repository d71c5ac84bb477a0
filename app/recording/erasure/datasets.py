"""Rows of datasets, as an erasure finds, deletes and counts them. They may have words of inferences that have expired long ago."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from app.domain import uuid7
from app.recording.erasure.hashes import SqlHash
from app.recording.erasure.inferences import hash_condition, id_range
from app.recording.erasure.orders import Order
from app.store.datasets.builds import DATASETS_LOCK
from app.store.datasets.counts import DatasetCounts
from app.store.postgres.locks import ERASED
from app.store.postgres.partitions import DAY_MS, Connection

_SEARCHED_SOURCES = 10_000  # at a time
_LOWEST_ID = "00000000-0000-0000-0000-000000000000"
# The position before all sources: version, row and inference or feedback.
FIRST_DATASET_SOURCE = (_LOWEST_ID, 0, _LOWEST_ID)
_CONDITIONS = {"end_user": "end_user = $5", "tag": "tags ->> $6 = $5", "episode": "episode_id = $5::uuid"}
_LOCK_VERSIONS = "SELECT id::text, counts::text FROM dataset_versions WHERE id = any($1::uuid[]) ORDER BY id FOR NO KEY UPDATE"
_DELETE_ROWS = """
    DELETE FROM dataset_rows USING unnest($1::uuid[], $2::integer[]) AS erased (version_id, number)
    WHERE dataset_rows.version_id = erased.version_id AND dataset_rows.number = erased.number
    RETURNING dataset_rows.version_id::text, split, output, omitted, faults::text,
        length(request) + coalesce(length(response), 0) + coalesce(length(demonstration), 0) AS size_bytes
"""
_DELETE_SOURCES = """
    DELETE FROM dataset_sources USING unnest($1::uuid[], $2::integer[]) AS erased (version_id, number)
    WHERE dataset_sources.version_id = erased.version_id AND row_number = erased.number
"""
_COUNT_ERASED = """
    UPDATE dataset_versions SET rows = rows - $2, erased = erased + $2, size_bytes = size_bytes - $3, counts = $4::jsonb WHERE id = $1::uuid
"""


async def wait_for_dataset_pieces(connection: Connection) -> None:
    """Wait until every piece of a version that was begun before is stored."""
    await connection.execute("SELECT pg_advisory_xact_lock($1)", DATASETS_LOCK)


async def erase_dataset_rows(connection: Connection, order: Order, after: Sequence[Any]) -> tuple[Sequence[Any] | None, int]:
    """Erase some rows; returns the position to go on with, None at the end, and how many were erased."""
    assert order.value is not None, "an order that is carried out has its value"
    values: list[Any] = [*after, order.before, order.value]
    condition = _CONDITIONS[order.kind]
    if order.kind == "tag":
        values.append(order.tag)
    if order.team_id is not None:
        values.append(order.team_id)
        condition += f" AND team_id = ${len(values)}::uuid"
    searched = await connection.fetch(
        f"""
        SELECT version_id::text, row_number, id::text, coalesce(id < $4::uuid AND {condition}, false) AS is_found
        FROM (
            SELECT * FROM dataset_sources WHERE (version_id, row_number, id) > ($1::uuid, $2::integer, $3::uuid)
            ORDER BY version_id, row_number, id LIMIT {_SEARCHED_SOURCES}
        ) AS page
        ORDER BY version_id, row_number, id
        """,  # noqa: S608
        *values,
    )
    found = sorted({(row["version_id"], row["row_number"]) for row in searched if row["is_found"]})
    erased = await _delete_rows(connection, found) if found else 0
    last = searched[-1] if len(searched) == _SEARCHED_SOURCES else None
    return None if last is None else (last["version_id"], last["row_number"], last["id"]), erased


async def _delete_rows(connection: Connection, found: Sequence[tuple[str, int]]) -> int:
    versions, numbers = [version for version, _ in found], [number for _, number in found]
    counts = {
        row["id"]: msgspec.json.decode(row["counts"], type=DatasetCounts)
        for row in await connection.fetch(_LOCK_VERSIONS, sorted(set(versions)))
    }
    deleted: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for row in await connection.fetch(_DELETE_ROWS, versions, numbers):
        id: str = row["version_id"]
        faults: Mapping[str, str] = {} if row["faults"] is None else msgspec.json.decode(row["faults"])
        counts[id].add_row(row["split"], row["output"], faults, row["omitted"] or (), by=-1)
        deleted[id] = deleted.get(id, 0) + 1
        sizes[id] = sizes.get(id, 0) + row["size_bytes"]
    await connection.execute(_DELETE_SOURCES, versions, numbers)
    for id, rows in deleted.items():
        await connection.execute(_COUNT_ERASED, id, rows, sizes[id], msgspec.json.encode(counts[id]).decode())
    return sum(deleted.values())


async def erase_selected_tag(connection: Connection, order: Order) -> None:
    """Erase the value of the order's tag from the selections of dataset versions that name it."""
    if order.kind != "tag":
        return
    await connection.execute(
        """
        UPDATE dataset_versions SET selection = jsonb_set(selection, ARRAY['tags', $1::text], to_jsonb($3::text))
        FROM datasets
        WHERE datasets.id = dataset_id AND selection -> 'tags' ->> $1 = $2 AND ($4::uuid IS NULL OR team_id IS NULL OR team_id = $4::uuid)
        """,
        *(order.tag, order.value, ERASED, order.team_id),
    )


async def list_dataset_days(connection: Connection) -> list[int]:
    """Return the days since 1970 of which there are rows."""
    days: list[int] = []
    first = _LOWEST_ID
    while True:  # from day to day along the index, however many rows a day has
        id = await connection.fetchval("SELECT id::text FROM dataset_sources WHERE id >= $1::uuid ORDER BY id LIMIT 1", first)
        if id is None:
            return days
        days.append(uuid7.created_ms(id) // DAY_MS)
        first = uuid7.lowest_at((days[-1] + 1) * DAY_MS)


async def count_left_dataset_rows(connection: Connection, order: Order, sql_hash: SqlHash, day: int) -> int:
    """Count the rows with words of a day's inferences that the order is about, by its hash."""
    first, end = id_range(order, day * DAY_MS, (day + 1) * DAY_MS)
    condition, values = hash_condition(order, sql_hash, 3, team="team_id")
    query = f"""
        SELECT count(DISTINCT (version_id, row_number)) FROM dataset_sources
        WHERE id >= $1::uuid AND id < $2::uuid AND ({condition})
    """  # noqa: S608
    return await connection.fetchval(query, first, end, *values)
