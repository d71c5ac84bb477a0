"""OpenAI's completions, both ways: a raw prompt and the text that goes on from it."""

from collections.abc import Mapping
from typing import ClassVar

from providers.chat import ChatRequest, ChatResponse
from providers.dialect import Ask, Concessions, Edited, Stamp
from providers.dialects.openai_completions.answers import read_response, write_response
from providers.dialects.openai_completions.asks import open_ask
from providers.dialects.openai_completions.chunks import CompletionReader, CompletionWriter
from providers.dialects.openai_completions.edits import chunk_editor, edit
from providers.dialects.openai_completions.requests import WORDS, read_request, write_request
from providers.envelope import openai_error
from providers.errors import NarthexError
from providers.media import Kind
from providers.openai_stream import StreamEditor, prepare
from providers.wire import Body, frame


class OpenAICompletions:
    """See providers.dialect.ChatDialect, whose methods these are."""

    name: ClassVar[str] = "openai_completions"
    words: ClassVar[Mapping[str, str]] = WORDS
    only_bytes: ClassVar[frozenset[Kind]] = frozenset()

    def open(self, raw: bytes) -> Ask:
        return open_ask(raw)

    def edit(self, raw: bytes, stamp: Stamp) -> Edited:
        return edit(raw, stamp)

    def editor(self, stamp: Stamp) -> StreamEditor:
        return chunk_editor(stamp)

    def prepare(self, body: Body, stream: bool, *, tell_usage: bool) -> None:
        prepare(body, stream, tell_usage=tell_usage)

    def place(self, body: Body, path: str) -> str:
        return path

    def read_request(self, body: Body) -> ChatRequest:
        return read_request(body)

    def write_request(self, chat: ChatRequest, concessions: Concessions) -> Body:
        return write_request(chat, concessions)

    def read_response(self, raw: bytes) -> ChatResponse:
        return read_response(raw)

    def write_response(self, answer: ChatResponse, stamp: Stamp) -> bytes:
        return write_response(answer, stamp)

    def reader(self) -> CompletionReader:
        return CompletionReader()

    def writer(self, stamp: Stamp) -> CompletionWriter:
        return CompletionWriter(stamp)

    def write_error(self, error: NarthexError) -> bytes:
        return openai_error(error)

    def write_error_frame(self, error: NarthexError) -> bytes:
        return frame(openai_error(error))
