"""Exports of versions of datasets: lines of training files, or Parquet, made a few rows at a time."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Literal

import msgspec

from app.datasets.example import Example
from app.datasets.formats import Inexpressible, encode_line, write_line
from app.store.datasets.counts import LineFormat
from app.store.datasets.rows import PARQUET_COLUMNS, Split, StoredRow, parquet_values, walk_rows
from app.store.formats.content_packing import unpack
from app.store.formats.parquet_lines import ParquetFile
from app.store.postgres.conditions import OpenTransaction

_PIECE_BYTES = 1024 * 1024

ExportFormat = LineFormat | Literal["parquet"]


def export_rows(open_transaction: OpenTransaction, version_id: str, format: ExportFormat, split: Split | None) -> AsyncGenerator[bytes]:
    """The file in pieces. What the format cannot say is left out; the version counts it, and its rows say why."""
    if format == "parquet":
        return _export_parquet(open_transaction, version_id, split)
    return _export_lines(open_transaction, version_id, format, split)


def unpack_example(row: StoredRow) -> Example:
    decode = msgspec.json.decode
    response = None if row.response is None else decode(unpack(row.response))
    demonstration = None if row.demonstration is None else decode(unpack(row.demonstration))
    return Example(decode(unpack(row.request)), response, demonstration, tuple(row.facts.omitted))


async def _export_lines(
    open_transaction: OpenTransaction, version_id: str, format: LineFormat, split: Split | None
) -> AsyncGenerator[bytes]:
    async for rows in walk_rows(open_transaction, version_id, without_faults_of=format, split=split):
        while rows:  # unpacked, they may be a thousand times as long
            lines, count = await asyncio.to_thread(_lines, rows, format)
            rows = rows[count:]
            yield lines


def _lines(rows: Sequence[StoredRow], format: LineFormat) -> tuple[bytes, int]:
    """The lines of the first of these rows, and of how many."""
    lines: list[bytes] = []
    size_bytes = count = 0
    for row in rows:
        count += 1
        with contextlib.suppress(Inexpressible):  # if a later version of this code is stricter than the one that built the row
            lines.append(encode_line(write_line(format, unpack_example(row), row.facts.output)))
            size_bytes += len(lines[-1])
        if size_bytes > _PIECE_BYTES:
            break
    return b"".join(lines), count


async def _export_parquet(open_transaction: OpenTransaction, version_id: str, split: Split | None) -> AsyncGenerator[bytes]:
    file = await asyncio.to_thread(ParquetFile, PARQUET_COLUMNS)
    async for rows in walk_rows(open_transaction, version_id, without_faults_of=None, split=split):
        yield await asyncio.to_thread(_write_parquet, file, rows)
    yield await asyncio.to_thread(file.finish)


def _write_parquet(file: ParquetFile, rows: Sequence[StoredRow]) -> bytes:
    def values(row: StoredRow) -> dict[str, Any]:
        example = unpack_example(row)
        return parquet_values(row.facts, example.request, example.response, example.demonstration)

    return file.write(map(values, rows))
