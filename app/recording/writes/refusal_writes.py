"""Writes of sampled refusals."""

from collections.abc import Sequence
from typing import Any

from app.store.postgres.partitions import Connection
from app.store.postgres.tables import refusals

REFUSAL_COLUMNS = [column.name for column in refusals.columns]

_TYPES = {"id": "uuid", "received_at": "timestamptz", "team_id": "uuid", "key_id": "uuid", "status": "smallint"}
_INSERT = f"""
    INSERT INTO refusals ({", ".join(REFUSAL_COLUMNS)})
    SELECT * FROM unnest({", ".join(f"${at}::{_TYPES.get(name, 'text')}[]" for at, name in enumerate(REFUSAL_COLUMNS, 1))})
    ON CONFLICT DO NOTHING
"""  # noqa: S608


async def add_refusals(connection: Connection, rows: Sequence[Sequence[Any]]) -> None:
    """Insert rows of REFUSAL_COLUMNS, inside a transaction. Their partitions must exist."""
    if rows:
        await connection.execute(_INSERT, *(list(column) for column in zip(*rows, strict=True)))
