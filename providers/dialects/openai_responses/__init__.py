"""OpenAI's Responses: requests, responses and streams, edited or translated, and the items of earlier turns."""

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from providers.canonical.chat import ChatRequest, ChatResponse
from providers.canonical.errors import NarthexError
from providers.canonical.media import MediaKind
from providers.canonical.raw_json import Body
from providers.dialect import InboundRequest, OutboundResponse, ResponseMeta
from providers.dialects.openai.errors import write_error_envelope
from providers.dialects.openai_responses.caller_path import caller_path
from providers.dialects.openai_responses.dialect_name import DIALECT
from providers.dialects.openai_responses.edit import ResponsesStreamEditor, edit_response
from providers.dialects.openai_responses.include_values import ENCRYPTED_REASONING
from providers.dialects.openai_responses.input_item_listing import write_input_items
from providers.dialects.openai_responses.input_items import has_context_items, list_input_items, prepend_items
from providers.dialects.openai_responses.item_ids import compaction_item_id, referenced_item_id
from providers.dialects.openai_responses.keep_alive import ResponsesKeepAlive
from providers.dialects.openai_responses.parse_request import parse_request
from providers.dialects.openai_responses.read_request import read_request, tool_paths
from providers.dialects.openai_responses.read_response import read_response
from providers.dialects.openai_responses.stored_responses import final_response, output_items
from providers.dialects.openai_responses.stream_reader import ResponsesStreamReader
from providers.dialects.openai_responses.stream_writer import ResponsesStreamWriter
from providers.dialects.openai_responses.upstream_body import make_stateless, prepare_upstream_body, remove_encrypted_reasoning
from providers.dialects.openai_responses.write_request import write_request
from providers.dialects.openai_responses.write_response import write_response
from providers.drop_policy import DropPolicy
from providers.keep_alive import KeepAlive

__all__ = [
    "OpenAIResponses",
    "compaction_item_id",
    "final_response",
    "has_context_items",
    "list_input_items",
    "make_stateless",
    "output_items",
    "prepend_items",
    "referenced_item_id",
    "remove_encrypted_reasoning",
    "tool_paths",
    "write_input_items",
]


class OpenAIResponses:
    """OpenAI Responses. The methods are documented in providers.dialect.ChatDialect."""

    name: ClassVar[str] = DIALECT
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
        "reasoning.signature": ENCRYPTED_REASONING,
        "output.strict": "text.format.strict",
    }
    inline_media_kinds: ClassVar[frozenset[MediaKind]] = frozenset({"audio"})

    def parse_request(self, raw: bytes) -> InboundRequest:
        return parse_request(raw)

    def edit_response(self, raw: bytes, meta: ResponseMeta) -> OutboundResponse:
        return edit_response(raw, meta)

    def stream_editor(self, meta: ResponseMeta) -> ResponsesStreamEditor:
        return ResponsesStreamEditor(meta)

    def prepare_upstream_body(self, body: Body, stream: bool, *, include_usage: bool) -> None:
        prepare_upstream_body(body, stream)

    def write_error(self, error: NarthexError) -> bytes:
        return write_error_envelope(error)

    def write_error_frame(self, error: NarthexError) -> bytes:
        """An `error` event. Its sequence number is 0, as the events before it are not known here; no client uses it."""
        event = {
            "type": "error",
            "code": error.code or error.kind,
            "message": error.message,
            "param": error.param,
            "sequence_number": 0,
        }
        return b"event: error\ndata: " + msgspec.json.encode(event) + b"\n\n"

    def keep_alive(self, meta: ResponseMeta) -> KeepAlive:
        return ResponsesKeepAlive(meta)

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

    def stream_reader(self) -> ResponsesStreamReader:
        return ResponsesStreamReader()

    def stream_writer(self, meta: ResponseMeta) -> ResponsesStreamWriter:
        return ResponsesStreamWriter(meta)
