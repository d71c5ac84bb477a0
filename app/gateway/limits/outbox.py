"""Outbox: what Redis must be told sooner or later. Sent at once, and again with each connection until it is confirmed."""

import asyncio
import contextlib
import logging
from typing import Any

from app.store.counters.connection import Away, Says
from app.store.counters.counters import Counters

log = logging.getLogger(__name__)

_MOST_TRIES = 3  # of those that the server answers with an error


class _Letter:
    """It waits for its reply as a future would, but nobody waits for it."""

    __slots__ = ("_outbox", "said", "told")

    def __init__(self, outbox: "Outbox", told: bytes) -> None:
        self._outbox = outbox
        self.told = told
        self.said = 0  # how many errors the server answered

    def done(self) -> bool:
        return False

    def set_result(self, result: Any, /) -> None:
        self._outbox.confirmed(self)

    def set_exception(self, exception: Exception, /) -> None:
        if isinstance(exception, Says):  # else it goes with the next connection
            self._outbox.refused(self, exception)


class Outbox:
    """For commands that change nothing the second time. len() is how many are not confirmed."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._letters: dict[_Letter, None] = {}
        self._loading: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._letters)

    def post(self, told: bytes) -> None:
        letter = _Letter(self, told)
        self._letters[letter] = None
        if self._counters.up:
            with contextlib.suppress(Away):
                self._counters.send(told, letter)

    def send_again(self) -> None:
        """Everything that is not confirmed, in the order in which it was posted. Raises Away."""
        for letter in list(self._letters):
            self._counters.send(letter.told, letter)

    def confirmed(self, letter: _Letter) -> None:
        self._letters.pop(letter, None)

    def refused(self, letter: _Letter, why: Says) -> None:
        letter.said += 1
        if str(why).startswith("NOSCRIPT") and letter.said < _MOST_TRIES:
            if self._loading is None or self._loading.done():
                self._loading = asyncio.create_task(self._load())
        else:
            log.error("Redis refuses what limits tell it", extra={"said": str(why)})
            self._letters.pop(letter, None)

    async def _load(self) -> None:
        with contextlib.suppress(Away, Says):
            await self._counters.load()
            self.send_again()
