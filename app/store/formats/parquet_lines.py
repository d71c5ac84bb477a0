"""Rows as a Parquet file, in row groups that fit into memory. It takes the extra narthex[parquet]."""

import importlib
import importlib.util
import io
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import BigInteger, Boolean, DateTime, Integer, SmallInteger
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from app.store.postgres.tables import record_columns

PARQUET_MEDIA_TYPE = "application/vnd.apache.parquet"
MISSING = "Parquet takes an extra that is not installed here: pip install 'narthex[parquet]'."
_GROUP_ROWS = 5_000
_MAX_GROUP_BYTES = 32 * 1024 * 1024  # estimated by the JSON of nested values: callers choose their tags


def can_write() -> bool:
    return importlib.util.find_spec("pyarrow") is not None


# Of inferences, as lists have them; `team` is the last.
INFERENCE_COLUMNS: Mapping[str, Any] = {**{column.name: column.type for column in record_columns}, "team": None}


class ParquetFile:
    """Feed it rows: what is returned goes to the file, in order, and last what finish() returns.

    Both compute for some time: call them in a thread. `columns` has the type of each in SQL, None for a text. `received_at` is a time, and
    nested values are JSON.
    """

    def __init__(self, columns: Mapping[str, Any] = INFERENCE_COLUMNS) -> None:
        self._arrow: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
        self._columns = columns
        self._schema: Any = self._arrow.schema([(name, self._type(kind)) for name, kind in columns.items()])
        self._sink = _Sink()
        self._writer: Any = parquet.ParquetWriter(self._arrow.PythonFile(self._sink, mode="w"), self._schema, compression="zstd")
        self._rows: list[dict[str, Any]] = []
        self._size_bytes = 0

    def write(self, rows: Iterable[Mapping[str, Any]]) -> bytes:
        for row in rows:
            values = {name: _value(kind, row[name]) for name, kind in self._columns.items()}
            self._size_bytes += sum(len(value) for value in values.values() if isinstance(value, str))
            self._rows.append(values)
            if len(self._rows) >= _GROUP_ROWS or self._size_bytes >= _MAX_GROUP_BYTES:
                self._flush()
        return self._sink.take()

    def finish(self) -> bytes:
        self._flush()
        self._writer.close()
        return self._sink.take()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(self._arrow.Table.from_pylist(self._rows, schema=self._schema))
        self._rows, self._size_bytes = [], 0

    def _type(self, kind: Any) -> Any:
        if isinstance(kind, DateTime):
            return self._arrow.timestamp("us", tz="UTC")
        if isinstance(kind, BigInteger | Integer | SmallInteger):
            return self._arrow.int64()
        if isinstance(kind, Boolean):
            return self._arrow.bool_()
        return self._arrow.list_(self._arrow.string()) if isinstance(kind, ARRAY) else self._arrow.string()


class _Sink(io.RawIOBase):
    """A file that is written from its beginning to its end, and taken away meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self._written: list[bytes] = []
        self._position = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        copy = bytes(data)
        self._written.append(copy)
        self._position += len(copy)
        return len(copy)

    def tell(self) -> int:
        return self._position

    def take(self) -> bytes:
        taken, self._written = b"".join(self._written), []
        return taken


def _value(kind: Any, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(kind, DateTime) and isinstance(value, str):
        return datetime.fromisoformat(value)
    return msgspec.json.encode(value).decode() if isinstance(kind, JSONB) else value
