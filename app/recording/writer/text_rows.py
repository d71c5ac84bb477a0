"""Texts of a batch for full-text search: of teams that have it on, as far as content is kept."""

import asyncio
import logging
import time
from collections.abc import Collection, Sequence

from app.recording.rows.written_text import read_text
from app.recording.writer.batch import InferenceRow
from app.recording.writes.inference_texts import add_texts, searched_teams
from app.recording.writes.inference_writes import CONTENT_COLUMNS, ROW_ERRORS
from app.store.formats.content_packing import unpack_beginning, unpack_within
from app.store.postgres.db_errors import describe_without_values
from app.store.postgres.inference_columns import INFERENCE_COLUMNS
from app.store.postgres.partitions import Connection
from app.store.records.search_words import split_words

logger = logging.getLogger(__name__)

MAX_CHARACTERS = 32_000  # of one inference
# While more than that is stored at once, each further inference has fewer: no team's texts hold up the records of all.
_BATCH_CHARACTERS = 4_000_000
_FEW_CHARACTERS = 2_000
_ROWS_AT_ONCE = 50
_MAX_SECONDS = 20.0  # of a batch, which must be stored in time, whatever bodies are made of
_MAX_REQUEST_BYTES = 8 * 1024 * 1024
_MAX_STREAM_BYTES = 4 * 1024 * 1024

_TEAM_ID, _SHADOW = INFERENCE_COLUMNS.index("team_id"), INFERENCE_COLUMNS.index("shadow")
_POLICY, _REQUEST, _RESPONSE = (CONTENT_COLUMNS.index(name) for name in ("policy", "request", "response"))


async def add_row_texts(connection: Connection, rows: Sequence[InferenceRow]) -> None:
    """Store the words of rows, inside the transaction that stores the rows. Raises one of ROW_ERRORS."""
    teams = await searched_teams(connection)
    searched = [row for row in rows if _is_searched(row, teams)] if teams else []
    count, began_s = 0, time.monotonic()
    for start in range(0, len(searched), _ROWS_AT_ONCE):
        if time.monotonic() - began_s > _MAX_SECONDS:
            logger.warning("reading texts takes too long: some inferences cannot be searched", extra={"inferences": len(searched) - start})
            return
        max_characters = MAX_CHARACTERS if count < _BATCH_CHARACTERS else _FEW_CHARACTERS
        texts = await asyncio.to_thread(_read_texts, searched[start : start + _ROWS_AT_ONCE], max_characters)
        count += sum(len(text) for *_, text in texts)
        await add_texts(connection, texts)


def _is_searched(row: InferenceRow, teams: Collection[str]) -> bool:
    """Returns whether the text of a row can be searched.

    A shadow's cannot: it is another team's content than the record's, and a search would find its request
    twice.
    """
    return row.inference[_TEAM_ID] in teams and row.inference[_SHADOW] is None and row.content[_POLICY] in ("full", "masked")


async def add_valid_row_texts(connection: Connection, rows: Sequence[InferenceRow]) -> None:
    """Store the words of rows that must be stored. If their words cannot be stored, the rows are without."""
    try:
        async with connection.transaction():
            await add_row_texts(connection, rows)
    except ROW_ERRORS as error:
        logger.error("the text of some inferences cannot be searched: %s", describe_without_values(error), extra={"inferences": len(rows)})


def _read_texts(rows: Sequence[InferenceRow], max_characters: int) -> list[tuple[str, str, str]]:
    return [(row.content[0], row.inference[_TEAM_ID], _read_words(row, max_characters)) for row in rows]


def _read_words(row: InferenceRow, max_characters: int) -> str:
    packed_request, packed_response = row.content[_REQUEST], row.content[_RESPONSE]
    request = None if packed_request is None else unpack_within(packed_request, _MAX_REQUEST_BYTES)
    response = b"" if packed_response is None else unpack_beginning(packed_response, _MAX_STREAM_BYTES)
    return split_words(read_text(request or b"", response, max_characters))
