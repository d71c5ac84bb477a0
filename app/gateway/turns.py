"""Turns of a conversation: an answer names the one that its ask went on from, and so on back to the first."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.dialects.openai_responses.conversation import id_of, input_items, listed_id, listed_items, output_items
from providers.errors import Malformed
from providers.estimate import text_tokens
from providers.wire import UNREADABLE, Body

MOST_TURNS = 1_000


class Stored(Struct, frozen=True):
    """One answer and what it was asked for. `response`: the Response object, as JSON."""

    id: str
    asked: Body
    response: bytes

    @property
    def previous(self) -> str | None:
        return self.asked.value("previous_response_id")


Find = Callable[[str], Awaitable[Stored]]


class Said(Struct, frozen=True):
    """What was said in a conversation, oldest first. `tokens`: an estimate."""

    items: list[Raw]
    tokens: int


async def said_up_to(last: str, find: Find, most_bytes: int) -> Said:
    """Up to an answer, and with it. Raises Malformed if it is too long to go on from."""
    turns: list[Stored] = []
    said: list[list[Raw]] = []
    size_bytes = 0
    async for turn in turns_back_from(last, find):
        if len(turns) == MOST_TURNS:
            raise _too_long(f"more than {MOST_TURNS} turns")
        turns.append(turn)
        said.append([*input_items(turn.asked), *output_items(turn.response)])
        size_bytes += sum(map(_size_bytes, said[-1]))
        if size_bytes > most_bytes:
            raise _too_long(f"more than {most_bytes} bytes")
    items = [item for items in reversed(said) for item in items]
    # What the last engine counted, if it did: of images and documents the bytes tell nothing.
    return Said(items, _counted_tokens(turns[0].response) or text_tokens(size_bytes))


async def turns_back_from(last: str, find: Find) -> AsyncGenerator[Stored]:
    """Has an end: an ask can only name what was answered before it."""
    wanted: str | None = last
    while wanted is not None:
        turn = await find(wanted)
        yield turn
        wanted = turn.previous


class Listed(Struct, frozen=True):
    """An item that an answer was made of. `at`: its place among those of the ask of `turn`; None: it was answered there.

    Of a long conversation a page is told at a time, and only that is decoded.
    """

    raw: Raw
    turn: str
    at: int | None = None

    @property
    def id(self) -> str | None:
        return id_of(self.raw) if self.at is None else listed_id(self.raw, self.turn, self.at)

    def told(self) -> dict[str, Any]:
        """As OpenAI lists it."""
        return msgspec.json.decode(self.raw) if self.at is None else listed_items([self.raw], self.turn, self.at)[0]


def listed(turns: Sequence[Stored]) -> list[Listed]:
    """What the last of these answers, oldest first, was made of."""
    *earlier, last = turns
    items: list[Listed] = []
    for turn in earlier:
        items += _asked(turn)
        items += [Listed(item, turn.id) for item in output_items(turn.response)]
    return items + _asked(last)


def _asked(turn: Stored) -> list[Listed]:
    return [Listed(item, turn.id, at) for at, item in enumerate(input_items(turn.asked))]


class _Counted(Struct):
    total_tokens: int | None = None


class _Response(Struct):
    usage: _Counted | None = None


_response = msgspec.json.Decoder(_Response)


def _counted_tokens(response: bytes) -> int:
    try:
        usage = _response.decode(response).usage
    except UNREADABLE:  # told in another way
        return 0
    return max(0, (usage and usage.total_tokens) or 0)


def _too_long(how: str) -> Malformed:
    message = f"This conversation has {how}: begin a new one, with what it should know as `input`."
    return Malformed(message, param="previous_response_id")


def _size_bytes(item: Raw) -> int:
    return len(memoryview(item))
