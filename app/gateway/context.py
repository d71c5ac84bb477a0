"""An exchange while it is under way: what is known of it so far, what it holds, and its one ending."""

import time
from collections.abc import Mapping
from typing import Protocol

from msgspec.structs import replace

from app import uuid7
from app.domain import Attempt, Caller, Exchange, Outcome, Plan
from app.gateway.billing import charged_usage, cost_of
from app.gateway.idempotency.claims import Claim
from app.gateway.limits.reservation import Reservation
from app.store.idempotent_responses import StoredResponse
from providers.canonical.chat import Usage
from providers.canonical.errors import ConstraintViolation
from providers.canonical.token_estimate import text_tokens
from providers.dialect import InboundRequest, StreamEditor

# A row is looked up and listed by its user; what was sent in full is in the ask.
_MAX_END_USER_CHARS = 512


class ExchangeRecord(Protocol):
    """The record of one exchange while it grows; app.recording.spool.Entry is one."""

    closed: bool

    def append_response(self, data: bytes) -> None: ...

    def close(self, exchange: Exchange) -> None: ...


class UpstreamHandle(Protocol):
    """What an exchange holds at an engine, to be let go of when it ends."""

    async def release(self) -> None: ...


class CallerConnection(Protocol):
    """The way to the caller. `left`: the caller hung up."""

    @property
    def disconnected(self) -> bool: ...


class RequestContext:
    """One request from door to door. keep() writes its record; let_go() ends what still runs at an engine; each once, however it ended."""

    def __init__(self, route: str, caller_connection: CallerConnection) -> None:
        self.route = route
        self._caller_connection = caller_connection
        self.received_us = time.time_ns() // 1000
        self._started_ns = time.perf_counter_ns()
        self.id = uuid7.mint(self.received_us)
        self.episode_id: str | None = None
        self.caller: Caller | None = None
        self.request: InboundRequest | None = None
        self.plan: Plan | None = None
        self.tags: Mapping[str, str] = {}
        self.spool_record: ExchangeRecord | None = None
        self.upstream_handle: UpstreamHandle | None = None
        self.claim: Claim | None = None
        self.attempts: list[Attempt] = []
        self.dropped: list[str] = []
        self.guided: str | None = None
        self._discarded: list[tuple[Attempt, Usage]] = []
        self.served: Attempt | None = None
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.reservation: Reservation | None = None
        self.editor: StreamEditor | None = None
        self.written_tokens = 0
        self.first_token_us: int | None = None
        self.status: int | None = None
        self.error: str | None = None
        self.message: str | None = None
        self.outcome: Outcome | None = None

    @property
    def disconnected(self) -> bool:
        return self._caller_connection.disconnected

    def now_us(self) -> int:
        """Microseconds since the request came."""
        return (time.perf_counter_ns() - self._started_ns) // 1000

    def set_failure(self, status: int, error: str, message: str) -> None:
        self.outcome, self.status, self.error, self.message = "failed", status, error, message

    def record_discarded_response(self, violation: ConstraintViolation, estimated_input: int) -> None:
        """An answer that nobody gets, and that was made: it is charged for, as one that broke off."""
        charged_tokens = charged_usage(
            Usage(violation.input_tokens, violation.output_tokens), estimated_input, text_tokens(len(violation.response_text))
        )
        self._discarded.append((self.attempts[-1], charged_tokens))
        self.usage = None

    def adopt_replayed(self, stored_response: StoredResponse) -> None:
        """Stands for the inference whose answer is told again, and is no exchange of its own."""
        self.id, self.episode_id = stored_response.inference_id, stored_response.episode_id
        self.dropped, self.guided = list(stored_response.dropped), stored_response.guided
        if stored_response.served_provider is not None and stored_response.served_model is not None:
            self.served = Attempt(stored_response.served_provider, stored_response.served_model, "", 0, 0)

    def write_record(self, outcome: Outcome) -> Exchange | None:
        """Writes the record, if there is a plan to record and it was not written yet."""
        spool_record = self.spool_record
        if spool_record is None or spool_record.closed:
            return None
        self.outcome = self.outcome or outcome
        exchange = self.build_exchange()
        spool_record.close(exchange)
        return exchange

    def build_exchange(self) -> Exchange:
        assert self.request is not None and self.caller is not None and self.plan is not None and self.episode_id is not None
        served = self.served
        charged_tokens = self._charged_usage()
        cost = self._cost(served, charged_tokens) if served else 0
        # What nobody got has its price too: that of whoever made it.
        for attempt, discarded in self._discarded:
            charged_tokens = replace(
                charged_tokens,
                input=(charged_tokens.input or 0) + (discarded.input or 0),
                output=(charged_tokens.output or 0) + (discarded.output or 0),
            )
            discarded_cost = self._cost(attempt, discarded)
            cost = None if cost is None or discarded_cost is None else cost + discarded_cost
        return Exchange(
            id=self.id,
            episode_id=self.episode_id,
            route=self.route,
            model=self.request.model,
            key_id=self.caller.key_id,
            team_id=self.caller.team_id,
            snapshot=self.plan.snapshot.hash,
            received_us=self.received_us,
            duration_us=self.now_us(),
            streamed=self.request.stream,
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
            attempts=self._recorded_attempts(),
            dropped=tuple(self.dropped),
            tags=self.tags,
            end_user=self.request.end_user and self.request.end_user[:_MAX_END_USER_CHARS],
            charged_input=charged_tokens.input or 0,
            charged_output=charged_tokens.output or 0,
            cost_microusd=cost,
            guided=self.guided,
        )

    def _cost(self, attempt: Attempt, used: Usage) -> int | None:
        assert self.plan is not None
        return cost_of(self.plan, attempt.provider, attempt.model, used, self.received_us / 1e6)

    def _charged_usage(self) -> Usage:
        """What is charged: nothing for what no engine did. One that was stopped, or broke off, has read the ask."""
        if self.served is None:
            return Usage(0, 0)
        usage, written_tokens = self.usage, self.written_tokens
        if self.editor is not None:
            usage, written_tokens = self.editor.usage, self.editor.written_tokens
            if usage is not None and self.editor.finish_reason is None and (usage.output or 0) < written_tokens:
                # What is counted before the end is not all (Anthropic begins with 1); it is all that a hang-up leaves.
                usage = replace(usage, output=None)
        return charged_usage(usage, self.request.input_tokens if self.request else 0, written_tokens)

    def _recorded_attempts(self) -> tuple[Attempt, ...]:
        """None for the usual one that served. An engine may repeat the ask in its error, so messages are content."""
        if len(self.attempts) == 1 and self.outcome == "answered":
            return ()
        if self.caller is not None and self.caller.content == "full":
            return tuple(self.attempts)
        return tuple(replace(attempt, message=None) for attempt in self.attempts)

    async def release(self) -> None:
        """Lets go of the engine: a request that still runs there is stopped."""
        handle, self.upstream_handle = self.upstream_handle, None
        if handle is not None:
            await handle.release()
