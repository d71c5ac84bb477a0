"""Words of inferences for full-text search: their storage, and the indexes of days that are over."""

import datetime
import logging
from collections.abc import Sequence

from app.store.postgres.partitions import DAY_MS, Connection, partition_days
from app.store.postgres.spools import stored_until_all

logger = logging.getLogger(__name__)

_INDEX_SUFFIX = "_words_idx"
_LATE = datetime.timedelta(hours=1)  # inferences are stored when they end, by the day in which they began


async def searched_teams(connection: Connection) -> set[str]:
    """The ids of teams with full-text search."""
    return {str(row["id"]) for row in await connection.fetch("SELECT id FROM teams WHERE search")}


async def add_texts(connection: Connection, rows: Sequence[tuple[str, str, str]]) -> None:
    """Store the words of inferences: their ids, their teams' ids, and their text as split_words() makes it."""
    await connection.execute(
        "INSERT INTO inference_texts (id, team_id, words)"
        " SELECT id, team_id, to_tsvector('simple', words) FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS added (id, team_id, words)",
        *([row[at] for row in rows] for at in range(3)),
    )


async def delete_texts(connection: Connection, ids: Sequence[str]) -> int:
    """Delete the words of inferences, of which then none is found; returns how many inferences had words.

    `ids` must ascend.
    """
    deleted = await connection.execute(
        "DELETE FROM inference_texts WHERE id = any($1::uuid[]) AND id >= $2::uuid AND id <= $3::uuid", ids, ids[0], ids[-1]
    )
    return int(deleted.rpartition(" ")[2])


async def index_closed_days(connection: Connection) -> None:
    """Build the missing indexes of words, of days that are over and stored. Others read and write meanwhile; what comes late is indexed.

    The connection must not be in a transaction.
    """
    stored_until = await stored_until_all(connection)
    before_day = 0 if stored_until is None else int((stored_until - _LATE).timestamp() * 1000) // DAY_MS
    rows = await connection.fetch("SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'inference_texts'::regclass")
    for name in sorted(row["name"] for row in rows):
        days = partition_days(name)
        if days is not None and days[1] <= before_day and not await _has_index(connection, name):
            await _build_index(connection, name)


async def _has_index(connection: Connection, partition: str) -> bool:
    """Return whether a partition has its index, or somebody is building it.

    An index whose building was broken off is removed.
    """
    index = partition + _INDEX_SUFFIX
    is_valid = await connection.fetchval("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)", index)
    if is_valid is not False:
        return bool(is_valid)
    if await connection.fetchval("SELECT EXISTS (SELECT FROM pg_stat_progress_create_index WHERE relid = to_regclass($1))", partition):
        return True
    logger.warning("The index %s was not completed, and is built again", index)
    await connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {index}")
    return False


async def _build_index(connection: Connection, partition: str) -> None:
    await connection.execute(f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {partition}{_INDEX_SUFFIX} ON {partition} USING gin (words)")
    await connection.execute(f"ANALYZE {partition}")
    logger.info("Built the index of words of %s", partition)
