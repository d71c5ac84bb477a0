"""What OpenAI's Responses API remembers: answers that can be read again and gone on from. The gateway keeps it, whoever answered.

What was asked and answered is recorded in Postgres anyway, where the team's content is kept in full; the record arrives a moment after
the answer. So each answer also goes to Redis before its last byte goes out, and is there for a while. An answer is looked for in Redis,
then in Postgres; one that may have been given just now is waited for, in case only the record tells of it.

    Redis away       the record tells, once the writer has stored it
    Postgres away    Redis tells, for `responses_keep_s`
    deleted          noted in Postgres, and in place of the answer in Redis, before it is said to be: no reader needs to ask both
"""

import asyncio
import contextlib
import functools
import time
from collections.abc import Sequence
from typing import Literal

from msgspec import Raw
from sqlalchemy.ext.asyncio import AsyncEngine

from app import uuid7
from app.domain import Caller
from app.gateway.references import PREFIX, resolve, unresolved
from app.gateway.turns import Listed, Stored, listed, said_up_to, turns_back_from
from app.settings import Settings
from app.store.recorded_answers import RecordsAway
from app.store.recorded_responses import RecordedResponse, delete_response, recorded_response
from app.store.responses import Kept, Responses, ResponsesAway
from providers.dialect import Ask
from providers.dialects.openai_responses.conversation import final_of, input_items, item_ids, resumed
from providers.dialects.openai_responses.items import minted_for
from providers.errors import Malformed, Unavailable, UnknownResponse
from providers.estimate import text_tokens
from providers.wire import Body

_ROUTE = "openai_responses"
_MOST_REPLY_BYTES = 64 * 1024 * 1024  # of a recorded stream: a megabyte and more of text, at fifty bytes for each
_WRITER_S = 5.0
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.05, 0.5
_LATE_S = 60.0  # after the longest that an attempt takes, an answer is recorded or was none
_UNKEPT = {
    "redacted": "What your team asks and is answered is recorded without its content, so there is nothing to read again or to go on from: "
    "send the whole conversation as `input`.",
    "none": "What your team asks and is answered is not kept, so there is nothing to read again or to go on from: "
    "send the whole conversation as `input`.",
    "lost": "Its content was lost: there was no room to record it.",
}


class Conversations:
    """keep() before the last byte of an answer, resume() before an ask is planned; find(), inputs() and delete() as callers wish.

    start() and stop() with the worker: Redis is asked in between.
    """

    def __init__(self, settings: Settings, database: AsyncEngine) -> None:
        self._database = database
        self._most_bytes = settings.max_body_bytes
        self._max_kept_bytes = settings.responses_max_bytes
        self._keep_content_days = settings.keep_content_days
        self._recent_ms = (settings.total_timeout_s + _LATE_S) * 1000
        self._settings = settings
        self._responses: Responses | None = None

    def start(self) -> None:
        settings = self._settings
        if settings.redis_url and settings.responses_keep_s > 0:
            self._responses = Responses(settings.redis_url, keep_s=settings.responses_keep_s, patience_s=settings.redis_timeout_s)

    async def stop(self) -> None:
        if self._responses is not None:
            await self._responses.close()

    async def keep(self, id: str, caller: Caller, asked: bytes, answer: bytes) -> None:
        """Of an ask that `stores`, once it is recorded. Never fails: what Redis does not take, the record tells.

        `id`: the inference's. `answer`: whole, or what ended its stream.
        """
        if self._responses is None or caller.content != "full" or len(asked) + len(answer) > self._max_kept_bytes:
            return
        response = _response_in(answer)
        if response is not None:
            with contextlib.suppress(ResponsesAway):
                foreign = [each for each in dict.fromkeys(item_ids(response)) if minted_for(each) != id]
                await self._responses.put(id, Kept(caller.team_id, asked, response), foreign)

    async def resume(self, ask: Ask, caller: Caller) -> None:
        """Puts what was said before in front of an ask that goes on from an answer, and what it names by ids in its place.

        Instructions of earlier asks are not carried over.
        Raises Malformed if it cannot be gone on from, Unavailable if that is not known at the moment.
        """
        find = functools.partial(self.find, caller=caller)
        earlier: list[Raw] = []
        if ask.previous is not None:
            try:
                said = await said_up_to(ask.previous, find, self._most_bytes)
            except UnknownResponse as fault:
                why = f" {fault.why}" if fault.why else ""
                error = Malformed(f"Previous response with id '{fault.id}' not found.{why}", param="previous_response_id")
                error.code = "previous_response_not_found"
                raise error from None
            earlier = said.items
            ask.input_tokens += said.tokens
        items = resumed(ask.body, earlier)
        named = unresolved(items)
        if named:
            await resolve(items, named, find, functools.partial(self._answers_with, caller), self._most_bytes)
            # What of an earlier ask was named, its engine has counted.
            ask.input_tokens += text_tokens(sum(len(memoryview(items[at])) for at in named if at >= len(earlier)))

    async def _answers_with(self, caller: Caller, item_ids: Sequence[str]) -> Sequence[str | Literal["several"] | None]:
        """Of ids that engines minted Redis alone tells."""
        if self._responses is None:
            return [None] * len(item_ids)
        try:
            return await self._responses.answers_with(caller.team_id, item_ids)
        except ResponsesAway:
            raise Unavailable("It is not known at the moment which items are named in `input`: try again.", retry_after_s=2) from None

    async def find(self, id: str, caller: Caller) -> Stored:
        """Raises UnknownResponse, also for what is another team's; Unavailable if it is not known at the moment."""
        known = _inference_id(id)
        if known is None:
            raise UnknownResponse(id)
        is_redis_away = False
        if self._responses is not None:
            try:
                kept = await self._responses.get(known)
            except ResponsesAway:
                is_redis_away = True
            else:
                if kept == "deleted" or (kept is not None and kept.team_id != caller.team_id):
                    raise UnknownResponse(id)
                if kept is not None:
                    return _stored(id, kept.asked, kept.response)
        row = await self._recorded(known, caller)
        if row is not None:
            return _read(id, row)
        if is_redis_away and self._is_recent(known):
            raise Unavailable(f"It is not known at the moment whether there is a response '{id}': try again.", retry_after_s=2)
        raise UnknownResponse(id)

    async def inputs(self, id: str, caller: Caller) -> list[Listed]:
        """The items that an answer was made of, oldest first, those of the conversation that it went on from included, as far as that is
        still there. Raises as find() does.
        """
        turns: list[Stored] = []
        try:
            async for turn in turns_back_from(id, functools.partial(self.find, caller=caller)):
                turns.append(turn)
        except UnknownResponse:
            if not turns:
                raise
        for turn in turns:
            items = input_items(turn.asked)
            named = unresolved(items)
            if named:
                with contextlib.suppress(Malformed):  # those that are not there any more are told as they were
                    find = functools.partial(self.find, caller=caller)
                    await resolve(items, named, find, functools.partial(self._answers_with, caller), self._most_bytes)
                    turn.asked["input"] = items
        return listed(turns[::-1])

    async def delete(self, id: str, caller: Caller) -> None:
        """It is told to nobody any more. The platform's own record stays for as long as it keeps records. Raises as find() does."""
        try:
            if self._responses is not None:
                await self._responses.ping()  # what could come back with Redis must not be said to be deleted
            stored = await self.find(id, caller)
            inference_id = stored.id.removeprefix(PREFIX)
            await delete_response(self._database, inference_id, caller.team_id, self._keep_content_days)
            if self._responses is not None:
                await self._responses.delete(inference_id)
        except (RecordsAway, ResponsesAway):
            raise Unavailable("The stores of responses are away: it cannot be deleted at the moment.", retry_after_s=2) from None

    async def _recorded(self, id: str, caller: Caller) -> RecordedResponse | None:
        """Waits for the writer, if it may be about to store it."""
        until = time.monotonic() + (_WRITER_S if self._is_recent(id) else 0)
        wait_s = _FIRST_WAIT_S
        most_bytes = max(self._most_bytes, _MOST_REPLY_BYTES)
        while True:
            try:
                row = await recorded_response(self._database, id, caller.team_id, _ROUTE, most_bytes)
            except RecordsAway:
                raise Unavailable("Responses cannot be looked up at the moment: the database is away.", retry_after_s=2) from None
            if row is not None or time.monotonic() >= until:
                return row
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 1.5, _LONGEST_WAIT_S)

    def _is_recent(self, id: str) -> bool:
        """Whether it may have been answered just now. The clocks of machines differ a little."""
        return -_LATE_S * 1000 < time.time() * 1000 - uuid7.born_ms(id) < self._recent_ms


def _read(id: str, row: RecordedResponse) -> Stored:
    if not row.is_answer or row.is_deleted:
        raise UnknownResponse(id)
    if row.asked is None or row.reply is None:
        raise UnknownResponse(id, _UNKEPT.get(row.policy or "", ""))
    response = _response_in(row.reply)
    if response is None:
        raise UnknownResponse(id)
    return _stored(id, row.asked, response)


def _response_in(answer: bytes) -> bytes | None:
    """None: a stream that did not end with one, but with an error."""
    return answer if answer[:1] == b"{" else final_of(answer)


def _stored(id: str, asked: bytes, response: bytes) -> Stored:
    body = Body.read(asked)
    if body.value("store") is False:
        raise UnknownResponse(id)
    return Stored(id.lower(), body, response)


def _inference_id(id: str) -> str | None:
    inference_id = id.removeprefix(PREFIX)
    return inference_id.lower() if id.startswith(PREFIX) and uuid7.is_uuid7(inference_id) else None
