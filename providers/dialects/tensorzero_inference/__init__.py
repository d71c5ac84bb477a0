"""TensorZero's native API, POST /inference. Only callers speak it."""

from collections.abc import Mapping
from typing import ClassVar

from providers.canonical.chat import ChatRequest, ChatResponse
from providers.canonical.errors import NarthexError
from providers.canonical.raw_json import Body
from providers.dialect import InboundRequest, ResponseMeta
from providers.dialects.tensorzero_inference.caller_path import caller_path
from providers.dialects.tensorzero_inference.dialect_name import DIALECT
from providers.dialects.tensorzero_inference.errors import write_error, write_error_frame
from providers.dialects.tensorzero_inference.parse_request import parse_request
from providers.dialects.tensorzero_inference.read_request import read_request
from providers.dialects.tensorzero_inference.read_response import read_response
from providers.dialects.tensorzero_inference.stream_reader import InferenceStreamReader
from providers.dialects.tensorzero_inference.stream_writer import InferenceStreamWriter
from providers.dialects.tensorzero_inference.write_response import write_response
from providers.keep_alive import COMMENTS, KeepAlive


class TensorZeroInference:
    """Implements providers.dialect.CallerChatDialect."""

    name: ClassVar[str] = DIALECT
    field_names: ClassVar[Mapping[str, str]] = {
        "stop": "stop_sequences",
        "output": "output_schema",
        "parallel_calls": "parallel_tool_calls",
        "thinking": "reasoning_effort",
        "thinking.effort": "reasoning_effort",
        "thinking.budget_tokens": "thinking_budget_tokens",
    }

    def parse_request(self, raw: bytes) -> InboundRequest:
        return parse_request(raw)

    def caller_path(self, body: Body, path: str) -> str:
        return caller_path(body, path)

    def read_request(self, body: Body) -> ChatRequest:
        return read_request(body)

    def read_response(self, raw: bytes) -> ChatResponse:
        return read_response(raw)

    def write_response(self, response: ChatResponse, meta: ResponseMeta) -> bytes:
        return write_response(response, meta)

    def stream_reader(self) -> InferenceStreamReader:
        return InferenceStreamReader()

    def stream_writer(self, meta: ResponseMeta) -> InferenceStreamWriter:
        return InferenceStreamWriter(meta)

    def write_error(self, error: NarthexError) -> bytes:
        return write_error(error)

    def write_error_frame(self, error: NarthexError) -> bytes:
        return write_error_frame(error)

    def keep_alive(self, meta: ResponseMeta) -> KeepAlive:
        return COMMENTS
