"""An exchange while it is under way: what is known of it so far, what it holds, and its one ending."""

import time
from collections.abc import Mapping
from typing import Protocol

from msgspec.structs import replace

from app import uuid7
from app.domain import Attempt, Caller, Exchange, Outcome, Plan
from app.gateway.bill import charged, cost_of
from app.gateway.claims import Claim
from app.gateway.limits.ticket import Ticket
from app.store.answers import Answer
from providers.chat import Usage
from providers.dialect import Ask, Editor
from providers.errors import NotObeyed
from providers.estimate import text_tokens

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
        self.claim: Claim | None = None
        self.attempts: list[Attempt] = []
        self.dropped: list[str] = []
        self.guided: str | None = None
        self._wasted: list[tuple[Attempt, Usage]] = []
        self.served: Attempt | None = None
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.ticket: Ticket | None = None
        self.editor: Editor | None = None
        self.written_tokens = 0
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

    def wasted(self, answer: NotObeyed, estimated_input: int) -> None:
        """An answer that nobody gets, and that was made: it is charged for, as one that broke off."""
        used = charged(Usage(answer.input_tokens, answer.output_tokens), estimated_input, text_tokens(len(answer.said)))
        self._wasted.append((self.attempts[-1], used))
        self.usage = None

    def replays(self, answer: Answer) -> None:
        """Stands for the inference whose answer is told again, and is no exchange of its own."""
        self.id, self.episode_id = answer.inference_id, answer.episode_id
        self.dropped, self.guided = list(answer.dropped), answer.guided
        if answer.served_provider is not None and answer.served_model is not None:
            self.served = Attempt(answer.served_provider, answer.served_model, "", 0, 0)

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
        used = self._used()
        cost = self._cost(served, used) if served else 0
        # What nobody got has its price too: that of whoever made it.
        for maker, wasted in self._wasted:
            used = replace(used, input=(used.input or 0) + (wasted.input or 0), output=(used.output or 0) + (wasted.output or 0))
            its = self._cost(maker, wasted)
            cost = None if cost is None or its is None else cost + its
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
            charged_input=used.input or 0,
            charged_output=used.output or 0,
            cost_microusd=cost,
            guided=self.guided,
        )

    def _cost(self, maker: Attempt, used: Usage) -> int | None:
        assert self.plan is not None
        return cost_of(self.plan, maker.provider, maker.model, used, self.received_us / 1e6)

    def _used(self) -> Usage:
        """What is charged: nothing for what no engine did. One that was stopped, or broke off, has read the ask."""
        if self.served is None:
            return Usage(0, 0)
        usage, written = self.usage, self.written_tokens
        if self.editor is not None:
            usage, written = self.editor.usage, self.editor.written_tokens
            if usage is not None and self.editor.finish_reason is None and (usage.output or 0) < written:
                # What is counted before the end is not all (Anthropic begins with 1); it is all that a hang-up leaves.
                usage = replace(usage, output=None)
        return charged(usage, self.ask.input_tokens if self.ask else 0, written)

    def _told_attempts(self) -> tuple[Attempt, ...]:
        """None for the usual one that served. An engine may repeat the ask in its error, so messages are content."""
        if len(self.attempts) == 1 and self.outcome == "answered":
            return ()
        if self.caller is not None and self.caller.content == "full":
            return tuple(self.attempts)
        return tuple(replace(attempt, message=None) for attempt in self.attempts)

    async def let_go(self) -> None:
        """Lets go of the engine: a request that still runs there is stopped."""
        held, self.held = self.held, None
        if held is not None:
            await held.release()
