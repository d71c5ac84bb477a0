"""A batch: records folded into rows, and how far they take each segment; stored whole in one transaction, or not at all."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from app.domain import Exchange
from app.record.content import pack, pack_pieces
from app.record.reader import BrokenChain, Ended, Part, Reader
from app.record.rows import Content, content_row, inference_row
from app.store.partitions import Connection, day_of
from app.store.recorded import FAULTS_OF_A_ROW, copy

ROW_BYTES = 2048  # about what a row takes beside its content
NOT_A_ROW = (msgspec.DecodeError, ValueError, OverflowError, RecursionError)

decode_exchange = msgspec.msgpack.Decoder(Exchange).decode


class Row(msgspec.Struct, frozen=True):
    """An inference ready to be stored, and where it was read."""

    inference: tuple[Any, ...]
    content: tuple[Any, ...]
    day: int
    reader: Reader
    offset: int
    end: int
    last_part: int


class Batch:
    """Rows of several segments. `moves`: each segment's reader, with the position up to which this batch has all of it."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.size_bytes = 0
        self.moves: dict[str, tuple[Reader, int]] = {}

    def add(self, row: Row) -> None:
        self.rows.append(row)
        self.size_bytes += ROW_BYTES + len(row.content[2] or b"") + len(row.content[3] or b"")

    @property
    def days(self) -> set[int]:
        return {row.day for row in self.rows}

    @property
    def lost_content(self) -> int:
        return sum(row.content[1] == "lost" for row in self.rows)


def fold(reader: Reader, record: Ended) -> Row:
    """The row of a record, with its parts. Raises one of NOT_A_ROW for what cannot be one."""
    exchange = decode_exchange(record.meta)
    day = day_of(exchange.id)
    content = _content(reader, record, exchange)
    return Row(inference_row(exchange), content_row(exchange.id, content), day, reader, record.offset, record.end, record.last_part)


def ranges(reader: Reader, of: Row | Ended) -> list[tuple[int, int]]:
    """All bytes of an exchange in its segment: of its parts, as far as they can be found, then of its record."""
    try:
        parts = reader.parts(of.last_part)
    except BrokenChain:
        parts = []
    return [*((part.offset, part.end) for part in parts), (of.offset, of.end)]


async def copy_all(connection: Connection, rows: list[Row]) -> None:
    await copy(connection, [row.inference for row in rows], [row.content for row in rows])


async def copy_the_good(connection: Connection, rows: list[Row]) -> list[tuple[Row, str]]:
    """Copies what can be, halving what cannot until each fault is alone; the rows at fault, each with the reason."""
    try:
        async with connection.transaction():
            await copy_all(connection, rows)
    except FAULTS_OF_A_ROW as error:
        if len(rows) == 1:
            return [(rows[0], f"{type(error).__name__}: {error}")]
        middle = len(rows) // 2
        return [*await copy_the_good(connection, rows[:middle]), *await copy_the_good(connection, rows[middle:])]
    return []


def _content(reader: Reader, record: Ended, exchange: Exchange) -> Content:
    if record.is_lost:
        return Content("lost")
    if exchange.content == "none":
        return Content("none")
    if not record.last_part:
        return Content(exchange.content, pack(record.ask), pack(record.reply))
    try:
        parts = reader.parts(record.last_part)
        ask = pack_pieces(_pieces(reader, (part for part in parts if part.is_ask), record.ask))
        reply = pack_pieces(_pieces(reader, (part for part in parts if not part.is_ask), record.reply))
    except BrokenChain:
        return Content("lost")
    return Content(exchange.content, ask, reply)


def _pieces(reader: Reader, parts: Iterable[Part], rest: bytes) -> Iterator[bytes]:
    for part in parts:
        yield reader.piece(part)
    yield rest
