"""Google's generateContent: of callers such as Google's SDKs and the Gemini CLI, and of Gemini models at AI Studio and Vertex AI."""

from collections.abc import Mapping
from typing import ClassVar

from providers.canonical.chat import ChatRequest, ChatResponse
from providers.canonical.errors import NarthexError
from providers.canonical.media import MediaKind
from providers.canonical.raw_json import Body
from providers.dialect import InboundRequest, OutboundResponse, ResponseMeta
from providers.dialects.gemini.caller_path import caller_path
from providers.dialects.gemini.edit import GeminiStreamEditor, edit_response
from providers.dialects.gemini.errors import write_error, write_error_frame
from providers.dialects.gemini.parse_request import parse_request
from providers.dialects.gemini.read_request import read_request
from providers.dialects.gemini.read_response import read_response
from providers.dialects.gemini.stream_reader import GeminiStreamReader
from providers.dialects.gemini.stream_writer import GeminiStreamWriter
from providers.dialects.gemini.write_request import write_request
from providers.dialects.gemini.write_response import write_response
from providers.drop_policy import DropPolicy
from providers.keep_alive import COMMENTS, KeepAlive

_CONFIG = "generationConfig"


class Gemini:
    """Implements providers.dialect.ChatDialect. `chat.model` must be the host's name of a model, on which the rules depend.

    The address of a request names the model and says whether to stream. The route of callers writes both into the body.
    """

    name: ClassVar[str] = "gemini"
    field_names: ClassVar[Mapping[str, str]] = {
        "max_tokens": f"{_CONFIG}.maxOutputTokens",
        "temperature": f"{_CONFIG}.temperature",
        "top_p": f"{_CONFIG}.topP",
        "top_k": f"{_CONFIG}.topK",
        "seed": f"{_CONFIG}.seed",
        "n": f"{_CONFIG}.candidateCount",
        "stop": f"{_CONFIG}.stopSequences",
        "frequency_penalty": f"{_CONFIG}.frequencyPenalty",
        "presence_penalty": f"{_CONFIG}.presencePenalty",
        "logprobs": f"{_CONFIG}.responseLogprobs",
        "top_logprobs": f"{_CONFIG}.logprobs",
        "output": f"{_CONFIG}.responseJsonSchema",
        "thinking": f"{_CONFIG}.thinkingConfig",
        "thinking.effort": f"{_CONFIG}.thinkingConfig.thinkingLevel",
        "thinking.budget_tokens": f"{_CONFIG}.thinkingConfig.thinkingBudget",
        "thinking.summary": f"{_CONFIG}.thinkingConfig.includeThoughts",
        "tool_choice": "toolConfig.functionCallingConfig",
        "metadata": "labels",
        "service_tier": "serviceTier",
        "reasoning": "thought",
        "reasoning.signature": "thoughtSignature",
    }
    inline_media_kinds: ClassVar[frozenset[MediaKind]] = frozenset()

    def parse_request(self, raw: bytes) -> InboundRequest:
        return parse_request(raw)

    def edit_response(self, raw: bytes, meta: ResponseMeta) -> OutboundResponse:
        return edit_response(raw, meta)

    def stream_editor(self, meta: ResponseMeta) -> GeminiStreamEditor:
        return GeminiStreamEditor(meta)

    def prepare_upstream_body(self, body: Body, stream: bool, *, include_usage: bool) -> None:
        """Removes what the address says. Usage is always reported."""
        body.pop("stream", None)

    def caller_path(self, body: Body, path: str) -> str:
        return caller_path(body, path)

    def read_request(self, body: Body) -> ChatRequest:
        return read_request(body)

    def write_request(self, chat: ChatRequest, drop_policy: DropPolicy) -> Body:
        """The body has no model: that is part of the URL."""
        return write_request(chat, drop_policy)

    def read_response(self, raw: bytes) -> ChatResponse:
        return read_response(raw)

    def write_response(self, response: ChatResponse, meta: ResponseMeta) -> bytes:
        return write_response(response, meta)

    def stream_reader(self) -> GeminiStreamReader:
        return GeminiStreamReader()

    def stream_writer(self, meta: ResponseMeta) -> GeminiStreamWriter:
        return GeminiStreamWriter(meta)

    def write_error(self, error: NarthexError) -> bytes:
        return write_error(error)

    def write_error_frame(self, error: NarthexError) -> bytes:
        return write_error_frame(error)

    def keep_alive(self, meta: ResponseMeta) -> KeepAlive:
        return COMMENTS
