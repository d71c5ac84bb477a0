"""RequestContext: one request from its first byte to its end, whichever way it ends."""

import time
from collections.abc import Callable
from typing import Protocol

from app.domain import uuid7
from app.domain.callers import Caller
from app.domain.exchange import Exchange, Origin, Outcome
from app.gateway.memory.body_memory import BodyClaim, BodyMemory
from app.gateway.state.exchange import build_exchange
from app.gateway.state.stages import Attempted, Planned, Received, Stage
from app.gateway.upstream.progress import ResponseProgress
from app.otel.trace_context import TraceContext


class CallerConnection(Protocol):
    """The connection of a caller. `disconnected` says that the caller closed it before the end of the response."""

    @property
    def disconnected(self) -> bool: ...


class Allowance(Protocol):
    """An amount that requests of the gateway's own share."""

    async def reserve(self, inference_id: str, cost_microusd: int | None) -> None:
        """Called before an engine is. It costs at most `cost_microusd`; None: a price is missing. Raises what ends the request."""
        ...


class RequestContext:
    """The facts of a request that do not depend on its stage, and its two endings.

    These are write_record() and release(), each called once.

    `id` is the inference's. `status` is the HTTP status of the response, 499 until there is one. `error` is
    the class of the error that ended the request, with its `message`; None means no error. `body_claim` is
    the memory that its bodies take; None means too little to be counted. `trace` is None if the request
    belongs to none. `own_request_id` is the caller's own id of the request; None if it gave none.
    `cost_microusd` is that of the exchange, once it is recorded; None means unknown. `key_holder` is the
    caller of the key that the request carries, even if the key may not be used for it; None means no known
    key. `origin` says why the gateway makes the request itself; None if a caller made it. `at_end` is called
    once the request has ended. `prepared` is the record as write_record() will write it if the response is
    sent; None means that it is built then. `allowance` is what the request may cost besides all limits; None
    means that they alone decide. `recorded` is the exchange, once it is recorded. `is_finished` says that
    it was counted and settled, too, and `is_released` that nothing of the request runs at an engine any more.
    """

    def __init__(self, route: str, caller_connection: CallerConnection) -> None:
        self.route = route
        self._caller_connection = caller_connection
        self.received_us = time.time_ns() // 1000
        self.progress = ResponseProgress(time.perf_counter_ns())
        self.id = uuid7.mint(self.received_us)
        self.stage: Stage = Received()
        self.status = 499
        self.error: str | None = None
        self.message: str | None = None
        self.body_claim: BodyClaim | None = None
        self.trace: TraceContext | None = None
        self.own_request_id: str | None = None
        self.cost_microusd: int | None = None
        self.key_holder: Caller | None = None
        self.origin: Origin | None = None
        self.allowance: Allowance | None = None
        self.recorded: Exchange | None = None
        self.is_finished = self.is_released = False
        self.at_end: Callable[[], None] | None = None
        self.prepared: Exchange | None = None

    @property
    def request_id(self) -> str:
        """The id by which the caller knows the request: its own, else the inference's."""
        return self.id if self.own_request_id is None else self.own_request_id

    @property
    def disconnected(self) -> bool:
        return self._caller_connection.disconnected

    @property
    def planned(self) -> Planned | None:
        """The plan, the reservation and the record; None: the request has no plan yet, so there is nothing to settle or record."""
        stage = self.stage
        return stage.planned if isinstance(stage, Attempted) else stage if isinstance(stage, Planned) else None

    def claim_body(self, body_memory: BodyMemory, caller: Caller) -> BodyClaim:
        """The claim to memory that the request has, or a new one."""
        if self.body_claim is None:
            self.body_claim = body_memory.claim(caller)
        return self.body_claim

    def set_failure(self, status: int, error: Exception, message: str) -> None:
        self.status, self.error, self.message = status, type(error).__name__, message

    def write_record(self, planned: Planned, outcome: Outcome) -> Exchange | None:
        """The exchange, as it is written to the spool. None: it was written before."""
        if planned.spool_record.closed:
            return None
        exchange = self.prepared
        if exchange is None or outcome != "answered" or self.error is not None:
            attempted = self.stage if isinstance(self.stage, Attempted) else None
            exchange = build_exchange(planned, attempted, self, self.progress.elapsed_us(), outcome)
        self.cost_microusd, self.recorded = exchange.cost_microusd, exchange
        planned.spool_record.close(exchange)
        return exchange

    def prepare_record(self, attempted: Attempted) -> Exchange:
        """The exchange as write_record() will write it if the response is sent, for what the caller learns of it before."""
        self.prepared = build_exchange(attempted.planned, attempted, self, self.progress.elapsed_us(), "answered")
        return self.prepared

    def mask(self, text: str) -> str:
        """The text without the secret that the newest attempt was sent with."""
        match self.stage:
            case Attempted(call=call) if call is not None:
                return call.credential_client.secret_mask.mask(text)
            case _:
                return text

    async def release(self) -> None:
        """Ends what still runs at an engine."""
        stage = self.stage
        if isinstance(stage, Attempted) and stage.call is not None:
            await stage.call.release()
            self.is_released = True
