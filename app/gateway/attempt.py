"""Trying targets in order until one serves. Nothing is tried again once a byte has gone to the caller."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

import httpx
from msgspec import Struct
from msgspec.structs import replace

from app.domain import Attempt, Plan, Target
from app.gateway import translate
from app.gateway.bill import needed_of
from app.gateway.checks import Checks
from app.gateway.fleet import Endpoint, Fleet
from app.gateway.held import obeying
from app.gateway.limits.limits import Limits
from app.gateway.translate import Asked, Folding, Prepared
from app.gateway.underway import Underway
from app.settings import Settings
from providers.answer_stream import AnswerStream, AnswerTooLarge
from providers.credentials import NoCredential
from providers.dialect import Ask, Edited, Editor, Stamp
from providers.errors import (
    CredentialRefused,
    CutShort,
    Garbled,
    LimitReached,
    Missing,
    NotObeyed,
    NotOffered,
    TimedOut,
    Unavailable,
    Unreachable,
    Unsupported,
    UpstreamError,
)
from providers.guided import Guiding
from providers.routes.route import Route
from providers.routes.way import Way

log = logging.getLogger(__name__)

_MOST_ATTEMPTS = 8
_ERROR_BODY_BYTES = 1024 * 1024


class Streaming(Struct):
    """A stream that has begun: what to send first, and where the rest comes from."""

    first: bytes
    editor: Editor
    blocks: AsyncIterator[bytes]


class Upstream:
    """A request at an engine. release() ends it there, unless it has ended, and counts it out of the endpoint's load.

    `id`: by which the engine knows it, if it does. `abort`: asks an engine to stop, for those that go on after their caller has gone.
    """

    def __init__(self, endpoint: Endpoint, id: str | None, abort: Callable[[Endpoint, str], None]) -> None:
        self.endpoint = endpoint
        self.response: httpx.Response | None = None
        self._id = id
        self._abort = abort
        endpoint.in_flight += 1

    async def release(self) -> None:
        self.endpoint.in_flight -= 1
        complete = False
        if self.response is not None:
            stream = _stream(self.response)
            complete = stream.answer.complete
            await stream.aclose()
        if not complete and self._id is not None:
            self._abort(self.endpoint, self._id)


class Attempts:
    """Serves plans: `fleet` tells which endpoints a target has, `transport` speaks to them."""

    def __init__(self, settings: Settings, fleet: Fleet, limits: Limits, checks: Checks, transport: httpx.AsyncBaseTransport) -> None:
        self._settings = settings
        self._checks = checks
        self._aborting: set[asyncio.Task[None]] = set()
        self._fleet = fleet
        self._limits = limits
        self._transport = transport
        common = {"connect": settings.connect_timeout_s, "write": settings.total_timeout_s, "pool": settings.total_timeout_s}
        total = {"total": settings.total_timeout_s}
        self._stream_timeout = {
            **common,
            **total,
            "first": min(settings.first_token_timeout_s, settings.total_timeout_s),
            "read": settings.silence_timeout_s,
        }
        # A whole answer's first byte is its last, or nearly.
        self._whole_timeout = {**common, **total, "first": settings.total_timeout_s, "read": settings.total_timeout_s}

    async def serve(self, asked: Asked, plan: Plan, stamp: Stamp, underway: Underway) -> Edited | Streaming:
        """The first answer that a target gives. Raises the last target's UpstreamError; Unsupported if none can honour the ask, and

        NotOffered if none has the API for it.
        """
        failed: UpstreamError | None = None
        unsupported: Unsupported | None = None
        not_offered: NotOffered | None = None
        limited: LimitReached | Unavailable | None = None
        reserved = {plan.name}
        repairs = 0
        for target, name in zip(plan.targets, plan.names, strict=True):
            if name not in reserved:
                try:
                    await self._reserve(asked.ask, plan, name, underway)
                except (LimitReached, Unavailable) as refusal:
                    limited = limited or refusal
                    continue
                reserved.add(name)
            again = self._fleet.choose(target)
            for endpoint in again:
                if len(underway.attempts) >= _MOST_ATTEMPTS:
                    break
                try:
                    prepared = await _prepare(asked, endpoint, target)
                except (Missing, Unreachable) as reason:  # a LoRA adapter that is known not to be there, or not known to be
                    failed = reason
                    continue
                except NotOffered as reason:
                    not_offered = not_offered or reason
                    break
                except Unsupported as reason:
                    unsupported = unsupported or reason
                    break
                try:
                    try:
                        answer = await self._try(endpoint, target, prepared, asked, stamp, underway)
                    except CredentialRefused:
                        # It may have been replaced where it is kept: a rotation must cost no request.
                        if not endpoint.renew_credential():
                            raise
                        answer = await self._try(endpoint, target, prepared, asked, stamp, underway)
                except NotObeyed as error:
                    failed = error
                    underway.wasted(error, asked.ask.input_tokens)
                    if repairs == asked.repairs:
                        break  # its other endpoints serve the same model: to ask them is a second try, which the caller did not allow
                    repairs += 1
                    asked.repair(error)
                    again.append(endpoint)
                    continue
                except UpstreamError as error:
                    self._fleet.blame(endpoint, error)
                    if not error.elsewhere:
                        raise
                    failed = error
                    continue
                self._fleet.praise(endpoint)
                underway.dropped = prepared.dropped
                underway.guided = None if prepared.guiding is None else prepared.guiding.how
                return answer
        if failed is not None:
            raise failed
        if unsupported is not None:
            raise unsupported
        if limited is not None:
            raise limited
        if not_offered is not None:
            raise not_offered
        raise Unreachable(f"No target of {asked.ask.model!r} has an address to be reached at.")

    async def _reserve(self, ask: Ask, plan: Plan, name: str, underway: Underway) -> None:
        """What a fallback has rules of its own for. Raises LimitReached or Unavailable: another may have room."""
        assert underway.caller is not None
        need = needed_of(ask, plan, name, self._settings.limits_output_tokens, underway.received_us / 1e6)
        underway.ticket = await self._limits.also(underway.ticket, underway.id, underway.caller, name, underway.tags, need)

    def _stop(self, endpoint: Endpoint, id: str) -> None:
        """Without waiting for it: whoever lets go has no time."""
        told = endpoint.provider.abort(endpoint.base_url, id)
        if told is None:
            return
        task = asyncio.create_task(self._tell(endpoint.told(*told)))
        self._aborting.add(task)
        task.add_done_callback(self._aborting.discard)

    async def _tell(self, request: httpx.Request) -> None:
        try:
            response = await self._transport.handle_async_request(request)
            await _stream(response).aclose()
        except httpx.TransportError as fault:
            log.info("an engine could not be told to stop a request", extra={"url": str(request.url), "fault": repr(fault)})

    def _who(self, underway: Underway) -> str:
        assert isinstance(underway.held, Upstream)
        return underway.held.endpoint.provider.configured_as

    def told(self, fault: httpx.TransportError, underway: Underway) -> UpstreamError:
        """The error for a connection that failed in the middle of the answer that is under way."""
        assert isinstance(underway.held, Upstream)
        return _told(fault, underway.held.endpoint)

    async def _try(
        self,
        endpoint: Endpoint,
        target: Target,
        prepared: Prepared,
        asked: Asked,
        stamp: Stamp,
        underway: Underway,
    ) -> Edited | Streaming:
        started_us = underway.now_us()
        underway.usage, underway.written_tokens = None, 0
        upstream = Upstream(endpoint, prepared.id, self._stop)
        underway.held = upstream
        told: str | None = None
        error: str | None = None
        try:
            return await self._ask(upstream, prepared, asked, stamp, underway)
        except UpstreamError as fault:
            error, told = type(fault).__name__, fault.message
            await underway.let_go()
            raise
        except asyncio.CancelledError:
            error = "HungUp" if underway.hung_up else "Cut"
            raise
        finally:
            attempt = Attempt(
                provider=target.provider,
                model=target.model,
                endpoint=endpoint.base_url,
                started_us=started_us,
                duration_us=underway.now_us() - started_us,
                status=upstream.response.status_code if upstream.response is not None else None,
                error=error,
                message=told,
            )
            underway.attempts.append(attempt)
            if error in (None, "HungUp", "Cut"):
                underway.served = attempt

    async def _ask(self, upstream: Upstream, prepared: Prepared, asked: Asked, stamp: Stamp, underway: Underway) -> Edited | Streaming:
        endpoint, ours, theirs = upstream.endpoint, asked.dialect, prepared.dialect
        if endpoint.provider.stops_after_calls:
            stamp = replace(stamp, stops_after_calls=True)
        try:
            timeout = self._stream_timeout if prepared.stream else self._whole_timeout
            request = endpoint.request(theirs.name, prepared.raw, timeout, prepared.betas)
            response = upstream.response = await self._transport.handle_async_request(request)
            if response.status_code >= 300 or response.status_code < 200:
                body = await _read(response, _ERROR_BODY_BYTES)
                error = endpoint.provider.read_error(response.status_code, response.headers, body)
                raise theirs.told(error, endpoint.provider.configured_as) if isinstance(theirs, Way) else error
            streamed = _is_stream(response, prepared.stream)
            if prepared.guiding is not None and (prepared.guiding.how == "validated" or prepared.guiding.quoted):
                return await self._hold(response, streamed, prepared.guiding, theirs, asked, stamp, underway)
            if asked.ask.stream:
                return await self._begin(response, translate.editor(ours, theirs, stamp, streamed=streamed), streamed, underway)
            if streamed:
                folding = translate.folding(ours, theirs, stamp)
                await _fold(response, folding, self._settings.max_reply_bytes, underway)
                return folding.end()
            return translate.whole(await _read(response, self._settings.max_reply_bytes), ours, theirs, stamp)
        except CutShort as fault:
            raise await self._asked_why(upstream, prepared) or fault from None
        except NoCredential as fault:
            raise CredentialRefused(str(fault)) from None
        except httpx.TransportError as fault:
            raise _told(fault, endpoint) from fault

    async def _asked_why(self, upstream: Upstream, prepared: Prepared) -> UpstreamError | None:
        """Why a stream ended before its first byte, where the engine tells it to those alone who ask for a whole answer."""
        endpoint, response = upstream.endpoint, upstream.response
        if response is None or _stream(response).answer.body_begun:
            return None
        raw = endpoint.provider.enquiry(prepared.raw)
        if raw is None:
            return None
        try:
            request = endpoint.request(prepared.dialect.name, raw, self._stream_timeout, prepared.betas)
            answer = await self._transport.handle_async_request(request)
            body = await _read(answer, _ERROR_BODY_BYTES)
        except (httpx.TransportError, Garbled):
            return None
        return endpoint.provider.read_error(answer.status_code, answer.headers, body) if answer.status_code >= 300 else None

    async def _hold(
        self,
        response: httpx.Response,
        streamed: bool,
        guiding: Guiding,
        theirs: translate.Theirs,
        asked: Asked,
        stamp: Stamp,
        underway: Underway,
    ) -> Edited | Streaming:
        """The answer once it is whole and known to obey: as it came, unless it came in quotes. Raises NotObeyed."""
        ours, engine = translate.both(asked.dialect, theirs)
        assert asked.constraint is not None
        if streamed:
            folding = Folding(ours, engine, stamp)
            raw = await _fold(response, folding, self._settings.max_reply_bytes, underway)
            answer = folding.answer()
        else:
            raw = await _read(response, self._settings.max_reply_bytes)
            answer = engine.read_response(raw)
        underway.usage = answer.usage
        answer = await obeying(translate.finished(answer), guiding, asked.constraint, self._checks)
        if not asked.ask.stream:
            if streamed or guiding.quoted:
                return translate.written(answer, ours, stamp)
            return translate.whole(raw, asked.dialect, theirs, stamp)
        underway.first_token_us = underway.now_us()
        if guiding.quoted:
            telling = translate.Unfolding(ours, engine, stamp)
            return Streaming(telling.tell(answer), telling, _nothing())
        editor = translate.editor(asked.dialect, theirs, stamp, streamed=streamed)
        first = editor.feed(raw)
        if editor.failure is not None:
            raise editor.failure
        return Streaming(first, editor, _nothing())

    async def _begin(self, response: httpx.Response, editor: Editor, streamed: bool, underway: Underway) -> Streaming:
        """Reads on until there is something for the caller, or the engine shows that there will not be."""
        if not streamed:
            body = await _read(response, self._settings.max_reply_bytes)
            underway.first_token_us = underway.now_us()
            first = editor.feed(body)
            return Streaming(first, editor, _nothing())
        blocks = _blocks(response)
        async for block in blocks:
            if underway.first_token_us is None:
                underway.first_token_us = underway.now_us()
            first = editor.feed(block)
            if first:
                return Streaming(first, editor, blocks)
            if editor.failure is not None:
                raise editor.failure
            if editor.done:
                break
        # Nothing for the caller but, perhaps, the end: a short answer may be one frame, which the editor withholds.
        if editor.finish_reason is None:
            raise CutShort(f"{self._who(underway)} ended its answer before it began.")
        return Streaming(b"", editor, blocks)


async def _prepare(asked: Asked, endpoint: Endpoint, target: Target) -> Prepared:
    """In the best dialect of the endpoint that can say the ask. Raises Unsupported for what the best of all cannot say, or NotOffered."""
    provider = endpoint.provider
    if isinstance(asked.dialect, Route):
        return asked.routed(asked.dialect, provider, target)
    unsupported: Unsupported | None = None
    for dialect in asked.dialects(provider, endpoint.dialects if target.dialect is None else (target.dialect,)):
        try:
            edited = await asked.unhurried(asked.edited, provider, target) if dialect is asked.dialect else None
            return edited or await asked.crossed(dialect, provider, target)
        except Unsupported as reason:
            unsupported = unsupported or reason
    assert unsupported is not None
    raise unsupported


async def _fold(response: httpx.Response, folding: Folding, limit_bytes: int, underway: Underway) -> bytes:
    """All that came; who hangs up meanwhile pays for what there is of it. Raises Garbled over the limit."""
    blocks: list[bytes] = []
    size_bytes = 0
    async for block in _blocks(response):
        size_bytes += len(block)
        if size_bytes > limit_bytes:
            raise Garbled(f"The engine's answer is larger than {limit_bytes} bytes.")
        blocks.append(block)
        folding.feed(block)
        underway.written_tokens = folding.written_tokens
        if folding.done:
            break
    return b"".join(blocks)


async def _read(response: httpx.Response, limit_bytes: int) -> bytes:
    """The whole body. Raises Garbled over the limit."""
    try:
        return await _stream(response).read_all(limit_bytes)
    except AnswerTooLarge:
        raise Garbled(f"The engine's answer is larger than {limit_bytes} bytes.") from None


def _is_stream(response: httpx.Response, wanted: bool) -> bool:
    """What the engine says it sends, not what it was asked for, unless it says nothing that helps.

    Raises Garbled for an answer in an encoding. Raw: a look-up in httpx.Headers guesses an encoding first.
    """
    kind = b""
    for name, value in response.headers.raw:
        match name.lower():
            case b"content-type":
                kind = value.lower()
            case b"content-encoding" if value.lower() not in (b"identity", b""):
                raise Garbled(f"The engine encoded its answer ({value.decode('latin-1'):.40}), which it was not asked to do.")
            case _:
                pass
    return kind.startswith((b"text/event-stream", b"application/x-ndjson")) or (wanted and not kind.startswith(b"application/"))


def _blocks(response: httpx.Response) -> AsyncIterator[bytes]:
    """The body as it comes, undecoded: we ask for no content encoding."""
    return aiter(_stream(response))


def _stream(response: httpx.Response) -> AnswerStream:
    assert isinstance(response.stream, AnswerStream)
    return response.stream


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""


def _told(fault: httpx.TransportError, endpoint: Endpoint) -> UpstreamError:
    """A failure of the connection, in words that name the provider and not its address, which is for the log."""
    who = endpoint.provider.configured_as
    log.info("an engine failed", extra={"provider": who, "endpoint": endpoint.base_url, "fault": repr(fault)})
    match fault:
        case httpx.ConnectTimeout() | httpx.PoolTimeout():
            return TimedOut(f"No connection to {who} could be made in time.")
        case httpx.TimeoutException():
            return TimedOut(f"{who} did not answer in time.")
        case httpx.ConnectError():
            return Unreachable(f"{who} cannot be reached.")
        case httpx.RemoteProtocolError():
            return CutShort(f"{who} broke off, or did not speak HTTP.")
        case _:
            return Unreachable(f"The connection to {who} broke.")
