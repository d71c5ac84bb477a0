"""Turns of an episode: what is new in each, the messages after the last response that a request repeats, and the response."""

import time
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.process.thread_steps import in_steps, run_in_steps
from app.store.messages.read_messages import MAX_READ_BYTES, Messages, PackedExchange, read_messages
from app.store.postgres.tables import deleted_responses, inference_content

_MAX_PACKED_BYTES = 8 * 1024 * 1024  # of all turns together; those beyond have no messages
MAX_SHOWN_BYTES = 8 * 1024 * 1024  # of all of their messages, as JSON: a few packed bytes may be a gigabyte of the same letter
_READ_S = 5.0  # then the turns that are left have none, too


class Turn(Struct, frozen=True):
    """An inference whose messages are wanted. `route` is the API of its caller."""

    id: str
    route: str
    streamed: bool


PackedTurns = Sequence[tuple[str, PackedExchange]]


async def read_packed_turns(connection: AsyncConnection, turns: Sequence[Turn]) -> PackedTurns:
    """Returns what was written in inferences, with their ids.

    What is not kept, deleted by its caller, or beyond what fits into memory is left out.
    """
    content = inference_content.c
    lengths = func.coalesce(func.length(content.request), 0) + func.coalesce(func.length(content.response), 0)
    within = (
        select(content.id, lengths.label("length"))
        .outerjoin(deleted_responses, deleted_responses.c.id == content.id)
        .where(content.id.in_([turn.id for turn in turns]), deleted_responses.c.id.is_(None))
        .order_by(content.id)
    )
    wanted: list[str] = []
    total_bytes = 0
    for id, length in await connection.execute(within):
        if length <= 2 * MAX_READ_BYTES and total_bytes + length <= _MAX_PACKED_BYTES:
            total_bytes += length
            wanted.append(id)
    rows = await connection.execute(select(content.id, content.request, content.response).where(content.id.in_(wanted)))
    packed = {row.id: (row.request, row.response) for row in rows}
    return [(turn.id, PackedExchange(turn.route, turn.streamed, *packed[turn.id])) for turn in turns if turn.id in packed]


async def read_turns(packed: PackedTurns, max_characters: int) -> dict[str, Messages]:
    """Returns the new messages of inferences by id, each part cut to so many characters. What would take too long has none."""
    return await run_in_steps(lambda: dict(read_exchanges(packed, max_characters)))


def read_exchanges(exchanges: Sequence[tuple[str, PackedExchange]], max_characters: int) -> Iterator[tuple[str, Messages]]:
    """Yields the new messages of each, until they are too many together, or take too long. Call it in run_in_steps()."""
    ends_s, shown_bytes = time.monotonic() + _READ_S, 0
    for id, exchange in in_steps(exchanges):
        if time.monotonic() > ends_s:
            return
        found = new_in(read_messages(exchange, max_characters))
        shown_bytes += len(msgspec.json.encode(found))
        if shown_bytes > MAX_SHOWN_BYTES:
            return
        yield id, found


def new_in(messages: Messages) -> Messages:
    """The messages without those that an earlier turn had; `omitted` counts these, too."""
    return replace(messages, input=messages.input[messages.new_from :], omitted=messages.omitted + messages.new_from, new_from=0)
