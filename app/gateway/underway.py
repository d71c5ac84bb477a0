"""An exchange while it is under way: what is known of it so far, what it holds, and its one ending."""

import time
from collections.abc import Mapping
from typing import Protocol

import msgspec

from app import uuid7
from app.domain import Attempt, Caller, Exchange, Outcome, Plan
from providers.chat import Usage
from providers.dialect import Ask

# A row is looked up and listed by its user; what was sent in full is in the ask.
_LONGEST_USER = 512


class Entry(Protocol):
    """The record of one exchange while it grows; app.record.spool.Entry is one."""

    closed: bool

    def reply(self, data: bytes) -> None: ...

    def close(self, exchange: Exchange) -> None: ...


class Held(Protocol):
    """What an exchange holds at an engine, to be let go of when it ends."""

    async def release(self) -> None: ...


class Line(Protocol):
    """The way to the caller. `left`: the caller hung up."""

    @property
    def left(self) -> bool: ...


class Underway:
    """One request from door to door. keep() writes its record; let_go() ends what still runs at an engine; each once, however it ended."""

    def __init__(self, route: str, line: Line) -> None:
        self.route = route
        self._line = line
        self.received_us = time.time_ns() // 1000
        self._began = time.perf_counter_ns()
        self.id = uuid7.mint(self.received_us)
        self.episode_id: str | None = None
        self.caller: Caller | None = None
        self.ask: Ask | None = None
        self.plan: Plan | None = None
        self.tags: Mapping[str, str] = {}
        self.entry: Entry | None = None
        self.held: Held | None = None
        self.attempts: list[Attempt] = []
        self.dropped: list[str] = []
        self.served: Attempt | None = None
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.first_token_us: int | None = None
        self.status: int | None = None
        self.error: str | None = None
        self.message: str | None = None
        self.outcome: Outcome | None = None

    @property
    def hung_up(self) -> bool:
        return self._line.left

    def now_us(self) -> int:
        """Microseconds since the request came."""
        return (time.perf_counter_ns() - self._began) // 1000

    def failed(self, status: int, error: str, message: str) -> None:
        self.outcome, self.status, self.error, self.message = "failed", status, error, message

    def keep(self, outcome: Outcome) -> Exchange | None:
        """Writes the record, if there is a plan to record and it was not written yet."""
        entry = self.entry
        if entry is None or entry.closed:
            return None
        self.outcome = self.outcome or outcome
        exchange = self.exchange()
        entry.close(exchange)
        return exchange

    def exchange(self) -> Exchange:
        assert self.ask is not None and self.caller is not None and self.plan is not None and self.episode_id is not None
        served = self.served
        return Exchange(
            id=self.id,
            episode_id=self.episode_id,
            route=self.route,
            model=self.ask.model,
            key_id=self.caller.key_id,
            team_id=self.caller.team_id,
            snapshot=self.plan.directory.hash,
            received_us=self.received_us,
            duration_us=self.now_us(),
            streamed=self.ask.stream,
            status=self.status if self.status is not None else 499,
            outcome=self.outcome or "cut",
            content=self.caller.content,
            first_token_us=self.first_token_us,
            finish_reason=self.finish_reason,
            usage=self.usage or Usage(),
            served_provider=served.provider if served else None,
            served_model=served.model if served else None,
            endpoint=served.endpoint if served else None,
            error=self.error,
            message=self.message if self.caller.content == "full" else None,
            attempts=self._told_attempts(),
            dropped=tuple(self.dropped),
            tags=self.tags,
            end_user=self.ask.end_user and self.ask.end_user[:_LONGEST_USER],
        )

    def _told_attempts(self) -> tuple[Attempt, ...]:
        """None for the usual one that served. An engine may repeat the ask in its error, so messages are content."""
        if len(self.attempts) == 1 and self.outcome == "answered":
            return ()
        if self.caller is not None and self.caller.content == "full":
            return tuple(self.attempts)
        return tuple(msgspec.structs.replace(attempt, message=None) for attempt in self.attempts)

    async def let_go(self) -> None:
        """Lets go of the engine: a request that still runs there is stopped."""
        held, self.held = self.held, None
        if held is not None:
            await held.release()
