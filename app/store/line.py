"""A line to Postgres for short questions: where one is not answered in time the line is dead, and the question goes to another."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import asyncpg

from app.store.away import AWAY
from app.store.database import connect

T = TypeVar("T")
Connection = asyncpg.Connection


async def _without_a_word(_: "Connection[Any]") -> None:
    pass


class Line:
    """One connection, opened at the first question and kept. Questions wait for each other.

    A line may be dead without a word: nothing that is sent arrives, and nobody tells. A pool's connection would then hold its question,
    its rollback and its farewell without a bound. Here `doubt_s` after a question the line is let go of without a farewell, and a new
    one is opened; that, with the answer, may take `patience_s`. `greet` is called with each new one.
    """

    def __init__(
        self,
        database_url: str,
        *,
        doubt_s: float,
        patience_s: float,
        greet: Callable[["Connection[Any]"], Awaitable[None]] = _without_a_word,
    ) -> None:
        self._database_url = database_url
        self._doubt_s = doubt_s
        self._patience_s = patience_s
        self._greet = greet
        self._connection: Connection[Any] | None = None
        self._turn = asyncio.Lock()
        self.opened = 0  # how often

    async def ask(self, question: Callable[["Connection[Any]"], Awaitable[T]]) -> T:
        """Raises one of AWAY. `question` may be asked twice."""
        async with self._turn:
            if self._connection is not None and not self._connection.is_closed():
                with contextlib.suppress(*AWAY):
                    return await _answer(self._connection, question, self._doubt_s)
            async with asyncio.timeout(self._patience_s):
                line = await connect(self._database_url)
                self._connection = line
                await _answer(line, self._greet, self._patience_s)
                self.opened += 1
                return await _answer(line, question, self._patience_s)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.terminate()


async def _answer(line: "Connection[Any]", question: Callable[["Connection[Any]"], Awaitable[T]], longest_s: float) -> T:
    try:
        async with asyncio.timeout(longest_s):
            return await question(line)
    except BaseException:
        line.terminate()
        raise
