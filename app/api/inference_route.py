"""The Door: round each inference route. Who asks is found here, and whatever ends the request ends here, once.

Six endings: answered; the caller leaves before the answer; the caller leaves within it; the caller reads slowly, or not at all; the
engine fails; the process is told to stop. A generator's `finally` or a response's background task miss some of them.
"""

import asyncio
import functools
import logging
import traceback
from collections import Counter

from app.api.authentication import authenticate
from app.api.http_call import Header, HttpCall
from app.api.response_sink import HttpResponseSink
from app.gateway.context import RequestContext
from app.gateway.serve import Gateway, serve
from providers.canonical.errors import BodyTooLarge, InvalidRequest, MethodNotAllowed, NarthexError, Unavailable
from providers.dialect import Dialect

log = logging.getLogger(__name__)


class InferenceRoute:
    """One route, in one dialect."""

    def __init__(self, gateway: Gateway, dialect: Dialect) -> None:
        self._gateway = gateway
        self._dialect = dialect

    async def __call__(self, call: HttpCall) -> None:
        """Runs as a task of its own, which the call cancels when the caller leaves."""
        gateway = self._gateway
        context = RequestContext(self._dialect.name, call)
        sink = HttpResponseSink(call, context)
        gateway.telemetry.in_flight += 1
        try:
            try:
                if call.method != "POST":
                    raise MethodNotAllowed(f"{call.method} is not for {call.path}: POST is.", "POST")
                if gateway.draining:
                    raise Unavailable("This gateway is being shut down: try again.", retry_after_s=1)
                headers = _read_headers(call.headers)
                reauthenticate = functools.partial(authenticate, gateway.snapshot_cache, headers, call.path, call.peer, call.headers)
                context.caller = await reauthenticate()
                _check_body(headers, gateway.settings.max_body_bytes)
                raw = await call.read(gateway.settings.max_body_bytes)
                await serve(gateway, self._dialect, raw, headers, context, sink, reauthenticate)
            except NarthexError as error:
                await self._send_error(error, context, sink)
            except Exception:
                # What broke us may be what a host said, and hosts repeat keys.
                traceback_text = gateway.attempts.masked(traceback.format_exc(), context)
                log.error("a request failed in us", extra={"inference": context.id, "traceback": traceback_text})
                await self._send_error(NarthexError("Something went wrong in the gateway; its log has more."), context, sink)
        except asyncio.CancelledError:  # at any moment, also while an error is being told
            if not call.disconnected:
                raise
        finally:
            gateway.telemetry.in_flight -= 1
            try:
                gateway.finish_exchange(context, "hung_up" if context.disconnected else "cut")
            finally:
                if context.claim is not None:
                    context.claim.start_completion()
                await context.release()

    async def _send_error(self, error: NarthexError, context: RequestContext, sink: HttpResponseSink) -> None:
        """Tells the caller; in a stream that has begun, by its last frame."""
        gateway = self._gateway
        if sink.has_begun:
            frame = self._dialect.write_error_frame(error)
            context.set_failure(200, type(error).__name__, error.message)
        else:
            frame = self._dialect.write_error(error)
            context.set_failure(error.status, type(error).__name__, error.message)
        if context.spool_record is None:
            gateway.telemetry.count_refusal(error.status)
        elif not context.spool_record.closed:
            context.spool_record.append_response(frame)
            gateway.finish_exchange(context, "failed")
            await gateway.spool.wait_until_durable()
        await context.release()
        if context.claim is not None:
            await context.claim.complete()
        if sink.has_begun:
            await sink.end_stream(frame)
        else:
            await sink.send_error(error, frame)


def _read_headers(raw_headers: list[Header]) -> dict[bytes, bytes]:
    """Raises Malformed for a header of ours that is there twice: whoever is in front of us may have looked at the other one."""
    headers = dict(raw_headers)
    if len(headers) != len(raw_headers):
        for name, count in Counter(name for name, _ in raw_headers).items():
            if count > 1 and (name in (b"authorization", b"x-api-key", b"idempotency-key") or name.startswith(b"x-narthex-")):
                raise InvalidRequest(f"The header {name.decode('latin-1')} is there {count} times: send it once.")
    return headers


def _check_body(headers: dict[bytes, bytes], limit_bytes: int) -> None:
    """Raises TooLarge, or Malformed for a body that is not sent as it is, before any of it need be read."""
    coding = headers.get(b"content-encoding", b"identity").lower()
    if coding != b"identity":
        raise InvalidRequest(f"The body is said to be encoded ({coding.decode('latin-1'):.40}): it is read as it is, so send it plain.")
    content_length = headers.get(b"content-length", b"")
    if content_length.isdigit() and int(content_length) > limit_bytes:
        raise BodyTooLarge(f"The body has {int(content_length)} bytes; this gateway takes at most {limit_bytes}.")
