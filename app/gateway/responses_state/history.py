"""Conversation history: a response names the previous one, and so on back to the first."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from app.domain.episode_names import RecordedEpisode
from app.gateway.large_body.large_requests import TeamLargeRequests
from app.gateway.memory.body_memory import BodyClaim
from providers.canonical.errors import InvalidRequest
from providers.canonical.open_calls import Repair
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.canonical.token_estimate import text_tokens
from providers.dialects.openai_responses.input_item_listing import input_item_id, write_input_items
from providers.dialects.openai_responses.input_items import ContinuedInput, list_input_items
from providers.dialects.openai_responses.item_ids import item_id_of
from providers.dialects.openai_responses.normalize_input import put_continued_calls_in_order
from providers.dialects.openai_responses.stored_responses import output_items

MAX_TURNS = 1_000


class ConversationTurn(Struct, frozen=True):
    """A request and its response."""

    id: str  # the response's
    request: Body
    response: bytes  # the Response object, as JSON
    episode: RecordedEpisode | None = None  # None: it is not known

    @property
    def size_bytes(self) -> int:
        return len(self.response) + sum(_size_bytes(value) for value in self.request.values() if isinstance(value, Raw))

    @property
    def previous_id(self) -> str | None:
        return self.request.value("previous_response_id")


class BoundedFind:
    """Finds turns for one request of a caller, until they have `max_bytes` together.

    `claim` takes the memory for each. `param` is the field that names the conversation, for the error.
    """

    def __init__(self, find: "FindTurn", max_bytes: int, claim: BodyClaim, param: str | None) -> None:
        self._find = find
        self._max_bytes = max_bytes
        self._claim = claim
        self._param = param
        self._read_bytes = 0

    async def __call__(self, id: str) -> ConversationTurn:
        """Raises InvalidRequest once they have more bytes, and what find() and the claim raise."""
        if self._read_bytes <= self._max_bytes:
            turn = await self._find(id)
            size_bytes = turn.size_bytes
            self._read_bytes += size_bytes
            if self._read_bytes <= self._max_bytes:
                self._claim.add(size_bytes)
                return turn
        raise InvalidRequest(
            f"The earlier requests and responses of this conversation have more than {self._max_bytes} bytes together, with the tools and"
            " instructions of each: begin a new conversation, with what it should know as `input`.",
            param=self._param,
        )


FindTurn = Callable[[str], Awaitable[ConversationTurn]]


class History(Struct, frozen=True):
    """The items of a conversation, oldest first. `tokens`: an estimate. `episode`: of its last turn; None: it is not known."""

    items: list[Raw]
    tokens: int
    episode: RecordedEpisode | None


async def load_history(last_id: str, find: FindTurn, max_bytes: int, large_requests: TeamLargeRequests) -> History:
    """The conversation up to and including a response. Raises InvalidRequest if it is too long, UnknownResponse if a turn is missing.

    `large_requests` reads large turns.
    """
    items_by_turn: list[list[Raw]] = []
    reported_tokens = size_bytes = 0
    episode: RecordedEpisode | None = None
    async for turn in walk_back(last_id, find):
        if len(items_by_turn) == MAX_TURNS:
            raise _too_long(f"more than {MAX_TURNS} turns")
        turn_items, turn_tokens = await large_requests.run_if_large(turn.size_bytes, _read_turn, turn)
        if not items_by_turn:
            # The last engine's own count if it reported one: bytes say nothing about the tokens of images and documents.
            reported_tokens, episode = turn_tokens, turn.episode
        items_by_turn.append(turn_items)
        size_bytes += sum(map(_size_bytes, turn_items))
        if size_bytes > max_bytes:
            raise _too_long(f"more than {max_bytes} bytes")
    items = [item for items in reversed(items_by_turn) for item in items]
    return History(items, reported_tokens or text_tokens(size_bytes), episode)


async def put_in_order(items: ContinuedInput, large_requests: TeamLargeRequests) -> Repair | None:
    """Gives each call of a conversation one result, as parsing does where a request brings its whole history."""
    return await large_requests.run_if_large(sum(map(_size_bytes, items)), put_continued_calls_in_order, items)


def _read_turn(turn: ConversationTurn) -> tuple[list[Raw], int]:
    """The items of a turn, and the tokens that the engine reported up to its end; 0: none."""
    # Copied: an item would keep the whole of the request or response that it is part of.
    items = [item.copy() for item in (*list_input_items(turn.request), *output_items(turn.response))]
    return items, _reported_tokens(turn.response)


async def walk_back(last_id: str, find: FindTurn) -> AsyncGenerator[ConversationTurn]:
    """The turns from a response back to the first. It ends, as a request can only name an earlier response."""
    response_id: str | None = last_id
    while response_id is not None:
        turn = await find(response_id)
        yield turn
        response_id = turn.previous_id


class InputItem(Struct, frozen=True):
    """An input item of a response. Kept raw: long conversations are listed in pages, and only one page is decoded."""

    raw: Raw
    turn_id: str
    index: int | None = None  # its position in the request of turn `turn_id`; None: it is an output item of that turn

    @property
    def id(self) -> str | None:
        return item_id_of(self.raw) if self.index is None else input_item_id(self.raw, self.turn_id, self.index)

    def to_openai(self) -> dict[str, Any]:
        """Returns the item as OpenAI's list of input items has it."""
        return msgspec.json.decode(self.raw) if self.index is None else write_input_items([self.raw], self.turn_id, self.index)[0]


def conversation_input_items(turns: Sequence[ConversationTurn]) -> list[InputItem]:
    """The input items of the last of these turns, which are the full conversation, oldest first."""
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
    except DECODE_ERRORS:  # usage of another shape
        return 0
    return max(0, (usage and usage.total_tokens) or 0)


def _too_long(reason: str) -> InvalidRequest:
    message = f"This conversation has {reason}: begin a new one, with what it should know as `input`."
    return InvalidRequest(message, param="previous_response_id")


def _size_bytes(item: Raw) -> int:
    return len(memoryview(item))
