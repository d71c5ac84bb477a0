"""Checks that a body or a stream is what typed clients accept: the official SDK's models, validated strictly, and the published schemas.

The SDKs themselves do not validate what they return. Clients in languages with closed enums and required fields do.
"""

import json
from functools import cache
from typing import Any, get_args

from anthropic.types import Message, MessageTokensCount, ModelInfo, RawMessageStreamEvent
from google.genai.types import GenerateContentResponse
from msgspec import Struct
from openai.types import Completion, CreateEmbeddingResponse, Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter, ValidationError

from tests.conformance.published_schemas import ANTHROPIC, OPENAI, schema_errors
from tests.conformance.sdk_responses import event_payloads

# Google publishes no document for generated clients: its SDK's types alone count.
GOOGLE = "google"


class Shape(Struct, frozen=True):
    """The type of an SDK, and the name of the vendor's schema for it."""

    model: Any
    adapter: TypeAdapter[Any]
    vendor: str
    schema: str


def _shape(model: Any, vendor: str, schema: str) -> Shape:
    return Shape(model, TypeAdapter(model), vendor, schema)


_COMPLETION = _shape(Completion, OPENAI, "CreateCompletionResponse")
# By the name of the caller's dialect: of a complete response, and of each event of a stream.
COMPLETE: dict[str, Shape] = {
    "openai_chat": _shape(ChatCompletion, OPENAI, "CreateChatCompletionResponse"),
    "openai_completions": _COMPLETION,
    "openai_responses": _shape(Response, OPENAI, "Response"),
    "openai_embeddings": _shape(CreateEmbeddingResponse, OPENAI, "CreateEmbeddingResponse"),
    "anthropic_messages": _shape(Message, ANTHROPIC, "Message"),
    "gemini": _shape(GenerateContentResponse, GOOGLE, ""),
    "anthropic_count_tokens": _shape(MessageTokensCount, ANTHROPIC, "CountMessageTokensResponse"),
}
STREAMED: dict[str, Shape] = {
    "openai_chat": _shape(ChatCompletionChunk, OPENAI, "CreateChatCompletionStreamResponse"),
    "openai_completions": _COMPLETION,
    "openai_responses": _shape(ResponseStreamEvent, OPENAI, "ResponseStreamEvent"),
    "anthropic_messages": _shape(RawMessageStreamEvent, ANTHROPIC, "MessageStreamEvent"),
    "gemini": _shape(GenerateContentResponse, GOOGLE, ""),
}
OPENAI_MODEL = _shape(Model, OPENAI, "Model")
ANTHROPIC_MODEL = _shape(ModelInfo, ANTHROPIC, "ModelInfo")


def shape_errors(shape: Shape, value: Any, *, written_by_engine: bool = False) -> list[str]:
    """Returns what a strict client holds against a value.

    `written_by_engine` means that the bytes pass unchanged to callers of the engine's own API. Engines leave out fields that may be null,
    or the other way round; so do Anthropic's own responses.
    """
    try:
        _alternative(shape, value).validate_json(json.dumps(value), strict=True)
        refused_by_sdk: list[str] = []
    except ValidationError as error:
        refused_by_sdk = [f"SDK: {'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
    if shape.vendor == GOOGLE:
        return refused_by_sdk
    lenient = written_by_engine or shape.vendor == ANTHROPIC
    return refused_by_sdk + schema_errors(shape.vendor, shape.schema, value, lenient=lenient)


@cache
def _alternatives(shape: Shape) -> dict[str, TypeAdapter[Any]]:
    """Returns the types of a union by their `type`, which gives plain errors; none if the shape is no union."""
    members = get_args(get_args(shape.model)[0]) if get_args(shape.model) else ()
    return {kind: TypeAdapter(member) for member in members for kind in get_args(member.model_fields["type"].annotation)}


def _alternative(shape: Shape, value: Any) -> TypeAdapter[Any]:
    return _alternatives(shape).get(value.get("type"), shape.adapter)


def response_errors(caller: str, body: bytes, *, streamed: bool, written_by_engine: bool = False) -> list[str]:
    """Returns what a strict client holds against a complete response, or against the events of a stream."""
    if not streamed:
        return shape_errors(COMPLETE[caller], json.loads(body), written_by_engine=written_by_engine)
    events = [_typed(caller, each) for each in event_payloads(body) if not _is_beyond_the_types(caller, each)]
    return [each for event in events for each in shape_errors(STREAMED[caller], event, written_by_engine=written_by_engine)]


def _is_beyond_the_types(caller: str, event: Any) -> bool:
    """Returns whether the APIs send this event although the types of no SDK have it: a ping, or a streamed call of a custom tool."""
    match caller:
        case "anthropic_messages":
            return event["type"] == "ping"
        case "openai_chat":
            return any(call.get("type") == "custom" for choice in event["choices"] for call in choice["delta"].get("tool_calls") or ())
        case _:
            return False


def _typed(caller: str, event: Any) -> Any:
    """A chunk of a completion has no finish reason before the last one, where its types have the reasons alone."""
    if caller != "openai_completions":
        return event
    return {**event, "choices": [{**choice, "finish_reason": choice.get("finish_reason") or "stop"} for choice in event["choices"]]}
