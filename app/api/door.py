"""The Door: an ASGI application round each inference route. Who asks is found here, and whatever ends the request ends here, once.

Six endings: answered; the caller leaves before the answer; the caller leaves within it; the caller reads slowly, or not at all; the
engine fails; the process is told to stop. A generator's `finally` or a response's background task miss some of them.
"""

import asyncio
import logging
from typing import Any

from litestar.types import Receive, Scope, Send

from app.api.auth import who_asks
from app.api.replies import Outgoing, error_headers
from app.gateway.serve import Gateway, serve
from app.gateway.underway import Underway
from providers.dialect import Dialect
from providers.errors import Malformed, NarthexError, TooLarge, Unavailable, WrongMethod

log = logging.getLogger(__name__)


class _CallerLeft(Exception):
    """While the body was still being read: there is nobody to answer."""


class Door:
    """One route, in one dialect."""

    def __init__(self, gateway: Gateway, dialect: Dialect) -> None:
        self._gateway = gateway
        self._dialect = dialect

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gateway = self._gateway
        underway = Underway(self._dialect.name)
        out = Outgoing(send, underway)
        work = asyncio.current_task(gateway.loop)
        assert work is not None
        watcher: asyncio.Task[None] | None = None
        gateway.telemetry.in_flight += 1
        try:
            try:
                if scope["method"] != "POST":  # pyright: ignore[reportGeneralTypeIssues]
                    raise WrongMethod(f"{scope['method']} is not for {scope['path']}: POST is.", "POST")  # pyright: ignore[reportGeneralTypeIssues]
                if gateway.draining:
                    raise Unavailable("This gateway is being shut down: try again.", retry_after_s=1)
                headers = _headers(scope)
                underway.caller = await who_asks(gateway.live, headers)
                raw = await _read(headers, receive, gateway.settings.max_body_bytes)
                watcher = gateway.loop.create_task(_watch(receive, work, underway, out))
                await serve(gateway, self._dialect, raw, headers, underway, out)
            except _CallerLeft:
                pass
            except NarthexError as error:
                await self._refuse(error, underway, out)
            except Exception:
                log.exception("a request failed in us", extra={"inference": underway.id})
                await self._refuse(NarthexError("Something went wrong in the gateway; its log has more."), underway, out)
        except asyncio.CancelledError:  # at any moment, also while an error is being told
            if not underway.hung_up:
                raise
            work.uncancel()
        finally:
            if watcher is not None:
                watcher.cancel()
            gateway.telemetry.in_flight -= 1
            try:
                exchange = underway.keep("hung_up" if underway.hung_up else "cut")
                if exchange is not None:
                    gateway.telemetry.ended(exchange)
            finally:
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
            exchange = underway.keep("failed")
            if exchange is not None:
                gateway.telemetry.ended(exchange)
            await gateway.spool.kept()
        await underway.let_go()
        if out.begun:
            await out.end(frame)
        else:
            await out.refuse(error.status, frame, error_headers(error))


def _headers(scope: Scope) -> dict[bytes, bytes]:
    """Raises Malformed for a header of ours that is there twice: whoever is in front of us may have looked at the other one."""
    told: list[tuple[bytes, bytes]] = scope["headers"]  # pyright: ignore[reportAssignmentType]
    headers = dict(told)
    if len(headers) != len(told):
        names = [name for name, _ in told]
        for name in headers:
            if names.count(name) > 1 and (name in (b"authorization", b"x-api-key") or name.startswith(b"x-narthex-")):
                raise Malformed(f"The header {name.decode('latin-1')} is there {names.count(name)} times: send it once.")
    return headers


async def _read(headers: dict[bytes, bytes], receive: Receive, limit_bytes: int) -> bytes:
    """The request's body. Raises TooLarge, as early as can be known."""
    coding = headers.get(b"content-encoding", b"identity").lower()
    if coding != b"identity":
        raise Malformed(f"The body is said to be encoded ({coding.decode('latin-1'):.40}): it is read as it is, so send it plain.")
    said = headers.get(b"content-length", b"")
    if said.isdigit() and int(said) > limit_bytes:
        raise TooLarge(f"The body has {int(said)} bytes; this gateway takes at most {limit_bytes}.")
    pieces: list[bytes] = []
    size = 0
    while True:
        message: Any = await receive()
        if message["type"] == "http.disconnect":
            raise _CallerLeft
        piece = message.get("body", b"")
        size += len(piece)
        if size > limit_bytes:
            raise TooLarge(f"The body has more than {limit_bytes} bytes, the most that this gateway takes.")
        pieces.append(piece)
        if not message.get("more_body", False):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def _watch(receive: Receive, work: asyncio.Task[Any], underway: Underway, out: Outgoing) -> None:
    """Ends the work at once when the caller leaves: uvicorn's send() says nothing of it, and the work may be waiting for an engine."""
    while (await receive())["type"] != "http.disconnect":
        pass
    if out.ended:  # the caller has it all, of which uvicorn tells in the same words
        return
    underway.hung_up = True
    work.cancel()
