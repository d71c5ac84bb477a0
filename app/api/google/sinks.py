"""Streams of Google's routes in another form than that of what is recorded: one JSON array."""

from app.api.callers.response_sink import HttpResponseSink
from app.api.server.http_call import HttpCall
from app.gateway.state.context import RequestContext
from app.gateway.state.stages import ExchangeRecord
from app.store.redis.idempotent_responses import StoredResponse
from providers.dialect import CallerDialect, ResponseMeta, StreamEditor
from providers.transport.response_stream import ResponseStream

_JSON = b"content-type: application/json\r\n"
# x-accel-buffering: nginx in front of us must not collect what is streamed.
_STREAMED_JSON = b"content-type: application/json; charset=utf-8\r\ncache-control: no-cache\r\nx-accel-buffering: no\r\n"
_REPLAYED = b"x-narthex-replayed: true\r\n"


class ArraySink(HttpResponseSink):
    """Sends a stream as an array, element by element, as Google does without `alt=sse`. There are no keep-alives in it."""

    __slots__ = ("_has_elements",)

    def __init__(self, call: HttpCall, context: RequestContext) -> None:
        super().__init__(call, context)
        self._has_elements = False
        self.send = self._send_elements

    async def begin_stream(self, first: bytes) -> None:
        self.has_begun = True
        await self._call.begin_stream(200, _STREAMED_JSON + self._headers(), self._elements(first))

    async def end_stream(self, last: bytes) -> None:
        await self._call.end_stream(self._elements(last) + (b"]" if self._has_elements else b"[]"))

    async def replay(self, stored_response: StoredResponse) -> None:
        self.has_begun = True
        body = stored_response.body
        if stored_response.streamed:
            body = self._elements(body) + (b"]" if self._has_elements else b"[]")
        await self._call.send_response(stored_response.status, _JSON + _REPLAYED + self._headers(), body)

    def relay_at_once(self, blocks: ResponseStream, editor: StreamEditor, record: ExchangeRecord) -> None:
        """Does nothing: frames are not sent as they are."""

    def check_silence(self, now_s: float, longest_s: float, dialect: CallerDialect, meta: ResponseMeta) -> None:
        """Does nothing: an array has no place for what says nothing."""

    async def _send_elements(self, data: bytes) -> None:
        elements = self._elements(data)
        if elements:
            await self._call.send(elements)

    def _elements(self, frames: bytes) -> bytes:
        """Whole frames as elements."""
        written: list[bytes] = []
        for frame in frames.split(b"\n\n"):
            if frame.startswith(b"data: "):
                written += (b",\n" if self._has_elements else b"[", frame[6:])
                self._has_elements = True
        return b"".join(written)
