"""OpenAI's Responses, both ways: asks, edits of answers for callers who speak it too, meaning, and what came before."""

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from providers.chat import ChatRequest, ChatResponse
from providers.dialect import Ask, Concessions, Edited, Stamp
from providers.dialects.openai_responses.answers import read_response, write_response
from providers.dialects.openai_responses.asks import open_ask
from providers.dialects.openai_responses.conversation import (
    SEALED,
    final_of,
    input_items,
    listed_items,
    output_items,
    referred,
    resumed,
    stateless,
)
from providers.dialects.openai_responses.edits import StreamEditor, edit
from providers.dialects.openai_responses.items import ORIGIN
from providers.dialects.openai_responses.places import place
from providers.dialects.openai_responses.reader import EventReader
from providers.dialects.openai_responses.reading import read_request
from providers.dialects.openai_responses.writer import EventWriter
from providers.dialects.openai_responses.writing import write_request
from providers.envelope import openai_error
from providers.errors import NarthexError
from providers.media import Kind
from providers.wire import Body

__all__ = ["OpenAIResponses", "final_of", "input_items", "listed_items", "output_items", "referred", "resumed", "stateless"]


class OpenAIResponses:
    """See providers.dialect.ChatDialect, whose methods these are."""

    name: ClassVar[str] = ORIGIN
    words: ClassVar[Mapping[str, str]] = {
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
        "reasoning.seal": SEALED,
        "output.strict": "text.format.strict",
    }
    only_bytes: ClassVar[frozenset[Kind]] = frozenset({"audio"})

    def open(self, raw: bytes) -> Ask:
        return open_ask(raw)

    def edit(self, raw: bytes, stamp: Stamp) -> Edited:
        return edit(raw, stamp)

    def editor(self, stamp: Stamp) -> StreamEditor:
        return StreamEditor(stamp)

    def prepare(self, body: Body, stream: bool, *, tell_usage: bool) -> None:
        """Usage is always told. `stream` is said either way: transformers serve streams where it is not."""
        stateless(body)
        body.pop("previous_response_id", None)
        body["stream"] = stream
        if not stream:
            body.pop("stream_options", None)

    def write_error(self, error: NarthexError) -> bytes:
        return openai_error(error)

    def write_error_frame(self, error: NarthexError) -> bytes:
        """An `error` event. What came before it is not known here, and so not its number; no client goes by it."""
        told = {
            "type": "error",
            "code": error.code or error.kind,
            "message": error.message,
            "param": error.param,
            "sequence_number": 0,
        }
        return b"event: error\ndata: " + msgspec.json.encode(told) + b"\n\n"

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
