"""Answers as they stand on the wire, in OpenAI's shape and in the shapes that engines make of it: one typed decode for each."""

import uuid

import msgspec
from msgspec import Raw, Struct

from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body, repair_unicode
from providers.canonical.upstream_errors import find_error


class Function(Struct):
    """`arguments`: an object to engines that have parsed them already."""

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
    """Of content told as a list: `thinking` of Mistral's holds pieces in its turn."""

    type: str = "text"
    text: str | None = None
    refusal: str | None = None
    thinking: "str | list[ContentPiece] | None" = None


class WireMessage(Struct):
    """A message or a delta: the same fields, whole or in pieces."""

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
    """`text` is a completion's, which some engines say in a chat. `stop_reason` is vLLM's, `matched_stop` SGLang's."""

    index: int | None = 0
    message: WireMessage | None = None
    delta: WireMessage | None = None
    text: str | None = None
    finish_reason: str | None = None
    logprobs: Logprobs | None = None
    stop_reason: Raw = NULL
    matched_stop: Raw = NULL


class WireResponse(Struct):
    """`search_results` and `citations` are Perplexity's (sources.py)."""

    choices: list[WireChoice] | None
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
_ERROR_KEY = b'"error"'


def decode_response(raw: bytes) -> WireResponse:
    """A whole answer or a chunk. Raises the error that it tells, or Garbled."""
    try:
        response = _decode_wire_response(raw)
    except DECODE_ERRORS:
        response = _decode_leniently(raw)
    if response.error is not NULL and response.error != NULL:
        error = find_error(Body.read_response(raw))
        assert error is not None
        raise error
    return response


def _decode_leniently(raw: bytes) -> WireResponse:
    error = find_error(Body.read_response(raw))
    if error is not None:
        raise error
    try:
        return _decode_wire_response(repair_unicode(raw))
    except DECODE_ERRORS as exc:
        raise InvalidUpstreamResponse(f"The engine's answer is not a chat completion: {exc}.") from None


def unix_seconds(created: int | float | None) -> int | None:
    """Unix time; transformers serve and others tell it with a fraction."""
    return None if created is None else int(created)


def content_texts(content: str | list[ContentPiece] | None) -> list[tuple[str, str]]:
    """Content as kinds (text, reasoning, refusal) and texts. Pieces of other kinds, such as Mistral's references, hold no text."""
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
    """Engines that do not name their calls leave it to us."""
    return engine_id or f"call_{uuid.uuid4().hex[:24]}"
