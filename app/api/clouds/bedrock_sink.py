"""Answers as Amazon Bedrock's runtime writes them: a stream as an AWS event stream whose chunks hold events of Messages.

Sources: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InvokeModelWithResponseStream.html, and anthropic-python 2.14,
lib/bedrock/_stream_decoder.py, read 2026-11.
"""

import base64

import msgspec

from app.api.callers.response_sink import HttpResponseSink
from app.gateway.state.stages import ExchangeRecord
from app.store.redis.idempotent_responses import StoredResponse
from providers.canonical.errors import NarthexError
from providers.dialect import CallerDialect, ResponseMeta, StreamEditor
from providers.dialects.anthropic_messages import AnthropicMessages
from providers.dialects.aws.event_stream import encode_message
from providers.transport.response_stream import ResponseStream

_JSON = b"content-type: application/json\r\n"
# x-accel-buffering: nginx in front of us must not collect what is streamed.
_EVENT_STREAM = b"content-type: application/vnd.amazon.eventstream\r\ncache-control: no-cache\r\nx-accel-buffering: no\r\n"
_CHUNK_HEADERS = {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}
_ERROR = b"event: error\n"
_EXCEPTIONS = {
    400: "ValidationException",
    401: "UnrecognizedClientException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    413: "ValidationException",
    422: "ValidationException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
    504: "ModelTimeoutException",
}


class BedrockMessages(AnthropicMessages):
    """Messages for callers of Bedrock's runtime, whose errors have a message, and their type in a header or in the event's."""

    def write_error(self, error: NarthexError) -> bytes:
        written = msgspec.json.decode(super().write_error(error))
        return msgspec.json.encode({"message": written["error"]["message"]})


class BedrockSink(HttpResponseSink):
    """Writes each event of a stream as a message of an event stream, which has no keep-alives."""

    __slots__ = ()

    async def begin_stream(self, first: bytes) -> None:
        self.has_begun = True
        self.send = self._send_messages
        await self._call.begin_stream(200, _EVENT_STREAM + self._headers(), _write_messages(first))

    async def end_stream(self, last: bytes) -> None:
        await self._call.end_stream(_write_messages(last))

    async def replay(self, stored_response: StoredResponse) -> None:
        if not stored_response.streamed:
            await super().replay(stored_response)
            return
        self.has_begun = True
        headers = _EVENT_STREAM + b"x-narthex-replayed: true\r\n" + self._headers()
        await self._call.send_response(stored_response.status, headers, _write_messages(stored_response.body))

    async def send_error(self, error: NarthexError, body: bytes) -> None:
        self.has_begun = True
        headers = _JSON + b"x-amzn-errortype: %b\r\n" % _exception(error.status).encode() + self._error_headers(error)
        await self._call.send_response(error.status, headers + self._headers(include_served=False), body)

    def relay_at_once(self, blocks: ResponseStream, editor: StreamEditor, record: ExchangeRecord) -> None:
        """Does nothing: frames are not sent as they are."""

    def check_silence(self, now_s: float, longest_s: float, dialect: CallerDialect, meta: ResponseMeta) -> None:
        """Does nothing: an event stream has no place for what says nothing."""

    async def _send_messages(self, data: bytes) -> None:
        messages = _write_messages(data)
        if messages:
            await self._call.send(messages)


def _exception(status: int) -> str:
    return _EXCEPTIONS.get(status, "ModelErrorException" if status < 500 else "InternalServerException")


def _write_messages(frames: bytes) -> bytes:
    """Writes whole frames as messages: an event as a chunk, an error as an exception, which ends the stream."""
    return b"".join(_write_message(frame) for frame in frames.split(b"\n\n") if b"data: " in frame)


def _write_message(frame: bytes) -> bytes:
    data = frame.partition(b"data: ")[2]
    if not frame.startswith(_ERROR):
        return encode_message(_CHUNK_HEADERS, b'{"bytes":"%b"}' % base64.b64encode(data))
    fields = msgspec.json.decode(data)
    message = fields["error"]["message"] if "error" in fields else fields["message"]
    headers = {":exception-type": "modelStreamErrorException", ":content-type": "application/json", ":message-type": "exception"}
    return encode_message(headers, msgspec.json.encode({"message": message}))
