"""What is told of changes, and the question every second how far they have come: what is told may go astray."""

from collections.abc import Callable, Sequence
from typing import Any

import asyncpg

from app.store import callers
from app.store.callers import Changes, Versions
from app.store.line import Line

_DOUBT_S = 0.6  # so that a change is seen within two seconds, though the line on which it was told is dead
_PATIENCE_S = 5.0


class Watch:
    """`heard` is called with a channel's name when somebody says something there, and with "" when the line breaks."""

    def __init__(self, database_url: str, channels: Sequence[str], heard: Callable[[str], None]) -> None:
        self._channels = channels
        self._heard = heard
        self._line = Line(database_url, doubt_s=_DOUBT_S, patience_s=_PATIENCE_S, greet=self._listen)

    @property
    def lines(self) -> int:
        """How many there have been."""
        return self._line.opened

    async def ask(self) -> Versions:
        """Raises one of AWAY."""
        return await self._line.ask(callers.read_versions)

    async def changes(self, since: int) -> Changes | None:
        """See callers.read_changes. Raises one of AWAY."""
        return await self._line.ask(lambda line: callers.read_changes(line, since))

    def close(self) -> None:
        self._line.close()

    async def _listen(self, line: "asyncpg.Connection[Any]") -> None:
        for channel in self._channels:
            await line.add_listener(channel, self._on_notification)
        line.add_termination_listener(lambda _: self._heard(""))

    def _on_notification(self, _connection: object, _pid: int, channel: str, _payload: object) -> None:
        self._heard(channel)
