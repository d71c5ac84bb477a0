"""Asking: one request to one engine, until there is something for the caller: a whole answer, or the beginning of a stream."""

from collections.abc import AsyncIterator

import httpx
from msgspec import Struct
from msgspec.structs import replace

from app.gateway import translate
from app.gateway.asked import Asked, Prepared
from app.gateway.checks import Checks
from app.gateway.held import obeying
from app.gateway.translate import Folding
from app.gateway.underway import Underway
from app.gateway.upstream import Upstream, blocks_of, is_stream, read, stream_of
from app.settings import Settings
from providers.credentials import NoCredential
from providers.dialect import Edited, Editor, Stamp
from providers.errors import CredentialRefused, CutShort, Garbled, NoToken, UpstreamError
from providers.guided import Guiding
from providers.routes.way import Way

_ERROR_BODY_BYTES = 1024 * 1024


class Streaming(Struct):
    """A stream that has begun: what to send first, and where the rest comes from."""

    first: bytes
    editor: Editor
    blocks: AsyncIterator[bytes]


class Asking:
    """`transport` speaks to engines; `checks` look at answers that nobody promised."""

    def __init__(self, settings: Settings, checks: Checks, transport: httpx.AsyncBaseTransport) -> None:
        self._checks = checks
        self._transport = transport
        self._most_bytes = settings.max_reply_bytes
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

    async def ask(self, upstream: Upstream, prepared: Prepared, asked: Asked, stamp: Stamp, underway: Underway) -> Edited | Streaming:
        """Raises an UpstreamError."""
        endpoint, ours, theirs = upstream.endpoint, asked.dialect, prepared.dialect
        who = endpoint.provider.configured_as
        if endpoint.provider.stops_after_calls:
            stamp = replace(stamp, stops_after_calls=True)
        try:
            timeout = self._stream_timeout if prepared.stream else self._whole_timeout
            request = await upstream.request(prepared, prepared.raw, timeout)
            upstream.asked = True
            response = upstream.response = await self._transport.handle_async_request(request)
            if endpoint.provider.tells_allowance:
                upstream.identity.cooldown.heard(upstream.model, response.headers)
            if response.status_code >= 300 or response.status_code < 200:
                body = upstream.identity.hiding.hide_bytes(await read(response, _ERROR_BODY_BYTES))
                error = endpoint.provider.read_error(response.status_code, response.headers, body)
                raise theirs.told(error, who) if isinstance(theirs, Way) else error
            streamed = is_stream(response, prepared.stream)
            blocks = blocks_of(response, endpoint.provider.unwrapping(theirs.name)) if streamed else None
            if prepared.guiding is not None and (prepared.guiding.how == "validated" or prepared.guiding.quoted):
                return await self._hold(response, blocks, prepared.guiding, theirs, asked, stamp, underway)
            if asked.ask.stream:
                return await self._begin(response, translate.editor(ours, theirs, stamp, streamed=streamed), blocks, underway, who)
            if blocks is not None:
                folding = translate.folding(ours, theirs, stamp)
                await _fold(blocks, folding, self._most_bytes, underway)
                return folding.end()
            return translate.whole(await read(response, self._most_bytes), ours, theirs, stamp, response.headers)
        except CutShort as fault:
            raise await self._asked_why(upstream, prepared) or fault from None
        except NoCredential as fault:
            raise CredentialRefused(str(fault)) from None
        except httpx.TransportError as fault:
            raise upstream.told(fault) from fault

    async def _asked_why(self, upstream: Upstream, prepared: Prepared) -> UpstreamError | None:
        """Why a stream ended before its first byte, where the engine tells it to those alone who ask for a whole answer."""
        endpoint, response = upstream.endpoint, upstream.response
        if response is None or stream_of(response).answer.body_begun:
            return None
        raw = endpoint.provider.enquiry(prepared.raw)
        if raw is None:
            return None
        try:
            request = await upstream.request(prepared, raw, self._stream_timeout)
            answer = await self._transport.handle_async_request(request)
            body = upstream.identity.hiding.hide_bytes(await read(answer, _ERROR_BODY_BYTES))
        except (httpx.TransportError, NoToken, NoCredential, Garbled):
            return None
        return endpoint.provider.read_error(answer.status_code, answer.headers, body) if answer.status_code >= 300 else None

    async def _hold(
        self,
        response: httpx.Response,
        blocks: AsyncIterator[bytes] | None,
        guiding: Guiding,
        theirs: translate.Theirs,
        asked: Asked,
        stamp: Stamp,
        underway: Underway,
    ) -> Edited | Streaming:
        """The answer once it is whole and known to obey: as it came, unless it came in quotes. `blocks` None: it comes whole.

        Raises NotObeyed.
        """
        streamed = blocks is not None
        ours, engine = translate.both(asked.dialect, theirs)
        assert asked.constraint is not None
        if blocks is not None:
            folding = Folding(ours, engine, stamp)
            raw = await _fold(blocks, folding, self._most_bytes, underway)
            answer = folding.answer()
        else:
            raw = await read(response, self._most_bytes)
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

    async def _begin(
        self, response: httpx.Response, editor: Editor, blocks: AsyncIterator[bytes] | None, underway: Underway, who: str
    ) -> Streaming:
        """Reads on until there is something for the caller, or the engine shows that there will not be. `blocks` None: it comes whole."""
        if blocks is None:
            body = await read(response, self._most_bytes)
            underway.first_token_us = underway.now_us()
            first = editor.feed(body)
            return Streaming(first, editor, _nothing())
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
            raise CutShort(f"{who} ended its answer before it began.")
        return Streaming(b"", editor, blocks)


async def _fold(blocks: AsyncIterator[bytes], folding: Folding, limit_bytes: int, underway: Underway) -> bytes:
    """All that came; who hangs up meanwhile pays for what there is of it. Raises Garbled over the limit."""
    came: list[bytes] = []
    size_bytes = 0
    async for block in blocks:
        size_bytes += len(block)
        if size_bytes > limit_bytes:
            raise Garbled(f"The engine's answer is larger than {limit_bytes} bytes.")
        came.append(block)
        folding.feed(block)
        underway.written_tokens = folding.written_tokens
        if folding.done:
            break
    return b"".join(came)


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""
