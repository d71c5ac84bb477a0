"""Changes in Postgres: notifications, and a version query beside them, as notifications may be lost."""

from collections.abc import Callable, Sequence
from typing import Any

import asyncpg

from app.store import callers
from app.store.callers import ChangedKeys, Versions
from app.store.pg_connection import PgConnection

_RETRY_AFTER_S = 0.6  # so that a change is seen within two seconds even if the connection is dead
_TIMEOUT_S = 5.0


class ChangeWatch:
    """Calls `on_change` with the channel of each notification, and with "" when the connection breaks."""

    def __init__(self, database_url: str, channels: Sequence[str], on_change: Callable[[str], None]) -> None:
        self._channels = channels
        self._on_change = on_change
        self._connection = PgConnection(database_url, retry_after_s=_RETRY_AFTER_S, timeout_s=_TIMEOUT_S, on_connect=self._listen)

    @property
    def connections_opened(self) -> int:
        """How many connections were opened so far."""
        return self._connection.times_opened

    async def read_versions(self) -> Versions:
        """See callers.read_versions. Raises one of DB_UNAVAILABLE_ERRORS."""
        return await self._connection.run(callers.read_versions)

    async def read_changes(self, since: int) -> ChangedKeys | None:
        """See callers.read_changes. Raises one of DB_UNAVAILABLE_ERRORS."""
        return await self._connection.run(lambda connection: callers.read_changes(connection, since))

    def close(self) -> None:
        self._connection.close()

    async def _listen(self, connection: "asyncpg.Connection[Any]") -> None:
        for channel in self._channels:
            await connection.add_listener(channel, self._on_notification)
        connection.add_termination_listener(lambda _: self._on_change(""))

    def _on_notification(self, _connection: object, _pid: int, channel: str, _payload: object) -> None:
        self._on_change(channel)
