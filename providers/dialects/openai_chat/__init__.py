"""OpenAI's chat completions: requests, responses and streams, edited for engines of this dialect and translated for all others."""

from collections.abc import Mapping
from typing import ClassVar

from providers.canonical.chat import ChatRequest, ChatResponse
from providers.canonical.errors import NarthexError
from providers.canonical.media import MediaKind
from providers.canonical.raw_json import Body
from providers.canonical.sse import sse_frame
from providers.dialect import InboundRequest, OutboundResponse, ResponseMeta
from providers.dialects.openai.errors import write_error_envelope
from providers.dialects.openai.stream_editor import OpenAIStreamEditor
from providers.dialects.openai.upstream_body import prepare_upstream_body
from providers.dialects.openai_chat.caller_path import caller_path
from providers.dialects.openai_chat.dialect_name import DIALECT
from providers.dialects.openai_chat.edit import edit_response, stream_editor
from providers.dialects.openai_chat.parse_request import parse_request
from providers.dialects.openai_chat.read_request import FIELD_NAMES, read_request
from providers.dialects.openai_chat.read_response import read_response
from providers.dialects.openai_chat.stream_reader import ChatStreamReader
from providers.dialects.openai_chat.stream_writer import ChatStreamWriter
from providers.dialects.openai_chat.write_request import write_request
from providers.dialects.openai_chat.write_response import write_response
from providers.drop_policy import DropPolicy
from providers.keep_alive import COMMENTS, KeepAlive


class OpenAIChat:
    """OpenAI chat. The methods are documented in providers.dialect.ChatDialect."""

    name: ClassVar[str] = DIALECT
    field_names: ClassVar[Mapping[str, str]] = FIELD_NAMES
    inline_media_kinds: ClassVar[frozenset[MediaKind]] = frozenset({"file", "audio"})

    def parse_request(self, raw: bytes) -> InboundRequest:
        return parse_request(raw)

    def edit_response(self, raw: bytes, meta: ResponseMeta) -> OutboundResponse:
        return edit_response(raw, meta)

    def stream_editor(self, meta: ResponseMeta) -> OpenAIStreamEditor:
        return stream_editor(meta)

    def prepare_upstream_body(self, body: Body, stream: bool, *, include_usage: bool) -> None:
        prepare_upstream_body(body, stream, include_usage=include_usage)

    def caller_path(self, body: Body, path: str) -> str:
        return caller_path(body["messages"], path) if body.has_value("messages") else path

    def read_request(self, body: Body) -> ChatRequest:
        return read_request(body)

    def write_request(self, chat: ChatRequest, drop_policy: DropPolicy) -> Body:
        return write_request(chat, drop_policy)

    def read_response(self, raw: bytes) -> ChatResponse:
        return read_response(raw)

    def write_response(self, response: ChatResponse, meta: ResponseMeta) -> bytes:
        return write_response(response, meta)

    def stream_reader(self) -> ChatStreamReader:
        return ChatStreamReader()

    def stream_writer(self, meta: ResponseMeta) -> ChatStreamWriter:
        return ChatStreamWriter(meta)

    def write_error(self, error: NarthexError) -> bytes:
        return write_error_envelope(error)

    def write_error_frame(self, error: NarthexError) -> bytes:
        return sse_frame(write_error_envelope(error))

    def keep_alive(self, meta: ResponseMeta) -> KeepAlive:
        return COMMENTS
