"""Statements for many rows, a batch at a time: the event loop serves callers in between, and no command lasts for long."""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from sqlalchemy import Executable
from sqlalchemy.ext.asyncio import AsyncConnection

# About three milliseconds of the event loop.
BATCH_ROWS = 50


async def execute_in_batches(connection: AsyncConnection, statement: Executable, rows: Iterable[Mapping[str, Any]]) -> None:
    """Executes a statement like connection.execute(), for any number of rows, none included.

    Lazy rows are made a batch at a time, too.
    """
    remaining = iter(rows)
    while batch := list(islice(remaining, BATCH_ROWS)):
        await connection.execute(statement, batch)
