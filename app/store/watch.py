"""One connection that listens for changes and is asked every second how far they have come: a line may be dead without a word."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import asyncpg

from app.store import callers
from app.store.away import AWAY
from app.store.callers import Changes, Versions
from app.store.database import connect

_ANSWER_S = 0.6  # so that a change is seen within two seconds, though the line on which it was told is dead
_CONNECT_S = 5.0


class Watch:
    """`heard` is called with a channel's name when somebody says something there, and with "" when the line breaks."""

    def __init__(self, database_url: str, channels: Sequence[str], heard: Callable[[str], None]) -> None:
        self._database_url = database_url
        self._channels = channels
        self._heard = heard
        self._line: asyncpg.Connection[Any] | None = None
        self.lines = 0  # how many there have been

    async def ask(self) -> Versions:
        """Raises one of AWAY. If the line does not answer, another is tried at once."""
        if self._line is not None and not self._line.is_closed():
            with contextlib.suppress(*AWAY):
                return await self._asked(self._line)
        return await self._asked(await self._opened())

    async def changes(self, since: int) -> Changes | None:
        """See callers.read_changes. Raises one of AWAY."""
        assert self._line is not None, "ask() comes first"
        async with asyncio.timeout(_CONNECT_S):
            return await callers.read_changes(self._line, since)

    def close(self) -> None:
        if self._line is not None:
            self._line.terminate()

    async def _asked(self, line: "asyncpg.Connection[Any]") -> Versions:
        try:
            async with asyncio.timeout(_ANSWER_S):
                return await callers.read_versions(line)
        except BaseException:
            line.terminate()
            raise

    async def _opened(self) -> "asyncpg.Connection[Any]":
        async with asyncio.timeout(_CONNECT_S):
            line = await connect(self._database_url)
            try:
                for channel in self._channels:
                    await line.add_listener(channel, self._on_notification)
            except BaseException:
                line.terminate()
                raise
        line.add_termination_listener(lambda _: self._heard(""))
        self._line = line
        self.lines += 1
        return line

    def _on_notification(self, _connection: object, _pid: int, channel: str, _payload: object) -> None:
        self._heard(channel)
