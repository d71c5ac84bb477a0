"""Replies of Redis or Valkey: who waits for one, and what comes in its place."""

from typing import Any, Protocol


class RedisUnavailable(Exception):
    """The server is unreachable or has not replied. Whether it ran the command is unknown, unless `unsent`."""

    def __init__(self, reason: str, *, unsent: bool = False) -> None:
        super().__init__(reason)
        self.unsent = unsent


class RedisReplyError(Exception):
    """The server replied with an error."""


class ReplyWaiter(Protocol):
    """Receives a reply; a Future is one."""

    def done(self) -> bool: ...

    def set_result(self, result: Any, /) -> None: ...

    def set_exception(self, exception: Exception, /) -> None: ...
