"""OpenAI's chat completions, both ways: asks, answers and streams, edited for who speaks it too, and as meaning for who does not."""

from collections.abc import Mapping
from typing import ClassVar

from providers.chat import ChatRequest, ChatResponse
from providers.dialect import Ask, Concessions, Edited, Stamp
from providers.dialects.openai_chat.answers import read_response, write_response
from providers.dialects.openai_chat.asks import open_ask
from providers.dialects.openai_chat.chunk_reader import ChunkReader
from providers.dialects.openai_chat.chunk_writer import ChunkWriter
from providers.dialects.openai_chat.edits import chunk_editor, edit
from providers.dialects.openai_chat.places import place
from providers.dialects.openai_chat.reading import WORDS, read_request
from providers.dialects.openai_chat.writing import write_request
from providers.envelope import openai_error
from providers.errors import NarthexError
from providers.media import Kind
from providers.openai_stream import StreamEditor, prepare
from providers.wire import Body, frame


class OpenAIChat:
    """See providers.dialect.ChatDialect, whose methods these are."""

    name: ClassVar[str] = "openai_chat"
    words: ClassVar[Mapping[str, str]] = WORDS
    only_bytes: ClassVar[frozenset[Kind]] = frozenset({"file", "audio"})

    def open(self, raw: bytes) -> Ask:
        return open_ask(raw)

    def edit(self, raw: bytes, stamp: Stamp) -> Edited:
        return edit(raw, stamp)

    def editor(self, stamp: Stamp) -> StreamEditor:
        return chunk_editor(stamp)

    def prepare(self, body: Body, stream: bool, *, tell_usage: bool) -> None:
        prepare(body, stream, tell_usage=tell_usage)

    def place(self, body: Body, path: str) -> str:
        return place(body["messages"], path) if body.said("messages") else path

    def read_request(self, body: Body) -> ChatRequest:
        return read_request(body)

    def write_request(self, chat: ChatRequest, concessions: Concessions) -> Body:
        return write_request(chat, concessions)

    def read_response(self, raw: bytes) -> ChatResponse:
        return read_response(raw)

    def write_response(self, answer: ChatResponse, stamp: Stamp) -> bytes:
        return write_response(answer, stamp)

    def reader(self) -> ChunkReader:
        return ChunkReader()

    def writer(self, stamp: Stamp) -> ChunkWriter:
        return ChunkWriter(stamp)

    def write_error(self, error: NarthexError) -> bytes:
        return openai_error(error)

    def write_error_frame(self, error: NarthexError) -> bytes:
        return frame(openai_error(error))
