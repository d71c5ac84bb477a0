"""Anthropic's Messages API, /v1/messages, for callers and engines."""

from collections.abc import Mapping
from typing import ClassVar

from providers.canonical.chat import ChatRequest, ChatResponse
from providers.canonical.errors import NarthexError
from providers.canonical.media import MediaKind
from providers.canonical.raw_json import Body
from providers.dialect import InboundRequest, OutboundResponse, ResponseMeta
from providers.dialects.anthropic.errors import write_error, write_error_frame
from providers.dialects.anthropic.parse_request import parse_messages_request
from providers.dialects.anthropic_messages.caller_path import caller_path
from providers.dialects.anthropic_messages.edit import MessagesStreamEditor, edit_response
from providers.dialects.anthropic_messages.read_request import read_request
from providers.dialects.anthropic_messages.read_response import read_response
from providers.dialects.anthropic_messages.stream_reader import MessagesStreamReader
from providers.dialects.anthropic_messages.stream_writer import MessagesStreamWriter
from providers.dialects.anthropic_messages.write_request import write_request
from providers.dialects.anthropic_messages.write_response import write_response
from providers.drop_policy import DropPolicy
from providers.keep_alive import ConstantKeepAlive, KeepAlive

# As Anthropic sends them, at any place: https://docs.claude.com/en/api/messages-streaming#ping-events, read 2026-11.
_PINGS = ConstantKeepAlive(b'event: ping\ndata: {"type": "ping"}\n\n')


class AnthropicMessages:
    """Implements providers.dialect.ChatDialect."""

    name: ClassVar[str] = "anthropic_messages"
    field_names: ClassVar[Mapping[str, str]] = {
        "stop": "stop_sequences",
        "output": "output_config.format",
        "user": "metadata.user_id",
        "parallel_calls": "tool_choice.disable_parallel_tool_use",
        "thinking.effort": "output_config.effort",
        "thinking.summary": "thinking.display",
        "reasoning": "thinking",
        "reasoning.signature": "thinking.signature",
    }
    inline_media_kinds: ClassVar[frozenset[MediaKind]] = frozenset()

    def parse_request(self, raw: bytes) -> InboundRequest:
        return parse_messages_request(raw)

    def edit_response(self, raw: bytes, meta: ResponseMeta) -> OutboundResponse:
        return edit_response(raw, meta)

    def stream_editor(self, meta: ResponseMeta) -> MessagesStreamEditor:
        return MessagesStreamEditor(meta)

    def prepare_upstream_body(self, body: Body, stream: bool, *, include_usage: bool) -> None:
        """Sets `stream`. Usage is always reported."""
        if stream:
            body["stream"] = True
        else:
            body.pop("stream", None)

    def caller_path(self, body: Body, path: str) -> str:
        return caller_path(body, path)

    def read_request(self, body: Body) -> ChatRequest:
        return read_request(body)

    def write_request(self, chat: ChatRequest, drop_policy: DropPolicy) -> Body:
        return write_request(chat, drop_policy)

    def read_response(self, raw: bytes) -> ChatResponse:
        return read_response(raw)

    def write_response(self, response: ChatResponse, meta: ResponseMeta) -> bytes:
        return write_response(response, meta)

    def stream_reader(self) -> MessagesStreamReader:
        return MessagesStreamReader()

    def stream_writer(self, meta: ResponseMeta) -> MessagesStreamWriter:
        return MessagesStreamWriter(meta)

    def write_error(self, error: NarthexError) -> bytes:
        return write_error(error)

    def write_error_frame(self, error: NarthexError) -> bytes:
        return write_error_frame(error)

    def keep_alive(self, meta: ResponseMeta) -> KeepAlive:
        return _PINGS
