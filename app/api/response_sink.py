"""Answers to a call, with the headers that every answer carries."""

import math

from app.api.anthropic_ratelimits import to_anthropic_headers
from app.api.http_call import Header, HttpCall
from app.gateway.context import RequestContext
from app.store.idempotent_responses import StoredResponse
from providers.canonical.errors import LimitExceeded, MethodNotAllowed, NarthexError, QuotaExhausted

_CONTROL_CHARACTERS = bytes([*range(0x20), 0x7F])
_JSON = b"content-type: application/json\r\n"
# x-accel-buffering: nginx in front of us must not collect frames.
_STREAM = b"content-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\nx-accel-buffering: no\r\n"


def error_headers(error: NarthexError, *, anthropic: bool = False) -> list[Header]:
    headers: list[Header] = []
    if error.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % math.ceil(error.retry_after_s)))
    if isinstance(error, QuotaExhausted):
        # What is used up is so in a second too. The official SDKs obey it: _base_client.py of openai 3.52 and anthropic 2.11, read 2026-11.
        headers.append((b"x-should-retry", b"false"))
    if isinstance(error, MethodNotAllowed):
        headers.append((b"allow", error.allowed.encode("latin-1")))
    if isinstance(error, LimitExceeded):
        headers += to_anthropic_headers(error.headers) if anthropic else error.headers
    return headers


def request_headers(id: str) -> list[Header]:
    """SDKs show x-request-id (OpenAI's) and request-id (Anthropic's) to their users."""
    value = id.encode("ascii")
    return [(b"x-request-id", value), (b"request-id", value)]


class HttpResponseSink:
    """The way to the caller of one request. See app.gateway.serve.Out.

    `begun`: a status was sent, so there is no other.
    """

    __slots__ = ("_call", "_context", "_is_anthropic", "has_begun", "send")

    def __init__(self, call: HttpCall, context: RequestContext) -> None:
        self._call = call
        self._context = context
        self._is_anthropic = context.route.startswith("anthropic_")
        self.has_begun = False
        self.send = call.send

    async def send_response(self, body: bytes) -> None:
        self.has_begun = True
        await self._call.send_response(200, _JSON + self._success_headers(), body)

    async def begin_stream(self, first: bytes) -> None:
        self.has_begun = True
        await self._call.begin_stream(200, _STREAM + self._success_headers(), first)

    async def replay(self, stored_response: StoredResponse) -> None:
        """What was answered before, to whoever the underway stands for by now."""
        self.has_begun = True
        content_headers = _STREAM if stored_response.streamed else _JSON
        await self._call.send_response(
            stored_response.status, content_headers + b"x-narthex-replayed: true\r\n" + self._success_headers(), stored_response.body
        )

    async def end_stream(self, last: bytes) -> None:
        await self._call.end_stream(last)

    async def send_error(self, error: NarthexError, body: bytes) -> None:
        self.has_begun = True
        headers = b"".join([b"%b: %b\r\n" % header for header in error_headers(error, anthropic=self._is_anthropic)])
        await self._call.send_response(error.status, _JSON + headers + self._gateway_headers(), body)

    def _gateway_headers(self) -> bytes:
        context = self._context
        id = context.id.encode("ascii")
        fields = b"x-request-id: %b\r\nrequest-id: %b\r\nx-narthex-inference-id: %b\r\n" % (id, id, id)
        if context.episode_id is not None:
            fields += b"x-narthex-episode-id: %b\r\n" % context.episode_id.encode("ascii")
        if context.dropped:
            fields += b"x-narthex-dropped: %b\r\n" % _header_value(", ".join(context.dropped))
        if context.reservation is not None:
            rate_limit_headers = context.reservation.headers
            fields += b"".join(
                [
                    b"%b: %b\r\n" % header
                    for header in (to_anthropic_headers(rate_limit_headers) if self._is_anthropic else rate_limit_headers)
                ]
            )
        return fields

    def _success_headers(self) -> bytes:
        served = self._context.served
        if served is None:
            return self._gateway_headers()
        guided = self._context.guided
        guided_header = b"" if guided is None else b"x-narthex-guided: %b\r\n" % guided.encode("ascii")
        return b"%b%bx-narthex-served: %b\r\n" % (
            self._gateway_headers(),
            guided_header,
            _header_value(f"{served.provider}/{served.model}"),
        )


def _header_value(text: str) -> bytes:
    """A header's value, whoever chose the words."""
    return text.encode("ascii", "backslashreplace").translate(None, _CONTROL_CHARACTERS)
