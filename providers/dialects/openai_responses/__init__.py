"""OpenAI's Responses, both ways: asks, edits of answers for callers who speak it too, meaning, and what came before."""

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from providers.canonical.chat import ChatRequest, ChatResponse
from providers.canonical.errors import NarthexError
from providers.canonical.media import MediaKind
from providers.canonical.raw_json import Body
from providers.dialect import DropPolicy, InboundRequest, OutboundResponse, ResponseMeta
from providers.dialects.openai.errors import write_error_envelope
from providers.dialects.openai_responses.caller_path import caller_path
from providers.dialects.openai_responses.conversation_items import (
    ENCRYPTED_REASONING,
    final_response,
    list_input_items,
    make_stateless,
    output_items,
    prepend_items,
    referenced_item_id,
    write_input_items,
)
from providers.dialects.openai_responses.edit import ResponsesStreamEditor, edit_response
from providers.dialects.openai_responses.parse_request import parse_request
from providers.dialects.openai_responses.read_request import read_request
from providers.dialects.openai_responses.read_response import read_response, write_response
from providers.dialects.openai_responses.response_items import ORIGIN
from providers.dialects.openai_responses.stream_reader import ResponsesStreamReader
from providers.dialects.openai_responses.stream_writer import ResponsesStreamWriter
from providers.dialects.openai_responses.write_request import write_request

__all__ = [
    "OpenAIResponses",
    "final_response",
    "list_input_items",
    "make_stateless",
    "output_items",
    "prepend_items",
    "referenced_item_id",
    "write_input_items",
]


class OpenAIResponses:
    """See providers.dialect.ChatDialect, whose methods these are."""

    name: ClassVar[str] = ORIGIN
    field_names: ClassVar[Mapping[str, str]] = {
        "messages": "input",
        "max_tokens": "max_output_tokens",
        "parallel_calls": "parallel_tool_calls",
        "output": "text.format",
        "verbosity": "text.verbosity",
        "thinking": "reasoning",
        "thinking.effort": "reasoning.effort",
        "thinking.summary": "reasoning.summary",
        "logprobs": "include",
        "cache_key": "prompt_cache_key",
        "reasoning.seal": ENCRYPTED_REASONING,
        "output.strict": "text.format.strict",
    }
    inline_media_kinds: ClassVar[frozenset[MediaKind]] = frozenset({"audio"})

    def parse_request(self, raw: bytes) -> InboundRequest:
        return parse_request(raw)

    def edit_response(self, raw: bytes, meta: ResponseMeta) -> OutboundResponse:
        return edit_response(raw, meta)

    def stream_editor(self, meta: ResponseMeta) -> ResponsesStreamEditor:
        return ResponsesStreamEditor(meta)

    def prepare_upstream_body(self, body: Body, stream: bool, *, tell_usage: bool) -> None:
        """Usage is always told. `stream` is said either way: transformers serve streams where it is not."""
        make_stateless(body)
        body.pop("previous_response_id", None)
        body["stream"] = stream
        if not stream:
            body.pop("stream_options", None)

    def write_error(self, error: NarthexError) -> bytes:
        return write_error_envelope(error)

    def write_error_frame(self, error: NarthexError) -> bytes:
        """An `error` event. What came before it is not known here, and so not its number; no client goes by it."""
        event = {
            "type": "error",
            "code": error.code or error.kind,
            "message": error.message,
            "param": error.param,
            "sequence_number": 0,
        }
        return b"event: error\ndata: " + msgspec.json.encode(event) + b"\n\n"

    def caller_path(self, body: Body, path: str) -> str:
        return caller_path(body, path)

    def read_request(self, body: Body) -> ChatRequest:
        return read_request(body)

    def write_request(self, chat: ChatRequest, drop_policy: DropPolicy) -> Body:
        return write_request(chat, drop_policy)

    def read_response(self, raw: bytes) -> ChatResponse:
        return read_response(raw)

    def write_response(self, answer: ChatResponse, meta: ResponseMeta) -> bytes:
        return write_response(answer, meta)

    def stream_reader(self) -> ResponsesStreamReader:
        return ResponsesStreamReader()

    def stream_writer(self, meta: ResponseMeta) -> ResponsesStreamWriter:
        return ResponsesStreamWriter(meta)
