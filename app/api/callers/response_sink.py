"""HttpResponseSink: writes the response to an inference request, with the headers that every response carries."""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Iterable

from app.api.callers.stream_relay import StreamRelay
from app.api.server.anthropic_ratelimits import write_limit_headers
from app.api.server.http_call import HttpCall
from app.api.server.response_headers import error_headers
from app.billing.cost import format_usd
from app.domain.exchange import Attempt
from app.domain.snapshot import Plan
from app.gateway.experiments.header_names import write_header_name
from app.gateway.state.context import RequestContext
from app.gateway.state.stages import Admitted, Attempted, ExchangeRecord, Planned, Replayed
from app.store.redis.idempotent_responses import StoredResponse
from providers.canonical.errors import NarthexError
from providers.canonical.finish_reasons import OPENAI_REASONS
from providers.dialect import CallerDialect, ResponseMeta, StreamEditor
from providers.keep_alive import KeepAlive
from providers.transport.response_stream import ResponseStream

_CONTROL_CHARACTERS = bytes([*range(0x20), 0x7F])
_MAX_CANDIDATES_SHOWN = 16
_MAX_HEADER_CHARS = 4_000
# Proxies bound the head of a response, and take a server for broken that exceeds it (nginx: 4 or 8 KiB by default).
_MAX_LIST_CHARS = 1_500
_MAX_NAME_CHARS = 200
_JSON = b"content-type: application/json\r\n"
# x-accel-buffering: nginx in front of us must not collect frames.
_STREAM = b"content-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\nx-accel-buffering: no\r\n"

# Of a stream that is edited behind a keep-alive: more is sent in pieces, with other requests in between.
_EDITED_BYTES = 64 * 1024
_UNKNOWN = object()


class HttpResponseSink:
    """Implements app.gateway.pipeline.relay.ResponseSink for a caller over HTTP.

    `has_begun` says that a status was sent, so an error can no longer have one of its own; `holds_caller` that a keep-alive did that, and
    nothing of an engine was sent yet.
    """

    __slots__ = (
        "_call",
        "_context",
        "_heard",
        "_is_anthropic",
        "_is_editing",
        "_keep_alive",
        "_quiet_since_s",
        "_relayed",
        "has_begun",
        "holds_caller",
        "rewrite",
        "send",
    )

    def __init__(self, call: HttpCall, context: RequestContext) -> None:
        self._call = call
        self._context = context
        self._is_anthropic = context.route.startswith("anthropic_")
        self.has_begun = self.holds_caller = False
        # Makes the response of another form of the route; None: it is the route's.
        self.rewrite: Callable[[bytes], Awaitable[bytes]] | None = None
        self.send = call.send
        self._keep_alive: KeepAlive | None = None
        self._is_editing = False
        self._relayed: ResponseStream | None = None
        self._heard: object = _UNKNOWN
        self._quiet_since_s = 0.0

    async def send_response(self, body: bytes) -> None:
        self.has_begun = True
        await self._call.send_response(200, _JSON + self._headers(), body if self.rewrite is None else await self.rewrite(body))

    async def begin_stream(self, first: bytes) -> None:
        if self.holds_caller:
            self.holds_caller = False
            if first:
                await self.send(first)
            return
        self.has_begun = True
        await self._call.begin_stream(200, _STREAM + self._headers(), first)

    async def replay(self, stored_response: StoredResponse) -> None:
        """Sends the response of an earlier request, with the ids of the original inference."""
        self.has_begun = True
        content_headers = _STREAM if stored_response.streamed else _JSON
        headers = content_headers + b"x-narthex-replayed: true\r\n" + self._headers()
        body = stored_response.body
        if self.rewrite is not None and stored_response.status == 200:
            body = await self.rewrite(body)
        await self._call.send_response(stored_response.status, headers, body)

    async def end_stream(self, last: bytes) -> None:
        self.holds_caller = False
        if self._keep_alive is not None and self._keep_alive.edits_frames:
            await self._send_edited(last)
            last = b""
        await self._call.end_stream(last)

    def relay_at_once(self, blocks: ResponseStream, editor: StreamEditor, record: ExchangeRecord) -> None:
        if self._keep_alive is None or not self._keep_alive.edits_frames:
            self._relayed = blocks
            blocks.receiver = StreamRelay(self._call, blocks, editor, record)

    def write_failure(self, error: NarthexError) -> bytes:
        """The error as the end of a stream that began with a keep-alive; empty where the caller's dialect has a frame for any stream."""
        return b"" if self._keep_alive is None else self._keep_alive.write_failure(error)

    # Silences

    def check_silence(self, now_s: float, longest_s: float, dialect: CallerDialect, meta: ResponseMeta) -> None:
        """Sends a keep-alive after a long silence, if the caller takes it at once. See app.gateway.pipeline.keep_alives.WatchedStream."""
        call = self._call
        if call.last_sent is not self._heard:
            self._quiet_since_s = now_s if call.last_sent is not None else now_s - self._context.progress.elapsed_us() / 1e6
            self._heard = call.last_sent
        if now_s - self._quiet_since_s < longest_s:
            return
        # A head that is about to be written is not to be written twice; and frames have got their numbers before they are sent.
        if self.has_begun == call.response_started and not self._is_editing and call.may_interject:
            self._quiet_since_s = now_s
            self._interject(dialect, meta)

    def _interject(self, dialect: CallerDialect, meta: ResponseMeta) -> None:
        # Before anything is changed: where the head cannot be written, the engine's response is to have one of its own.
        head = b"" if self.has_begun else _STREAM + self._headers(include_served=False)  # without what the answer decides
        if self._keep_alive is None:
            self._keep_alive = dialect.keep_alive(meta)
            if self._keep_alive.edits_frames:
                self.send = self._send_edited
                if self._relayed is not None:
                    self._relayed.receiver = None
        frames = self._keep_alive.write(self._call.last_sent)
        if self.has_begun:
            self._call.interject(frames)
        else:
            self.has_begun = self.holds_caller = True
            self._context.status = 200
            self._call.begin_with(200, head, frames)

    async def _send_edited(self, data: bytes) -> None:
        assert self._keep_alive is not None
        self._is_editing = True
        try:
            end = 0
            while end < len(data):
                start, end = end, data.find(b"\n\n", end + _EDITED_BYTES) + 2
                end = len(data) if end < 2 else end
                await self._call.send(self._keep_alive.edit(data[start:end]))
                if end < len(data):
                    await asyncio.sleep(0)
        finally:
            self._is_editing = False

    async def send_error(self, error: NarthexError, body: bytes) -> None:
        self.has_begun = True
        await self._call.send_response(error.status, _JSON + self._error_headers(error) + self._headers(include_served=False), body)

    def _error_headers(self, error: NarthexError) -> bytes:
        return b"".join([b"%b: %b\r\n" % header for header in error_headers(error, anthropic=self._is_anthropic)])

    def _headers(self, include_served: bool = True) -> bytes:
        """Returns the headers that are known at the stage that the request has reached.

        Without `include_served`, x-narthex-served is left out, as for error responses.
        """
        context = self._context
        match context.stage:
            case Attempted() as attempted:
                planned = attempted.planned
                fields = _inference_headers(context, planned.admitted.episode.id, attempted.dropped)
                if planned.plan.variant is not None:
                    fields += _plan_headers(planned.plan, attempted.served_variant if include_served else None)
                if planned.reservation is not None:
                    fields += write_limit_headers(planned.reservation, anthropic=self._is_anthropic)
                if context.cost_microusd is not None:
                    fields += b"x-narthex-cost-usd: %b\r\n" % format_usd(context.cost_microusd)
                if not include_served:
                    return fields
                if attempted.emulation is not None and attempted.emulation.fields:
                    fields += _emulated_header(attempted.emulation.report)
                if attempted.candidates is not None:
                    fields += _candidates_header(attempted)
                reason = attempted.progress.finish_reason
                if reason is not None and reason not in OPENAI_REASONS:  # a word that is not known: the body says `stop`
                    fields += b"x-narthex-finish-reason: %b\r\n" % _header_value(reason[:_MAX_NAME_CHARS])
                reported_model = attempted.reported_model if context.recorded is None else context.recorded.reported_model
                return fields + _served_headers(attempted.served, attempted.structured_output, reported_model)
            case Planned(admitted=admitted, plan=plan, reservation=reservation):
                fields = _inference_headers(context, admitted.episode.id, ())
                if plan.variant is not None:
                    fields += _plan_headers(plan, None)
                return fields if reservation is None else fields + write_limit_headers(reservation, anthropic=self._is_anthropic)
            case Admitted(episode=episode):
                return _inference_headers(context, episode.id, ())
            case Replayed(response=response):
                return _replay_headers(context, response)
            case _:
                return _inference_headers(context, None, ())


def _inference_headers(
    context: RequestContext, episode_id: str | None, dropped: list[str] | tuple[str, ...], inference_id: str | None = None
) -> bytes:
    """The headers that name the inference; `inference_id` is given for the response of an earlier request, which is replayed."""
    id = inference_id or context.id
    request_id = context.own_request_id or id
    lines = f"x-request-id: {request_id}\r\nrequest-id: {request_id}\r\nx-narthex-inference-id: {id}\r\n"
    if episode_id is not None:
        lines += f"x-narthex-episode-id: {episode_id}\r\n"
    fields = lines.encode("ascii")
    return fields + b"x-narthex-dropped: %b\r\n" % _header_list(dropped) if dropped else fields


def _emulated_header(fields: Iterable[str]) -> bytes:
    return b"x-narthex-emulated: %b\r\n" % _header_list(fields)


def _candidates_header(attempted: Attempted) -> bytes:
    """The candidates of each attempt, the best first. Callers know endpoints by their number: addresses are in the record only."""
    lines: list[str] = []
    for attempt in attempted.attempts:
        described = [
            f"{attempt.provider}[{each.number}] score={each.score} cached={each.cached_tokens} load={each.load_tokens}"
            + (f" ({each.unavailable})" if each.unavailable else "")
            for each in (attempt.candidates or ())[:_MAX_CANDIDATES_SHOWN]
        ]
        lines.append(", ".join(described) + (f" -> {attempt.error}" if attempt.error else " -> served"))
    return b"x-narthex-candidates: %b\r\n" % _header_value("; ".join(lines)[:_MAX_HEADER_CHARS])


def _served_headers(served: Attempt | None, structured_output: str | None, reported_model: str | None) -> bytes:
    if served is None:
        return b""
    fields = b"" if structured_output is None else b"x-narthex-guided: %b\r\n" % structured_output.encode("ascii")
    if reported_model is not None:
        fields += b"x-narthex-reported-model: %b\r\n" % _header_value(reported_model[:_MAX_NAME_CHARS])
    return fields + _served_line(served.provider, served.model)


@functools.lru_cache(maxsize=1024)
def _served_line(provider: str, model: str) -> bytes:
    return b"x-narthex-served: %b\r\n" % _header_value(f"{provider}/{model}")


def _plan_headers(plan: Plan, served_variant: str | None) -> bytes:
    assignment = plan.assignment
    if assignment is None:
        return _variant_headers(plan.variant, served_variant, None, None, None)
    return _variant_headers(assignment.arm, served_variant, assignment.experiment, assignment.version, assignment.not_enrolled)


def _variant_headers(
    variant: str | None, served_variant: str | None, experiment: str | None, version: int | None, not_enrolled: str | None
) -> bytes:
    """The arm that the request was assigned to, the one that answered, and the experiment."""
    fields = b"" if variant is None else b"x-narthex-variant: %b\r\n" % write_header_name(variant)
    if served_variant is not None:
        fields += b"x-narthex-served-variant: %b\r\n" % write_header_name(served_variant)
    if experiment is not None and version is not None:
        fields += b"x-narthex-experiment: %b@%d\r\n" % (write_header_name(experiment), version)
    if not_enrolled is not None:
        fields += b"x-narthex-not-enrolled: %b\r\n" % not_enrolled.encode()
    return fields


def _replay_headers(context: RequestContext, response: StoredResponse) -> bytes:
    fields = _inference_headers(context, response.episode_id, response.dropped, response.inference_id)
    fields += _variant_headers(
        response.variant, response.served_variant, response.experiment, response.experiment_version, response.not_enrolled
    )
    if response.emulated:
        fields += _emulated_header(response.emulated)
    if response.served_provider is None or response.served_model is None:
        return fields
    return fields + _served_headers(
        Attempt(response.served_provider, response.served_model, "", 0, 0), response.structured_output, response.reported_model
    )


def _header_list(fields: Iterable[str]) -> bytes:
    """The fields with commas. Long ones are cut, and where they do not all fit, the last ones are left out."""
    text = _header_value(", ".join(fields))
    if len(text) > _MAX_LIST_CHARS:
        text = b", ".join(_header_value(each)[:_MAX_NAME_CHARS] for each in fields)
        if len(text) > _MAX_LIST_CHARS:
            text = text[: text.rindex(b", ", 0, _MAX_LIST_CHARS)] + b", ..."
    return text


def _header_value(text: str) -> bytes:
    """A header's value without line breaks, whatever the text holds."""
    return text.encode("ascii", "backslashreplace").translate(None, _CONTROL_CHARACTERS)
