"""Stored responses of OpenAI's Responses API: they can be retrieved, continued and deleted. The gateway stores them for every engine.

Requests and responses are recorded in Postgres anyway, where the team's content is kept in full; but the record arrives a moment after
the response. So each response also goes to Redis before its last byte is sent, and stays there for a while. A look-up reads Redis, then
Postgres, and waits for the writer if the response may be so recent that it is not in Postgres yet.

    Redis unavailable       read from the record, once the writer has stored it
    Postgres unavailable    read from Redis, for `responses_keep_s`
    deleted                 marked in Postgres, and in place of the response in Redis, before the caller gets its 200: each alone suffices
"""

import asyncio
import contextlib
import functools
import time
from collections.abc import Sequence
from typing import Literal

from msgspec import Raw
from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain import uuid7
from app.domain.callers import Caller
from app.domain.episode_names import RecordedEpisode
from app.gateway.large_body.large_requests import LargeRequests, TeamLargeRequests
from app.gateway.memory.body_memory import BodyClaim, BodyMemory
from app.gateway.responses_state.history import (
    MAX_TURNS,
    BoundedFind,
    ConversationTurn,
    FindTurn,
    InputItem,
    conversation_input_items,
    load_history,
    put_in_order,
    walk_back,
)
from app.gateway.responses_state.item_references import RESPONSE_ID_PREFIX, resolve_references, unresolved_references
from app.gateway.responses_state.lookup_slots import LookupSlots
from app.settings import Settings
from app.store.postgres.db_errors import RecordsUnavailable
from app.store.records.recorded_responses import RecordedResponse, delete_response, find_recorded_response
from app.store.redis.response_cache import CachedResponse, ResponseCache, ResponseCacheUnavailable
from providers.canonical.errors import InvalidRequest, Unavailable, UnknownResponse
from providers.canonical.raw_json import Body
from providers.canonical.token_estimate import text_tokens
from providers.dialect import InboundRequest
from providers.dialects.openai_responses.input_items import list_input_items, prepend_items
from providers.dialects.openai_responses.item_ids import response_uuid_of
from providers.dialects.openai_responses.stored_responses import final_response, output_item_ids

_ROUTE = "openai_responses"
_MAX_RESPONSE_BYTES = 64 * 1024 * 1024  # of a recorded stream: more than a megabyte of text, at fifty bytes a character
_WRITER_WAIT_S = 5.0
_FIRST_WAIT_S, _MAX_WAIT_S = 0.05, 0.5
# Look-ups in Postgres at a time: less than half of the connections that a worker has for everything.
_LOOKUPS_PER_TEAM, _LOOKUPS_PER_WORKER = 2, 3
_UNKNOWN_PAUSE_S = 0.02  # a team that asks for responses that do not exist has 100 look-ups a second
_RECORDING_DELAY_S = 60.0  # so long after the longest possible attempt, a response is recorded if there is one
_NOT_KEPT_REASONS = {
    "masked": "Your team's requests and responses are recorded with parts of them masked, so there is nothing to retrieve or to continue: "
    "send the full conversation as `input`.",
    "redacted": "Your team's requests and responses are recorded without their content, so there is nothing to retrieve or to continue: "
    "send the full conversation as `input`.",
    "none": "Your team's requests and responses are not stored, so there is nothing to retrieve or to continue: "
    "send the full conversation as `input`.",
    "erased": "Its content was erased.",
    "lost": "Its content was lost: there was no disk space to record it.",
}


class UnreadableResponse(InvalidRequest):
    """It is stored, and its request holds what cannot be decoded: a number such as 1e400, or too many levels."""

    def __init__(self) -> None:
        super().__init__("The input of this response holds a value that cannot be read: it is nested too deeply, or out of range.")


class ConversationStore:
    """expand_request() before a request is planned, store_response() before its last byte; the rest serves the routes of responses.

    start() and stop() with the worker.
    """

    def __init__(self, settings: Settings, database: AsyncEngine, body_memory: BodyMemory, large_requests: LargeRequests) -> None:
        self._database = database
        self._large_requests = large_requests
        self._body_memory = body_memory
        self._lookup_slots = LookupSlots(_LOOKUPS_PER_TEAM, _LOOKUPS_PER_WORKER, _UNKNOWN_PAUSE_S)
        self._max_history_bytes = settings.responses_history_max_bytes
        self._max_bytes = settings.max_body_bytes
        self._max_kept_bytes = settings.responses_max_bytes
        self._keep_content_days = settings.keep_content_days
        self._recent_ms = (settings.total_timeout_s + _RECORDING_DELAY_S) * 1000
        self._settings = settings
        self._responses: ResponseCache | None = None

    def start(self) -> None:
        settings = self._settings
        if settings.redis_url and settings.responses_keep_s > 0:
            self._responses = ResponseCache(settings.redis_url, keep_s=settings.responses_keep_s, timeout_s=settings.redis_timeout_s)

    async def stop(self) -> None:
        if self._responses is not None:
            await self._responses.close()

    async def store_response(self, id: str, caller: Caller, episode: RecordedEpisode, request_body: bytes, response_body: bytes) -> None:
        """Stores a response in Redis, once it is recorded. Never fails: without Redis it is read from the record.

        `id` is the inference's. `response_body` is a non-streaming body, or the last frames of a stream.
        """
        if self._responses is None or caller.content != "full" or len(request_body) + len(response_body) > self._max_kept_bytes:
            return
        large_requests = self._large_requests.of_team(caller.team_id)
        response, engine_item_ids = await large_requests.run_if_large(len(response_body), _response_and_engine_items, id, response_body)
        if response is not None:
            with contextlib.suppress(ResponseCacheUnavailable):
                await self._responses.put(id, CachedResponse(caller.team_id, request_body, response, episode), engine_item_ids)

    async def expand_request(self, request: InboundRequest, caller: Caller, body_claim: BodyClaim) -> RecordedEpisode | None:
        """Adds the history before the input of a request that continues a response, and replaces item references.

        Returns the episode of that response; None: it continues none, or its episode is not known. Instructions of earlier requests are not
        carried over; calls get one result each. `body_claim` takes the memory for what is read. Raises InvalidRequest if it cannot be
        continued or is too large, BodyMemoryExceeded, and Unavailable if that is not known now.
        """
        param = "input" if request.previous_response_id is None else "previous_response_id"
        large_requests = self._large_requests.of_team(caller.team_id)
        find = BoundedFind(functools.partial(self.find_response, caller=caller), self._max_history_bytes, body_claim, param)
        earlier: list[Raw] = []
        episode: RecordedEpisode | None = None
        if request.previous_response_id is not None:
            try:
                history = await load_history(request.previous_response_id, find, self._max_bytes, large_requests)
            except UnknownResponse as fault:
                error = InvalidRequest(f"Previous {fault.message[:1].lower()}{fault.message[1:]}", param="previous_response_id")
                error.code = "previous_response_not_found"
                raise error from None
            earlier, episode = history.items, history.episode
            request.input_tokens += history.tokens
        items = prepend_items(request.body, earlier)
        unresolved_ids = await _unresolved_references(items, large_requests)
        if unresolved_ids:
            await self._resolve_references(items, unresolved_ids, find, caller)
            # References in the history are counted already, in the usage that the engine reported.
            request.input_tokens += text_tokens(sum(len(memoryview(items[index])) for index in unresolved_ids if index >= len(earlier)))
        request.repair = await put_in_order(items, large_requests)
        return episode

    async def _resolve_references(self, items: list[Raw], unresolved_ids: dict[int, str], find: FindTurn, caller: Caller) -> None:
        item_index = functools.partial(self._responses_with_items, caller)
        await resolve_references(items, unresolved_ids, find, item_index, self._max_bytes, self._large_requests.of_team(caller.team_id))

    async def _responses_with_items(self, caller: Caller, item_ids: Sequence[str]) -> Sequence[str | Literal["several"] | None]:
        """See ItemIndex. The index of ids that engines created is in Redis only."""
        if self._responses is None:
            return [None] * len(item_ids)
        try:
            return await self._responses.find_by_item_ids(caller.team_id, item_ids)
        except ResponseCacheUnavailable:
            raise Unavailable("It is not known at the moment which items are named in `input`: try again.", retry_after_s=2) from None

    async def find_response(self, id: str, caller: Caller) -> ConversationTurn:
        """Raises UnknownResponse, also for another team's; Unavailable if it is not known at the moment whether there is one."""
        inference_id = inference_id_of(id)
        if inference_id is None:
            raise UnknownResponse(id)
        large_requests = self._large_requests.of_team(caller.team_id)
        is_redis_away = False
        if self._responses is not None:
            try:
                kept = await self._responses.get(inference_id)
            except ResponseCacheUnavailable:
                is_redis_away = True
            else:
                if kept == "deleted" or (kept is not None and kept.team_id != caller.team_id):
                    raise UnknownResponse(id)
                if kept is not None:
                    size_bytes = len(kept.request) + len(kept.response)
                    return await large_requests.run_if_large(size_bytes, _stored_turn, id, kept.request, kept.response, kept.episode)
        row = await self._find_recorded(inference_id, caller)
        if row is not None:
            return await large_requests.run_if_large(len(row.request or b"") + len(row.response or b""), read_recorded_turn, id, row)
        if is_redis_away and self._is_recent(inference_id):
            raise Unavailable(f"It is not known at the moment whether there is a response '{id}': try again.", retry_after_s=2)
        raise UnknownResponse(id)

    async def list_inputs(self, id: str, caller: Caller) -> list[InputItem]:
        """The input items of a response, oldest first, with those of the conversation that it continues, as far as that is still stored.

        Raises as find_response() does, InvalidRequest if it is too large to be listed, BodyMemoryExceeded.
        """
        body_claim = self._body_memory.claim(caller)
        try:
            return await self._list_inputs(id, caller, body_claim)
        finally:
            body_claim.release()

    async def _list_inputs(self, id: str, caller: Caller, body_claim: BodyClaim) -> list[InputItem]:
        turns: list[ConversationTurn] = []
        large_requests = self._large_requests.of_team(caller.team_id)
        find = BoundedFind(functools.partial(self.find_response, caller=caller), self._max_history_bytes, body_claim, None)
        try:
            async for turn in walk_back(id, find):
                if len(turns) == MAX_TURNS:
                    raise InvalidRequest(f"This conversation has more than {MAX_TURNS} turns, too many to be listed.")
                turns.append(turn)
        except UnknownResponse:
            if not turns:
                raise
        for turn in turns:
            items = await large_requests.run_if_large(turn.size_bytes, list_input_items, turn.request)
            unresolved_ids = await _unresolved_references(items, large_requests)
            if unresolved_ids:
                with contextlib.suppress(InvalidRequest):  # references to items that are gone are listed as references
                    await self._resolve_references(items, unresolved_ids, find, caller)
                    turn.request["input"] = items
        return await large_requests.run_if_large(sum(turn.size_bytes for turn in turns), conversation_input_items, turns[::-1])

    async def delete_stored(self, id: str, caller: Caller) -> None:
        """Hides a response from callers. The platform's record of it expires as all records do. Raises as find_response() does."""
        try:
            if self._responses is not None:
                await self._responses.ping()  # a response that would reappear with Redis must not be reported as deleted
            with contextlib.suppress(UnreadableResponse):
                await self.find_response(id, caller)
            inference_id = inference_id_of(id)
            assert inference_id is not None, "it was found"
            await delete_response(self._database, inference_id, caller.team_id, self._keep_content_days)
            if self._responses is not None:
                await self._responses.delete(inference_id)
        except (RecordsUnavailable, ResponseCacheUnavailable):
            raise Unavailable("The stores of responses are unavailable, so it cannot be deleted at the moment.", retry_after_s=2) from None

    async def _find_recorded(self, id: str, caller: Caller) -> RecordedResponse | None:
        """Reads the record. Waits for the writer if the response is recent."""
        deadline = time.monotonic() + (_WRITER_WAIT_S if self._is_recent(id) else 0)
        wait_s = _FIRST_WAIT_S
        max_bytes = max(self._max_bytes, _MAX_RESPONSE_BYTES)
        while True:
            try:
                async with self._lookup_slots.slot(caller.team_id) as slot:
                    row = await find_recorded_response(self._database, id, caller.team_id, _ROUTE, max_bytes)
                    slot.found_nothing = row is None
            except RecordsUnavailable:
                raise Unavailable("Responses cannot be looked up at the moment: the database is unavailable.", retry_after_s=2) from None
            if row is not None or time.monotonic() >= deadline:
                return row
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 1.5, _MAX_WAIT_S)

    def _is_recent(self, id: str) -> bool:
        """Whether the writer may not have stored it yet. The clocks of machines differ a little."""
        return -_RECORDING_DELAY_S * 1000 < time.time() * 1000 - uuid7.created_ms(id) < self._recent_ms


async def _unresolved_references(items: Sequence[Raw], large_requests: TeamLargeRequests) -> dict[int, str]:
    size_bytes = sum(len(memoryview(item)) for item in items)
    return await large_requests.run_if_large(size_bytes, unresolved_references, items)


def read_recorded_turn(id: str, row: RecordedResponse) -> ConversationTurn:
    """Raises UnknownResponse for one that callers do not get, or of which nothing is kept."""
    if not row.is_visible or row.is_deleted:
        raise UnknownResponse(id)
    if row.request is None or row.response is None:
        raise UnknownResponse(id, _NOT_KEPT_REASONS.get(row.policy or "", ""))
    response = _response_object(row.response)
    if response is None:
        raise UnknownResponse(id)
    return _stored_turn(id, row.request, response, row.episode)


def _response_object(response_body: bytes) -> bytes | None:
    """The Response object in a recorded body; None: a stream that ended with an error."""
    return response_body if response_body[:1] == b"{" else final_response(response_body)


def _response_and_engine_items(id: str, response_body: bytes) -> tuple[bytes | None, list[str]]:
    """The Response object in a body, and the ids in its output that the engine created. `id` is the inference's."""
    response = _response_object(response_body)
    item_ids = () if response is None else dict.fromkeys(output_item_ids(response))
    return response, [each for each in item_ids if response_uuid_of(each) != id]


def _stored_turn(id: str, request_body: bytes, response: bytes, episode: RecordedEpisode | None) -> ConversationTurn:
    """Raises UnreadableResponse if the request, which was parsed once, is nested too deeply to be parsed here."""
    try:
        body = Body.read(request_body)
    except RecursionError:
        raise UnreadableResponse from None
    if body.value("store") is False:
        raise UnknownResponse(id)
    return ConversationTurn(id.lower(), body, response, episode)


def inference_id_of(id: str) -> str | None:
    """Returns the inference id of a response, or None if its own id is not one that the gateway gave."""
    inference_id = id.removeprefix(RESPONSE_ID_PREFIX)
    return inference_id.lower() if id.startswith(RESPONSE_ID_PREFIX) and uuid7.is_uuid7(inference_id) else None
