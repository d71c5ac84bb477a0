"""OpenAI's chat completions, both ways: asks, edits of answers for callers who speak it too, and answers as meaning."""

from typing import Any, ClassVar

import msgspec

from providers.chat import ChatResponse
from providers.dialect import Ask, Edited, Stamp
from providers.dialects.openai_chat.answers import ChunkReader, ChunkWriter, read_response, write_response
from providers.dialects.openai_chat.asks import open_ask
from providers.dialects.openai_chat.edits import StreamEditor, edit
from providers.errors import NarthexError
from providers.wire import frame


class OpenAIChat:
    """See providers.dialect.Dialect, whose methods these are."""

    name: ClassVar[str] = "openai_chat"

    def open(self, raw: bytes) -> Ask:
        return open_ask(raw)

    def edit(self, raw: bytes, stamp: Stamp) -> Edited:
        return edit(raw, stamp)

    def editor(self, stamp: Stamp) -> StreamEditor:
        return StreamEditor(stamp)

    def read_response(self, raw: bytes) -> ChatResponse:
        return read_response(raw)

    def write_response(self, answer: ChatResponse, stamp: Stamp) -> bytes:
        return write_response(answer, stamp)

    def reader(self) -> ChunkReader:
        return ChunkReader()

    def writer(self, stamp: Stamp) -> ChunkWriter:
        return ChunkWriter(stamp)

    def write_error(self, error: NarthexError) -> bytes:
        """The hosted gateway's envelope: `code` is the HTTP status as a number, unless there is a word that says more."""
        told: dict[str, Any] = {"message": error.message, "type": error.kind, "code": error.code or error.status, "param": error.param}
        if error.details:
            told["details"] = error.details
        return msgspec.json.encode({"error": told})

    def write_error_frame(self, error: NarthexError) -> bytes:
        return frame(self.write_error(error))
