"""StreamRelay: sends what an engine streams to its caller at once, as it arrives, without waking the task of the request."""

from typing import Protocol

from app.api.server.call_response import CallResponse
from providers import wire
from providers.dialect import StreamEditor
from providers.dialects.openai.stream_editor import OpenAIStreamEditor
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
        self._text_editor = editor if isinstance(editor, OpenAIStreamEditor) else None
        self._append_response = record.append_response
        self._unsent_bytes = 0  # that the editor was given since it last had something for the caller

    def take_chunks(self, data: bytes) -> bool:
        call, editor = self._call, self._text_editor
        if editor is None or call.disconnected or not call.is_chunked_stream:
            return False
        template, connection, decoder = editor.relay_template, call.connection, editor.sse_decoder
        if template is None or connection.flow.write_paused:
            return False
        relayed = wire.relay(data, decoder.rest, template.before, template.after, template.prefix, template.has_deltas)
        if relayed is None:
            return False
        chunks, frames, decoder.rest, written_bytes = relayed
        if frames:
            self._unsent_bytes = 0
            editor.written_bytes += written_bytes
            call.last_sent = frames
            self._append_response(frames)
            if connection.loop_transport in connection.write_batcher.pending:
                connection.write_at_once(chunks)
            else:
                connection.loop_transport.write(chunks)
        return True

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
