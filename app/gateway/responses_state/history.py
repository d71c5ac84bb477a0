"""Turns of a conversation: an answer names the one that its ask went on from, and so on back to the first."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.errors import InvalidRequest
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.canonical.token_estimate import text_tokens
from providers.dialects.openai_responses.conversation_items import (
    input_item_id,
    item_id_of,
    list_input_items,
    output_items,
    write_input_items,
)

MAX_TURNS = 1_000


class ConversationTurn(Struct, frozen=True):
    """One answer and what it was asked for. `response`: the Response object, as JSON."""

    id: str
    request: Body
    response: bytes

    @property
    def previous(self) -> str | None:
        return self.request.value("previous_response_id")


FindTurn = Callable[[str], Awaitable[ConversationTurn]]


class History(Struct, frozen=True):
    """What was said in a conversation, oldest first. `tokens`: an estimate."""

    items: list[Raw]
    tokens: int


async def load_history(last: str, find: FindTurn, max_bytes: int) -> History:
    """Up to an answer, and with it. Raises Malformed if it is too long to go on from."""
    turns: list[ConversationTurn] = []
    items_by_turn: list[list[Raw]] = []
    size_bytes = 0
    async for turn in walk_back(last, find):
        if len(turns) == MAX_TURNS:
            raise _too_long(f"more than {MAX_TURNS} turns")
        turns.append(turn)
        items_by_turn.append([*list_input_items(turn.request), *output_items(turn.response)])
        size_bytes += sum(map(_size_bytes, items_by_turn[-1]))
        if size_bytes > max_bytes:
            raise _too_long(f"more than {max_bytes} bytes")
    items = [item for items in reversed(items_by_turn) for item in items]
    # What the last engine counted, if it did: of images and documents the bytes tell nothing.
    return History(items, _reported_tokens(turns[0].response) or text_tokens(size_bytes))


async def walk_back(last: str, find: FindTurn) -> AsyncGenerator[ConversationTurn]:
    """Has an end: an ask can only name what was answered before it."""
    response_id: str | None = last
    while response_id is not None:
        turn = await find(response_id)
        yield turn
        response_id = turn.previous


class InputItem(Struct, frozen=True):
    """An item that an answer was made of. `at`: its place among those of the ask of `turn`; None: it was answered there.

    Of a long conversation a page is told at a time, and only that is decoded.
    """

    raw: Raw
    turn_id: str
    index: int | None = None

    @property
    def id(self) -> str | None:
        return item_id_of(self.raw) if self.index is None else input_item_id(self.raw, self.turn_id, self.index)

    def to_openai(self) -> dict[str, Any]:
        """As OpenAI lists it."""
        return msgspec.json.decode(self.raw) if self.index is None else write_input_items([self.raw], self.turn_id, self.index)[0]


def conversation_input_items(turns: Sequence[ConversationTurn]) -> list[InputItem]:
    """What the last of these answers, oldest first, was made of."""
    *earlier, last = turns
    items: list[InputItem] = []
    for turn in earlier:
        items += _request_items(turn)
        items += [InputItem(item, turn.id) for item in output_items(turn.response)]
    return items + _request_items(last)


def _request_items(turn: ConversationTurn) -> list[InputItem]:
    return [InputItem(item, turn.id, index) for index, item in enumerate(list_input_items(turn.request))]


class _UsageTokens(Struct):
    total_tokens: int | None = None


class _Response(Struct):
    usage: _UsageTokens | None = None


_response_decoder = msgspec.json.Decoder(_Response)


def _reported_tokens(response: bytes) -> int:
    try:
        usage = _response_decoder.decode(response).usage
    except DECODE_ERRORS:  # told in another way
        return 0
    return max(0, (usage and usage.total_tokens) or 0)


def _too_long(reason: str) -> InvalidRequest:
    message = f"This conversation has {reason}: begin a new one, with what it should know as `input`."
    return InvalidRequest(message, param="previous_response_id")


def _size_bytes(item: Raw) -> int:
    return len(memoryview(item))
