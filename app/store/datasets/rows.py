"""Rows of versions of datasets: listed without what was written, shown, and read one after the other for an export."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct
from sqlalchemy import Boolean, ColumnElement, DateTime, Integer, Row, Select, String, cast, func, select
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.store.datasets.counts import LineFormat
from app.store.datasets.versions import NotPossible
from app.store.postgres import tables
from app.store.postgres.conditions import OpenTransaction
from app.store.postgres.paging import Page, read_cursor, write_cursor

Split = Literal["train", "validation"]

_ROWS_SCOPE, _SKIPS_SCOPE = "dataset-rows", "dataset-skips"
_EXPORT_ROWS = 200
_EXPORT_BYTES = 8 * 1024 * 1024  # packed, of the rows that are read at once; one alone may be longer

_rows, _teams = tables.dataset_rows.c, tables.teams.c
_team = func.coalesce(select(_teams.name).where(_teams.id == _rows.team_id).scalar_subquery(), cast(_rows.team_id, String)).label("team")
_FACTS: tuple[ColumnElement[Any], ...] = (
    *(_rows.number, _rows.inference_id, _team, _rows.model, _rows.function, _rows.variant, _rows.route, _rows.content, _rows.split),
    *(_rows.output, _rows.omitted, _rows.faults),
)

# The columns of an export as Parquet. What is nested is JSON; None: a text.
PARQUET_COLUMNS: Mapping[str, Any] = {
    "number": Integer(),
    "inference_id": None,
    "received_at": DateTime(),
    **dict.fromkeys(("team", "model", "function", "variant", "route", "content", "split", "output")),
    "messages": JSONB(),
    "prompt": None,
    "tools": JSONB(),
    "parallel_tool_calls": Boolean(),
    "response": JSONB(),
    "demonstration": JSONB(),
    "omitted": ARRAY(String()),
}


class DatasetRow(Struct, frozen=True, kw_only=True):
    """A row. `number`: of the row; those of rows that were erased are missing. `content`: how the inference was recorded.

    `output`: what is to be learned. `omitted`: what OpenAI's chat has no field for. `left_out_of`: the formats that cannot say it, and why.
    """

    number: int
    inference_id: str
    received_at: str
    team: str
    model: str
    function: str | None
    variant: str | None
    route: str
    content: Literal["full", "masked"]
    split: Split | None
    output: Literal["response", "demonstration"]
    omitted: Sequence[str]
    left_out_of: Mapping[str, str]


class StoredRow(Struct, frozen=True):
    """A row with what was written, packed."""

    facts: DatasetRow
    request: bytes
    response: bytes | None
    demonstration: bytes | None


class DatasetSkip(Struct, frozen=True, kw_only=True):
    """An inference that the selection matched and that got no row. `detail`: where, as a path; null: nowhere in particular."""

    inference_id: str
    reason: str
    detail: str | None


async def list_rows(
    connection: AsyncConnection, version_id: str, *, left_out_of: LineFormat | None, split: Split | None, limit: int, after: str | None
) -> Page[DatasetRow]:
    """Returns a page of rows, by number. `left_out_of` leaves only rows that this format cannot hold."""
    scope = f"{_ROWS_SCOPE}:{version_id}:{left_out_of}:{split}"
    query: Select[Any] = select(*_FACTS).where(_rows.version_id == version_id)
    if left_out_of is not None:
        query = query.where(_rows.faults.has_key(left_out_of))
    if split is not None:
        query = query.where(_rows.split == split)
    if after is not None:
        query = query.where(_rows.number > read_cursor(after, scope, [int])[0])
    rows = (await connection.execute(query.order_by(_rows.number).limit(limit + 1))).all()
    shown = [_to_facts(row) for row in rows[:limit]]
    return Page(shown, write_cursor(scope, [shown[-1].number]) if len(rows) > limit else None)


async def find_row(connection: AsyncConnection, version_id: str, number: int) -> StoredRow | None:
    query: Select[Any] = select(*_FACTS, _rows.request, _rows.response, _rows.demonstration)
    row = (await connection.execute(query.where(_rows.version_id == version_id, _rows.number == number))).one_or_none()
    return None if row is None else _to_stored(row)


async def list_skips(connection: AsyncConnection, version_id: str, *, limit: int, after: str | None) -> Page[DatasetSkip]:
    """The newest inferences first."""
    scope, skips = f"{_SKIPS_SCOPE}:{version_id}", tables.dataset_skips.c
    query = select(skips.inference_id, skips.reason, skips.detail).where(skips.version_id == version_id)
    if after is not None:
        query = query.where(skips.inference_id < read_cursor(after, scope, [str])[0])
    rows = (await connection.execute(query.order_by(skips.inference_id.desc()).limit(limit + 1))).all()
    shown = [DatasetSkip(inference_id=row.inference_id, reason=row.reason, detail=row.detail) for row in rows[:limit]]
    return Page(shown, write_cursor(scope, [shown[-1].inference_id]) if len(rows) > limit else None)


async def walk_rows(
    open_transaction: OpenTransaction, version_id: str, *, without_faults_of: LineFormat | None, split: Split | None
) -> AsyncGenerator[list[StoredRow]]:
    """All rows in order, some at a time, each time in a transaction of its own: nothing is held while a caller reads slowly.

    `without_faults_of` leaves only what can be written in this format. Raises NotPossible if the version is deleted meanwhile: what has
    come until then is not all.
    """
    after = 0
    status = select(tables.dataset_versions.c.status).where(tables.dataset_versions.c.id == version_id)
    conditions = [_rows.version_id == version_id]
    if without_faults_of is not None:
        conditions.append(func.coalesce(~_rows.faults.has_key(without_faults_of), True))
    if split is not None:
        conditions.append(_rows.split == split)
    length = func.length(_rows.request) + func.coalesce(func.length(_rows.response), 0) + func.coalesce(func.length(_rows.demonstration), 0)
    while True:
        async with open_transaction() as connection:
            sizes = select(_rows.number, length.label("length")).where(*conditions, _rows.number > after)
            found = (await connection.execute(sizes.order_by(_rows.number).limit(_EXPORT_ROWS))).all()
            numbers: list[int] = []
            size_bytes = 0
            for number, row_bytes in found:
                size_bytes += row_bytes
                if numbers and size_bytes > _EXPORT_BYTES:
                    break
                numbers.append(number)
            query: Select[Any] = select(*_FACTS, _rows.request, _rows.response, _rows.demonstration)
            query = query.where(_rows.version_id == version_id, _rows.number.in_(numbers)).order_by(_rows.number)
            rows = [_to_stored(row) for row in await connection.execute(query)] if numbers else []
            if await connection.scalar(status) != "complete":  # last: rows that were there were read before they are deleted
                raise NotPossible("The version was deleted while it was being exported: what has been written is a part of it.")
        yield rows
        if not numbers:
            return
        after = numbers[-1]


def _to_facts(row: Row[Any]) -> DatasetRow:
    return DatasetRow(
        number=row.number,
        inference_id=row.inference_id,
        received_at=datetime.fromtimestamp(uuid7.created_ms(row.inference_id) / 1000, UTC).isoformat(timespec="milliseconds"),
        team=row.team,
        model=row.model,
        function=row.function,
        variant=row.variant,
        route=row.route,
        content=row.content,
        split=row.split,
        output=row.output,
        omitted=row.omitted or [],
        left_out_of=row.faults or {},
    )


def _to_stored(row: Row[Any]) -> StoredRow:
    return StoredRow(_to_facts(row), row.request, row.response, row.demonstration)


def parquet_values(row: DatasetRow, request: Mapping[str, Any], response: Any, demonstration: Any) -> dict[str, Any]:
    """A row by the names of PARQUET_COLUMNS."""
    written = {"messages", "prompt", "tools", "parallel_tool_calls"}
    facts = msgspec.structs.asdict(row)
    values = {**facts, **{name: request.get(name) for name in written}, "response": response, "demonstration": demonstration}
    return {name: values[name] for name in PARQUET_COLUMNS}
