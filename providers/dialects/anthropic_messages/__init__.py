"""Anthropic's Messages, both ways: asks, edits of answers for callers who speak it too, and both as meaning."""

from collections.abc import Mapping
from typing import ClassVar

from providers.anthropic_asks import open_messages
from providers.anthropic_errors import write_error, write_error_frame
from providers.chat import ChatRequest, ChatResponse
from providers.dialect import Ask, Concessions, Edited, Stamp
from providers.dialects.anthropic_messages.answers import edit, read_response, write_response
from providers.dialects.anthropic_messages.edits import EventEditor
from providers.dialects.anthropic_messages.places import place
from providers.dialects.anthropic_messages.read_asks import read_request
from providers.dialects.anthropic_messages.reader import EventReader
from providers.dialects.anthropic_messages.write_asks import write_request
from providers.dialects.anthropic_messages.writer import EventWriter
from providers.errors import NarthexError
from providers.media import Kind
from providers.wire import Body


class AnthropicMessages:
    """See providers.dialect.ChatDialect, whose methods these are."""

    name: ClassVar[str] = "anthropic_messages"
    words: ClassVar[Mapping[str, str]] = {
        "stop": "stop_sequences",
        "output": "output_config.format",
        "user": "metadata.user_id",
        "parallel_calls": "tool_choice.disable_parallel_tool_use",
        "thinking.effort": "output_config.effort",
        "thinking.summary": "thinking.display",
        "reasoning": "thinking",
        "reasoning.seal": "thinking.signature",
    }
    only_bytes: ClassVar[frozenset[Kind]] = frozenset()

    def open(self, raw: bytes) -> Ask:
        return open_messages(raw)

    def edit(self, raw: bytes, stamp: Stamp) -> Edited:
        return edit(raw, stamp)

    def editor(self, stamp: Stamp) -> EventEditor:
        return EventEditor(stamp)

    def prepare(self, body: Body, stream: bool, *, tell_usage: bool) -> None:
        """Usage is always told."""
        if stream:
            body["stream"] = True
        else:
            body.pop("stream", None)

    def place(self, body: Body, path: str) -> str:
        return place(body, path)

    def read_request(self, body: Body) -> ChatRequest:
        return read_request(body)

    def write_request(self, chat: ChatRequest, concessions: Concessions) -> Body:
        return write_request(chat, concessions)

    def read_response(self, raw: bytes) -> ChatResponse:
        return read_response(raw)

    def write_response(self, answer: ChatResponse, stamp: Stamp) -> bytes:
        return write_response(answer, stamp)

    def reader(self) -> EventReader:
        return EventReader()

    def writer(self, stamp: Stamp) -> EventWriter:
        return EventWriter(stamp)

    def write_error(self, error: NarthexError) -> bytes:
        return write_error(error)

    def write_error_frame(self, error: NarthexError) -> bytes:
        return write_error_frame(error)
