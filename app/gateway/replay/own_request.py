"""A request that the gateway makes itself: through the whole pipeline, in the name of a key, with nobody who waits for the response."""

import asyncio
import logging
import traceback
from collections.abc import Mapping

from msgspec import Struct

from app.domain.callers import Caller
from app.domain.exchange import Exchange, Origin
from app.gateway.pipeline.gateway import Gateway
from app.gateway.pipeline.serve import serve
from app.gateway.routing.permissions import may_use_route
from app.gateway.state.context import Allowance, RequestContext
from app.gateway.state.stages import Authenticated, ExchangeRecord
from app.store.redis.idempotent_responses import StoredResponse
from providers.canonical.errors import NarthexError, NotAllowed, Unavailable
from providers.dialect import CallerDialect, ResponseMeta, StreamEditor
from providers.transport.response_stream import ResponseStream

log = logging.getLogger(__name__)

# Of a response: of a longer one is recorded what it is, and nothing is compared.
MAX_RESPONSE_BYTES = 4 * 1024 * 1024


class Withdrawn(Exception):
    """Raised by an allowance: the request is not made after all."""


class OwnResponse(Struct, frozen=True):
    """The response to a request that the gateway makes itself."""

    inference_id: str
    exchange: Exchange | None  # as it is recorded; None: no plan was made, and there is nothing to record
    body: bytes | None  # None: it is longer than is compared
    error: NarthexError | None  # what ended it; None: it was answered


async def make_request(
    gateway: Gateway,
    dialect: CallerDialect,
    path: str,
    raw: bytes,
    headers: Mapping[bytes, bytes],
    caller: Caller,
    origin: Origin,
    allowance: Allowance,
) -> OwnResponse:
    """Answers `raw`, a body in this dialect, as if it had come at this path with the caller's key. The bytes count as the caller's.

    A cancelled request is recorded as aborted. Raises Withdrawn.
    """
    context = RequestContext(dialect.name, _NO_CONNECTION)
    context.origin, context.allowance, context.key_holder = origin, allowance, caller
    sink = _Collected()
    error: NarthexError | None = None
    gateway.telemetry.in_flight += 1
    has_entered = False
    try:
        try:
            if gateway.draining:
                raise Unavailable("This gateway is being shut down.", retry_after_s=1)
            if not may_use_route(caller, path):
                raise NotAllowed(f"The key may not use the route {path}.")
            gateway.load_shedder.enter(caller)
            has_entered = True
            context.stage = Authenticated(caller)
            context.body_claim = gateway.body_memory.claim(caller)
            context.body_claim.grow_to(len(raw))

            async def same_caller() -> Caller:
                return caller

            await serve(gateway, dialect, raw, headers, context, sink, same_caller)
        except NarthexError as fault:
            error = fault.without_frames()
            await _record_error(gateway, dialect, context, error, has_begun=sink.has_begun)
        except Withdrawn:
            raise
        except Exception:
            # The traceback may hold what a host sent, and hosts repeat keys.
            traceback_text = context.mask(traceback.format_exc())
            log.error("unhandled error in a request of the gateway's own", extra={"inference": context.id, "traceback": traceback_text})
            error = NarthexError("Something went wrong in the gateway; its log has more.")
            await _record_error(gateway, dialect, context, error, has_begun=sink.has_begun)
    finally:
        gateway.telemetry.in_flight -= 1
        if has_entered:
            gateway.load_shedder.leave(caller)
        try:
            gateway.finish_exchange(context, "aborted")
        finally:
            try:
                await context.release()
            finally:
                if context.body_claim is not None:
                    context.body_claim.release()
    return OwnResponse(context.id, context.recorded, None if error is not None else sink.body, error)


async def _record_error(gateway: Gateway, dialect: CallerDialect, context: RequestContext, error: NarthexError, *, has_begun: bool) -> None:
    """Records the error as a caller would have got it: as a response, or as the last frame of a stream."""
    editor = context.progress.editor
    if has_begun:
        frame = (b"" if editor is None else editor.write_failure(error)) or dialect.write_error_frame(error)
    else:
        frame = dialect.write_error(error)
    context.set_failure(200 if has_begun else error.status, error, error.message)
    planned = context.planned
    if planned is not None and not planned.spool_record.closed:
        planned.spool_record.append_response(frame)
        gateway.finish_exchange(context, "failed")
        await gateway.spool.wait_until_durable()


class _NoConnection:
    disconnected = False


_NO_CONNECTION = _NoConnection()


class _Collected:
    """Implements app.gateway.pipeline.relay.ResponseSink. Its `body` is None once it is longer than MAX_RESPONSE_BYTES."""

    def __init__(self) -> None:
        self.has_begun = False
        self._blocks: list[bytes] = []
        self._size_bytes = 0

    @property
    def body(self) -> bytes | None:
        return None if self._size_bytes > MAX_RESPONSE_BYTES else b"".join(self._blocks)

    async def send_response(self, body: bytes) -> None:
        await self.send(body)

    async def begin_stream(self, first: bytes) -> None:
        await self.send(first)

    async def send(self, data: bytes) -> None:
        self.has_begun = True
        self._size_bytes += len(data)
        if self._size_bytes > MAX_RESPONSE_BYTES:
            self._blocks.clear()
        else:
            self._blocks.append(data)
        await asyncio.sleep(0)  # nobody's reading slows an engine down: others must have their turn

    async def end_stream(self, last: bytes) -> None:
        await self.send(last)

    def relay_at_once(self, blocks: ResponseStream, editor: StreamEditor, record: ExchangeRecord) -> None:
        """Leaves the blocks to the task, which lets others have their turn."""

    def check_silence(self, now_s: float, longest_s: float, dialect: CallerDialect, meta: ResponseMeta) -> None:
        raise AssertionError("nobody listens to the response to a request of the gateway's own")

    async def replay(self, stored_response: StoredResponse) -> None:
        raise AssertionError("a request of the gateway's own has no Idempotency-Key")
