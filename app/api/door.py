"""The Door: round each inference route. Who asks is found here, and whatever ends the request ends here, once.

Six endings: answered; the caller leaves before the answer; the caller leaves within it; the caller reads slowly, or not at all; the
engine fails; the process is told to stop. A generator's `finally` or a response's background task miss some of them.
"""

import asyncio
import functools
import logging
import traceback
from collections import Counter

from app.api.auth import who_asks
from app.api.call import Call, Header
from app.api.replies import Outgoing
from app.gateway.serve import Gateway, serve
from app.gateway.underway import Underway
from providers.dialect import Dialect
from providers.errors import Malformed, NarthexError, TooLarge, Unavailable, WrongMethod

log = logging.getLogger(__name__)


class Door:
    """One route, in one dialect."""

    def __init__(self, gateway: Gateway, dialect: Dialect) -> None:
        self._gateway = gateway
        self._dialect = dialect

    async def __call__(self, call: Call) -> None:
        """Runs as a task of its own, which the call cancels when the caller leaves."""
        gateway = self._gateway
        underway = Underway(self._dialect.name, call)
        out = Outgoing(call, underway)
        gateway.telemetry.in_flight += 1
        try:
            try:
                if call.method != "POST":
                    raise WrongMethod(f"{call.method} is not for {call.path}: POST is.", "POST")
                if gateway.draining:
                    raise Unavailable("This gateway is being shut down: try again.", retry_after_s=1)
                headers = _headers(call.headers)
                admit = functools.partial(who_asks, gateway.live, headers, call.path, call.peer, call.headers)
                underway.caller = await admit()
                _check_body(headers, gateway.settings.max_body_bytes)
                raw = await call.read(gateway.settings.max_body_bytes)
                await serve(gateway, self._dialect, raw, headers, underway, out, admit)
            except NarthexError as error:
                await self._refuse(error, underway, out)
            except Exception:
                # What broke us may be what a host said, and hosts repeat keys.
                told = gateway.attempts.hidden(traceback.format_exc(), underway)
                log.error("a request failed in us", extra={"inference": underway.id, "traceback": told})
                await self._refuse(NarthexError("Something went wrong in the gateway; its log has more."), underway, out)
        except asyncio.CancelledError:  # at any moment, also while an error is being told
            if not call.left:
                raise
        finally:
            gateway.telemetry.in_flight -= 1
            try:
                gateway.close(underway, "hung_up" if underway.hung_up else "cut")
            finally:
                if underway.claim is not None:
                    underway.claim.give_up()
                await underway.let_go()

    async def _refuse(self, error: NarthexError, underway: Underway, out: Outgoing) -> None:
        """Tells the caller; in a stream that has begun, by its last frame."""
        gateway = self._gateway
        if out.begun:
            frame = self._dialect.write_error_frame(error)
            underway.failed(200, type(error).__name__, error.message)
        else:
            frame = self._dialect.write_error(error)
            underway.failed(error.status, type(error).__name__, error.message)
        if underway.entry is None:
            gateway.telemetry.refused(error.status)
        elif not underway.entry.closed:
            underway.entry.reply(frame)
            gateway.close(underway, "failed")
            await gateway.spool.kept()
        await underway.let_go()
        if underway.claim is not None:
            await underway.claim.settle()
        if out.begun:
            await out.end(frame)
        else:
            await out.refuse(error, frame)


def _headers(told: list[Header]) -> dict[bytes, bytes]:
    """Raises Malformed for a header of ours that is there twice: whoever is in front of us may have looked at the other one."""
    headers = dict(told)
    if len(headers) != len(told):
        for name, count in Counter(name for name, _ in told).items():
            if count > 1 and (name in (b"authorization", b"x-api-key", b"idempotency-key") or name.startswith(b"x-narthex-")):
                raise Malformed(f"The header {name.decode('latin-1')} is there {count} times: send it once.")
    return headers


def _check_body(headers: dict[bytes, bytes], limit_bytes: int) -> None:
    """Raises TooLarge, or Malformed for a body that is not sent as it is, before any of it need be read."""
    coding = headers.get(b"content-encoding", b"identity").lower()
    if coding != b"identity":
        raise Malformed(f"The body is said to be encoded ({coding.decode('latin-1'):.40}): it is read as it is, so send it plain.")
    said = headers.get(b"content-length", b"")
    if said.isdigit() and int(said) > limit_bytes:
        raise TooLarge(f"The body has {int(said)} bytes; this gateway takes at most {limit_bytes}.")
