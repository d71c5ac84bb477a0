"""Inference routes: authenticates the caller, and finishes the request exactly once, however it ends.

Six endings: answered; the caller disconnects before the response, or within it, or reads slowly or not at all; the engine fails; the
process is told to stop. A generator's `finally` or a response's background task would miss some of them.
"""

import asyncio
import functools
import logging
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from app.api.callers.authentication import authenticate, check_permissions, identify, public_key_part
from app.api.callers.response_sink import HttpResponseSink
from app.api.server.access_log import AccessLog
from app.api.server.body_coding import decode_body, read_coding
from app.api.server.http_call import Header, HttpCall, body_too_large
from app.api.server.request_id import HEADER as REQUEST_ID_HEADER
from app.api.server.request_id import own_request_id
from app.domain.callers import Caller
from app.gateway.memory.body_memory import UNCOUNTED_BYTES
from app.gateway.pipeline.gateway import Gateway
from app.gateway.pipeline.serve import serve
from app.gateway.request.agents import soften_refusal
from app.gateway.state.context import RequestContext
from app.gateway.state.stages import Authenticated, admitted_of, claim_of
from app.otel.trace_context import Tracing
from app.process.logs import RequestIds, current_request
from providers.canonical.errors import (
    CallerCredentialRequired,
    InvalidRequest,
    MethodNotAllowed,
    NarthexError,
    RequestError,
    Unavailable,
    UpgradeRefused,
)
from providers.canonical.parse_body import undecodable
from providers.canonical.raw_json import DECODE_ERRORS
from providers.dialect import CallerDialect

log = logging.getLogger(__name__)


class Admission(NamedTuple):
    """The caller of a request, what it says in headers to the pipeline, and how to find out whether the caller may still use the route."""

    caller: Caller
    headers: dict[bytes, bytes]
    reauthenticate: Callable[[], Awaitable[Caller]]


class CallAccess(Protocol):
    """Finds the caller of a request to a route that keys alone do not open."""

    async def __call__(self, context: RequestContext, call: HttpCall, headers: dict[bytes, bytes]) -> Admission:
        """Notes the caller in the context. Raises NarthexError."""
        ...


class AddressedCall(Protocol):
    """The facts that the address of a call adds to its route, where it names a model: the body has them before it is parsed."""

    def take_credential(self, call: HttpCall, headers: dict[bytes, bytes]) -> None:
        """Adds the key that the address holds to the headers. Raises InvalidRequest."""
        ...

    async def write_body(self, raw: bytes, caller: Caller) -> bytes:
        """The body in the route's dialect, with what the address says. Raises NarthexError."""
        ...

    def make_sink(self, call: HttpCall, context: RequestContext) -> HttpResponseSink: ...


class RouteForm(Protocol):
    """A form of a route: its requests and responses are those of the route, in another shape."""

    # The dialect in whose shape errors are. None: the route's.
    dialect: CallerDialect | None

    async def read(self, raw: bytes, context: RequestContext, caller: Caller) -> bytes:
        """The body as the route has it. Raises NarthexError, DECODE_ERRORS."""
        ...

    async def write(self, context: RequestContext, raw: bytes, response: bytes) -> bytes:
        """The response, which was not streamed, in the shape of this form. `raw` is what read() gave."""
        ...


class InferenceRoute:
    """One route, in one dialect, or a form of it.

    Where `access_log` is None, there is none. What `access` finds may use the route; None means whoever has a key for it.
    """

    def __init__(
        self,
        gateway: Gateway,
        dialect: CallerDialect,
        access_log: AccessLog | None = None,
        access: CallAccess | None = None,
        form: RouteForm | None = None,
    ) -> None:
        self._gateway = gateway
        self._dialect = dialect
        self._access_log = access_log
        self._access = access
        self._form = form
        self._errors_dialect = dialect if form is None or form.dialect is None else form.dialect
        settings = gateway.settings
        self._tracing = Tracing(exports=bool(settings.otlp_endpoint), share=settings.trace_share)

    async def __call__(self, call: HttpCall, addressed: AddressedCall | None = None) -> None:
        """Runs as a task of its own, which the call cancels when the caller disconnects."""
        gateway = self._gateway
        context = RequestContext(self._dialect.name, call)
        sink = HttpResponseSink(call, context) if addressed is None else addressed.make_sink(call, context)
        gateway.telemetry.in_flight += 1
        entered: Caller | None = None
        ids: RequestIds | None = None
        try:
            try:
                headers = _read_headers(call.headers)
                if addressed is not None:
                    addressed.take_credential(call, headers)
                ids = self._note_ids(context, call, headers)
                if call.method != "POST":
                    if call.method == "GET" and headers.get(b"upgrade", b"").lower() == b"websocket":
                        raise UpgradeRefused(call.path)
                    raise MethodNotAllowed(call.method, call.path, "POST")
                if gateway.draining:
                    raise Unavailable("This gateway is being shut down: try again.", retry_after_s=1)
                encoding = headers.get(b"content-encoding")
                if self._access is None:
                    reauthenticate = functools.partial(authenticate, gateway.snapshot_cache, headers, call.path, call.peer, call.headers)
                    caller = context.key_holder = await identify(gateway.snapshot_cache, headers)
                    check_permissions(gateway.snapshot_cache, caller, call.path, call.peer, call.headers)
                else:
                    caller, headers, reauthenticate = await self._access(context, call, headers)
                gateway.load_shedder.enter(caller)
                entered = caller
                context.stage = Authenticated(caller)
                coding = read_coding(encoding) if encoding else None
                declared_bytes = _check_body(headers, gateway.settings.max_body_bytes)
                if call.is_body_large and not 0 < declared_bytes <= UNCOUNTED_BYTES:
                    raw = await self._read_counted(call, context, caller, declared_bytes)
                else:
                    raw = await call.read(gateway.settings.max_body_bytes)
                if coding is not None:
                    raw = await self._decode(raw, coding, context, caller)
                if addressed is not None:
                    raw = await addressed.write_body(raw, caller)
                if self._form is not None:
                    raw = await self._form.read(raw, context, caller)
                    sink.rewrite = functools.partial(self._form.write, context, raw)
                await serve(gateway, self._dialect, raw, headers, context, sink, reauthenticate)
            except NarthexError as error:
                await self._send_error(error.without_frames(), call, context, sink)
            except DECODE_ERRORS as fault:
                # Of the body, as errors of responses say so themselves. What parses it looks through most of it, without decoding it, and
                # has fewer calls on the stack than what reads a part of it.
                await self._send_error(undecodable(fault), call, context, sink)
            except Exception:
                # The traceback may hold what a host sent, and hosts repeat keys.
                traceback_text = context.mask(traceback.format_exc())
                log.error("unhandled error in an inference request", extra={"inference": context.id, "traceback": traceback_text})
                await self._send_error(NarthexError("Something went wrong in the gateway; its log has more."), call, context, sink)
        except asyncio.CancelledError:  # at any moment, also while an error is sent
            if not call.disconnected:
                raise
        finally:
            gateway.telemetry.in_flight -= 1
            if entered is not None:
                gateway.load_shedder.leave(entered)
            try:
                if not context.is_finished:
                    gateway.finish_exchange(context, "disconnected" if context.disconnected else "aborted")
            finally:
                if (claim := claim_of(context.stage)) is not None:
                    claim.start_completion()
                try:
                    if not context.is_released:
                        await context.release()
                finally:
                    if context.body_claim is not None:
                        context.body_claim.release()
                    if context.at_end is not None:
                        context.at_end()
                    if ids is not None:
                        ids.is_over = True
                    if self._access_log is not None:
                        self._access_log.add_inference(context, call.method, call.path)

    async def _read_counted(self, call: HttpCall, context: RequestContext, caller: Caller, declared_bytes: int) -> bytes:
        """The body, which counts from now on. Raises BodyTooLarge, BodyMemoryExceeded, RequestTimedOut or Unavailable."""
        claim = context.body_claim = self._gateway.body_memory.claim(caller)
        claim.declare(declared_bytes)
        raw = await call.read(self._gateway.settings.max_body_bytes, claim.grow_to)
        if len(raw) > UNCOUNTED_BYTES:
            claim.grow_to(len(raw))
        else:  # it did not say that it would be as small
            claim.release()
            context.body_claim = None
        return raw

    async def _decode(self, raw: bytes, coding: str, context: RequestContext, caller: Caller) -> bytes:
        """Raises BodyTooLarge, BodyMemoryExceeded, Unavailable or InvalidRequest."""
        gateway = self._gateway
        claim = context.claim_body(gateway.body_memory, caller)
        wait_for_turn = gateway.large_requests.of_team(caller.team_id).wait_for_loop_turn
        return await decode_body(raw, coding, gateway.settings.max_body_bytes, claim.grow_to, wait_for_turn)

    def _note_ids(self, context: RequestContext, call: HttpCall, headers: dict[bytes, bytes]) -> RequestIds:
        """Takes over the caller's trace and its id of the request. Log lines of this task, and of those that it starts, carry them."""
        if self._tracing.begins_traces or b"traceparent" in headers:
            context.trace = self._tracing.trace_of(context.id, headers, call.headers)
        if REQUEST_ID_HEADER in headers:
            context.own_request_id = own_request_id(headers[REQUEST_ID_HEADER])
        ids = RequestIds(context.id, context.own_request_id or context.id, None if context.trace is None else context.trace.trace_id)
        current_request.set(ids)
        return ids

    async def _send_error(self, error: NarthexError, call: HttpCall, context: RequestContext, sink: HttpResponseSink) -> None:
        """Sends an error as a response of its own, or as the last frame of a stream that has begun."""
        gateway, planned = self._gateway, context.planned
        soften_refusal(call.headers, error)
        if error.param == "model" and (admitted := admitted_of(context.stage)) is not None:
            error.param = admitted.request.model_field
        if sink.has_begun:
            editor = context.progress.editor
            frame = sink.write_failure(error) if editor is None else editor.write_failure(error)
            frame = frame or self._errors_dialect.write_error_frame(error)
            context.set_failure(200, error, error.message)
        else:
            frame = self._errors_dialect.write_error(error)
            context.set_failure(error.status, error, error.message)
        if (planned is None or isinstance(error, RequestError)) and (sink.holds_caller or not sink.has_begun):
            is_unknown = context.key_holder is None and isinstance(error, CallerCredentialRequired)
            unknown_key = public_key_part(call.headers) if is_unknown else None
            gateway.refusals.add(context, error, gateway.snapshot_cache.snapshot, unknown_key)
        if planned is None:
            gateway.telemetry.count_refusal(error.status)
        elif not planned.spool_record.closed:
            planned.spool_record.append_response(frame)
            gateway.finish_exchange(context, "failed")
            await gateway.spool.wait_until_durable()
        await context.release()
        if (claim := claim_of(context.stage)) is not None:
            await claim.complete()
        if sink.has_begun:
            await sink.end_stream(frame)
        else:
            await sink.send_error(error, frame)


def _read_headers(raw_headers: list[Header]) -> dict[bytes, bytes]:
    """Raises InvalidRequest for a duplicated gateway header: a proxy in front of the gateway may have checked the other one."""
    headers = dict(raw_headers)
    if len(headers) != len(raw_headers):
        for name, count in Counter(name for name, _ in raw_headers).items():
            if count > 1 and (
                name in (b"authorization", b"x-api-key", b"x-goog-api-key", b"idempotency-key") or name.startswith(b"x-narthex-")
            ):
                raise InvalidRequest(f"The header {name.decode('latin-1')} was sent {count} times; send it once.")
    return headers


def _check_body(headers: dict[bytes, bytes], limit_bytes: int) -> int:
    """The size that the head declares; 0: none. Raises BodyTooLarge before any of it is read."""
    content_length = headers.get(b"content-length", b"")
    declared_bytes = int(content_length) if content_length.isdigit() else 0
    if declared_bytes > limit_bytes:
        raise body_too_large(limit_bytes, declared_bytes)
    return declared_bytes
