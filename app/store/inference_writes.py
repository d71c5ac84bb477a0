"""What the writer stores: rows of inferences and their content, and the positions that make it exactly once."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import asyncpg

from app.store.partitions import Connection
from app.store.tables import inference_content, inferences, usage

# What no other attempt would change: the fault is in a row. Some are found by asyncpg, while it writes the row down.
ROW_ERRORS = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,
    ValueError,
    OverflowError,
    TypeError,
)

INFERENCE_COLUMNS = [column.name for column in inferences.columns]
CONTENT_COLUMNS = [column.name for column in inference_content.columns]
USAGE_COLUMNS = [column.name for column in usage.columns]

_USAGE_TYPES = {"key_id": "uuid", "hour": "timestamptz", "team_id": "uuid", "model": "text"}
_GROUP_COLUMNS, _SUM_COLUMNS = ", ".join(_USAGE_TYPES), [name for name in USAGE_COLUMNS if name not in _USAGE_TYPES]
# In a fixed order, so that writers of several machines that add to the same rows wait for each other, and not in a circle.
_ADD_USAGE = f"""
    INSERT INTO usage ({", ".join(USAGE_COLUMNS)})
    SELECT {_GROUP_COLUMNS}, {", ".join(f"sum({name})" for name in _SUM_COLUMNS)}
    FROM unnest({", ".join(f"${at}::{_USAGE_TYPES.get(name, 'bigint')}[]" for at, name in enumerate(USAGE_COLUMNS, 1))})
        AS added ({", ".join(USAGE_COLUMNS)})
    GROUP BY {_GROUP_COLUMNS} ORDER BY {_GROUP_COLUMNS}
    ON CONFLICT ({_GROUP_COLUMNS}) DO UPDATE SET {", ".join(f"{name} = usage.{name} + excluded.{name}" for name in _SUM_COLUMNS)}
"""  # noqa: S608


class PositionTaken(Exception):
    """Somebody else has moved a segment's position: what we hold of it may be stored already."""


async def load_positions(connection: Connection, spool: str, segments: Collection[str]) -> dict[str, int]:
    """Of the segments that this spool had or has."""
    rows = await connection.fetch("SELECT segment, read_to FROM spool_positions WHERE spool = $1 OR segment = any($2)", spool, segments)
    return {row["segment"]: row["read_to"] for row in rows}


async def move_position(connection: Connection, spool: str, segment: str, before: int | None, position: int) -> None:
    """Raises PositionTaken where it is not at `before` (None: new). The first thing in a transaction: were an earlier one of ours, whose
    connection we lost, still being committed, this waits for it and then sees what it did.
    """
    if before is None:
        moved = await connection.execute(
            "INSERT INTO spool_positions (segment, spool, read_to) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING", segment, spool, position
        )
    else:
        moved = await connection.execute(
            "UPDATE spool_positions SET read_to = $2, moved_at = now() WHERE segment = $1 AND read_to = $3", segment, position, before
        )
    if not moved.endswith(" 1"):
        raise PositionTaken(f"The segment {segment} is no longer at {before}")


async def forget_positions(connection: Connection, segments: Collection[str]) -> None:
    """For segments whose files are gone for good."""
    await connection.execute("DELETE FROM spool_positions WHERE segment = any($1)", segments)


async def copy_rows(connection: Connection, rows: Iterable[Sequence[Any]], contents: Iterable[Sequence[Any]]) -> None:
    """By INFERENCE_COLUMNS and CONTENT_COLUMNS, inside a transaction. Raises one of FAULTS_OF_A_ROW if there is one in any of them."""
    await connection.copy_records_to_table("inferences", records=rows, columns=INFERENCE_COLUMNS)
    await connection.copy_records_to_table("inference_content", records=contents, columns=CONTENT_COLUMNS)


async def add_usage(connection: Connection, rows: Sequence[Sequence[Any]]) -> None:
    """Adds rows by USAGE_COLUMNS to those there are. At the end of the transaction that copies what they are sums of, and once in it:
    others wait for these rows until its end.
    """
    if rows:
        await connection.execute(_ADD_USAGE, *([row[at] for row in rows] for at in range(len(USAGE_COLUMNS))))
