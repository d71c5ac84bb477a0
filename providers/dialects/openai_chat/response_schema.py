"""Chat completions and chunks as engines send them: OpenAI's fields and those that engines add, in one typed decode."""

import msgspec
from msgspec import Raw, Struct

from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.canonical.response_decoding import decode_repaired
from providers.canonical.tool_calls import new_call_id
from providers.canonical.upstream_errors import find_error


class Function(Struct):
    """A function call. `arguments` is an object if the engine has parsed it."""

    name: str | None = None
    arguments: str | dict[str, Raw] | None = None


class Custom(Struct):
    name: str | None = None
    input: str | None = None


class WireToolCall(Struct):
    index: int | None = None
    id: str | None = None
    function: Function | None = None
    custom: Custom | None = None
    extra_content: Raw = NULL


class ContentPiece(Struct):
    """An element of content that is a list. Mistral's `thinking` holds a list of them itself."""

    type: str = "text"
    text: str | None = None
    refusal: str | None = None
    thinking: "str | list[ContentPiece] | None" = None


class WireMessage(Struct):
    """A message or a delta: the fields are the same, complete or in pieces."""

    content: str | list[ContentPiece] | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    refusal: str | None = None
    tool_calls: list[WireToolCall] | None = None
    function_call: Function | None = None
    annotations: Raw = NULL
    reasoning_details: Raw = NULL


class Logprobs(Struct):
    content: list[Raw] | None = None


class WireChoice(Struct):
    """A choice. `text` belongs to completions, but some engines send it in a chat. `stop_reason` is vLLM's, `matched_stop` SGLang's.

    `error` is OpenRouter's, for a choice that failed.
    """

    index: int | None = 0
    message: WireMessage | None = None
    delta: WireMessage | None = None
    text: str | None = None
    finish_reason: str | None = None
    logprobs: Logprobs | None = None
    stop_reason: Raw = NULL
    matched_stop: Raw = NULL
    error: Raw = NULL


class WireResponse(Struct):
    """A chat completion or chunk. `search_results` and `citations` are Perplexity's (search_results.py)."""

    choices: list[WireChoice] | None = None
    model: str | None = ""
    created: int | float | None = None
    usage: Raw = NULL
    x_groq: Raw = NULL
    error: Raw = NULL
    search_results: Raw = NULL
    citations: Raw = NULL
    system_fingerprint: str | None = None
    service_tier: str | None = None


_decode_wire_response = msgspec.json.Decoder(WireResponse).decode


def decode_response(raw: bytes) -> WireResponse:
    """Decodes a complete response. Raises the error that it holds, or InvalidUpstreamResponse."""
    response = decode_chunk(raw)
    if response is None or response.choices is None:
        raise InvalidUpstreamResponse("The engine's answer has no choices.")
    return response


def decode_chunk(raw: bytes) -> WireResponse | None:
    """Decodes a chunk. None for an object that is none: it has neither choices nor usage. Raises as decode_response() does."""
    try:
        chunk = _decode_wire_response(raw)
    except DECODE_ERRORS:
        try:
            chunk = decode_repaired(raw, _decode_wire_response, "a chat completion")
        except InvalidUpstreamResponse:
            if Body.read_response(raw).has_value("choices"):
                raise
            return None
    if chunk.choices is None or (chunk.error is not NULL and chunk.error != NULL):
        error = find_error(Body.read_response(raw))
        if error is not None:
            raise error
        if chunk.choices is None and chunk.usage == NULL and chunk.x_groq == NULL:
            return None
    return chunk


def unix_seconds(created: int | float | None) -> int | None:
    """Whole seconds: transformers serve and others send a fraction."""
    return None if created is None else int(created)


def content_texts(content: str | list[ContentPiece] | None) -> list[tuple[str, str]]:
    """Pairs of kind (text, reasoning, refusal) and text. Other kinds, such as Mistral's references, hold no text and are dropped."""
    if content is None or isinstance(content, str):
        return [("text", content)] if content else []
    texts: list[tuple[str, str]] = []
    for piece in content:
        for kind, text in (("reasoning", _thinking_text(piece.thinking)), ("text", piece.text), ("refusal", piece.refusal)):
            if text:
                texts.append((kind, text))
    return texts


def _thinking_text(thinking: str | list[ContentPiece] | None) -> str:
    return thinking if isinstance(thinking, str) else "".join(piece.text or "" for piece in thinking or ())


def arguments_text(function: Function) -> str:
    value = function.arguments
    return value if isinstance(value, str) else "" if value is None else msgspec.json.encode(value).decode()


def call_id_or_new(engine_id: str | None) -> str:
    """The engine's id of a tool call, or a new one if it sent none."""
    return engine_id or new_call_id()
