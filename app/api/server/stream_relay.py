"""StreamRelay: sends what an engine streams to its caller at once, as it arrives, without waking the task of the request."""

from typing import Protocol

from app.api.server.call_response import CallResponse
from providers.dialect import StreamEditor
from providers.transport.response_stream import ResponseStream

# An event of more than this is sent by the task, in pieces.
_MAX_EVENT_BYTES = 64 * 1024


class ResponseRecord(Protocol):
    """The part of app.gateway.state.stages.ExchangeRecord that gets a stream."""

    def append_response(self, data: bytes) -> None: ...


class StreamRelay:
    """Implements providers.transport.stream_parties.BlockReceiver for the stream of an engine.

    It takes blocks while the caller has room. The task goes on where the editor has come to the end or to a failure, and with each
    block that is not taken.
    """

    def __init__(self, call: CallResponse, stream: ResponseStream, editor: StreamEditor, record: ResponseRecord) -> None:
        self._call = call
        self._stream = stream
        self._editor = editor
        self._append_response = record.append_response
        self._unsent_bytes = 0  # that the editor was given since it last had something for the caller

    def take(self, block: bytes) -> bool:
        call, editor = self._call, self._editor
        has_ended = editor.done or editor.failure is not None or call.disconnected
        if has_ended or call.is_held_up or self._unsent_bytes > _MAX_EVENT_BYTES:
            return False
        data = editor.feed(block)
        if data:
            self._unsent_bytes = 0
            self._append_response(data)
            call.send_at_once(data)
        else:
            self._unsent_bytes += len(block)
        if editor.done or editor.failure is not None:
            self._stream.wake_reader()
        return True
