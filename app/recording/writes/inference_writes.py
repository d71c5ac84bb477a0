"""Writes of inferences: their rows, their content, sums of usage, and the positions that make storing exactly once."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import asyncpg

from app.store.postgres.inference_columns import INFERENCE_COLUMNS
from app.store.postgres.partitions import Connection
from app.store.postgres.tables import inference_content, usage

# Errors in a row, which no retry would change. Some are raised by asyncpg while it encodes the row.
ROW_ERRORS = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,
    ValueError,
    OverflowError,
    TypeError,
)

CONTENT_COLUMNS = [column.name for column in inference_content.columns]
USAGE_COLUMNS = [column.name for column in usage.columns]

_USAGE_TYPES = {"key_id": "uuid", "hour": "timestamptz", "team_id": "uuid", "model": "text"}
_GROUP_COLUMNS, _SUM_COLUMNS = ", ".join(_USAGE_TYPES), [name for name in USAGE_COLUMNS if name not in _USAGE_TYPES]
# In a fixed order, so that writers of several machines that add to the same rows do not deadlock.
_ADD_USAGE = f"""
    INSERT INTO usage ({", ".join(USAGE_COLUMNS)})
    SELECT {_GROUP_COLUMNS}, {", ".join(f"sum({name})" for name in _SUM_COLUMNS)}
    FROM unnest({", ".join(f"${at}::{_USAGE_TYPES.get(name, 'bigint')}[]" for at, name in enumerate(USAGE_COLUMNS, 1))})
        AS added ({", ".join(USAGE_COLUMNS)})
    GROUP BY {_GROUP_COLUMNS} ORDER BY {_GROUP_COLUMNS}
    ON CONFLICT ({_GROUP_COLUMNS}) DO UPDATE SET {", ".join(f"{name} = usage.{name} + excluded.{name}" for name in _SUM_COLUMNS)}
"""  # noqa: S608


_GROUP_ARGUMENTS = ", ".join(f"${at}::{kind}[]" for at, kind in enumerate(_USAGE_TYPES.values(), 1))
# In the order of _ADD_USAGE.
_LOCK_USAGE = f"""
    SELECT 1 FROM usage WHERE ({_GROUP_COLUMNS}) IN (SELECT * FROM unnest({_GROUP_ARGUMENTS})) ORDER BY {_GROUP_COLUMNS} FOR UPDATE
"""  # noqa: S608
_ADJUST_USAGE = f"""
    UPDATE usage SET {", ".join(f"{name} = usage.{name} + added.{name}" for name in _SUM_COLUMNS)}
    FROM unnest({", ".join(f"${at}::{_USAGE_TYPES.get(name, 'bigint')}[]" for at, name in enumerate(USAGE_COLUMNS, 1))})
        AS added ({", ".join(USAGE_COLUMNS)})
    WHERE {" AND ".join(f"usage.{name} = added.{name}" for name in _USAGE_TYPES)}
"""  # noqa: S608


class PositionTaken(Exception):
    """Somebody else has moved a segment's position: the records in hand may be stored already."""


async def load_positions(connection: Connection, spool: str, segments: Collection[str]) -> dict[str, int]:
    """The positions of the segments that this spool had or has."""
    rows = await connection.fetch(
        "SELECT segment, stored_bytes FROM spool_positions WHERE spool = $1 OR segment = any($2)", spool, segments
    )
    return {row["segment"]: row["stored_bytes"] for row in rows}


async def move_position(connection: Connection, spool: str, segment: str, before: int | None, position: int) -> None:
    """Move a segment's position. Raises PositionTaken if it is not at `before` (None: it is new).

    It must come first in a transaction: if an earlier one, whose connection was lost, is still being committed, this waits for it and
    then sees its result.
    """
    if before is None:
        moved = await connection.execute(
            "INSERT INTO spool_positions (segment, spool, stored_bytes) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
            segment,
            spool,
            position,
        )
    else:
        moved = await connection.execute(
            "UPDATE spool_positions SET stored_bytes = $2, moved_at = now() WHERE segment = $1 AND stored_bytes = $3",
            segment,
            position,
            before,
        )
    if not moved.endswith(" 1"):
        raise PositionTaken(f"The segment {segment} is no longer at {before}")


async def forget_positions(connection: Connection, segments: Collection[str]) -> None:
    """Delete the positions of segments whose files were removed."""
    await connection.execute("DELETE FROM spool_positions WHERE segment = any($1)", segments)


async def copy_rows(connection: Connection, rows: Iterable[Sequence[Any]], contents: Iterable[Sequence[Any]]) -> None:
    """Insert rows of INFERENCE_COLUMNS and CONTENT_COLUMNS, inside a transaction. Raises one of ROW_ERRORS for an invalid row."""
    await connection.copy_records_to_table("inferences", records=rows, columns=INFERENCE_COLUMNS)
    await connection.copy_records_to_table("inference_content", records=contents, columns=CONTENT_COLUMNS)


async def adjust_usage(connection: Connection, rows: Collection[Sequence[Any]]) -> None:
    """Add to stored sums what rows of USAGE_COLUMNS have, which may be negative. Sums that have expired stay away."""
    if rows:
        columns = [[row[at] for row in rows] for at in range(len(USAGE_COLUMNS))]
        await connection.execute(_LOCK_USAGE, *columns[: len(_USAGE_TYPES)])
        await connection.execute(_ADJUST_USAGE, *columns)


async def add_usage(connection: Connection, rows: Sequence[Sequence[Any]]) -> None:
    """Add rows of USAGE_COLUMNS to the stored sums.

    Once, and at the end of the transaction that inserts the inferences: others wait for these rows until its end.
    """
    if rows:
        await connection.execute(_ADD_USAGE, *([row[at] for row in rows] for at in range(len(USAGE_COLUMNS))))
