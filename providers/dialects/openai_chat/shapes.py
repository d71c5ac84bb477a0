"""Answers as they stand on the wire, in OpenAI's shape and in the shapes that engines make of it: one typed decode for each."""

import uuid

import msgspec
from msgspec import Raw, Struct

from providers.errors import Garbled
from providers.told import error_in
from providers.wire import NULL, UNREADABLE, Body, mended


class Function(Struct):
    """`arguments`: an object to engines that have parsed them already."""

    name: str | None = None
    arguments: str | dict[str, Raw] | None = None


class Custom(Struct):
    name: str | None = None
    input: str | None = None


class Call(Struct):
    index: int | None = None
    id: str | None = None
    function: Function | None = None
    custom: Custom | None = None
    extra_content: Raw = NULL


class Piece(Struct):
    """Of content told as a list: `thinking` of Mistral's holds pieces in its turn."""

    type: str = "text"
    text: str | None = None
    refusal: str | None = None
    thinking: "str | list[Piece] | None" = None


class Said(Struct):
    """A message or a delta: the same fields, whole or in pieces."""

    content: str | list[Piece] | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    refusal: str | None = None
    tool_calls: list[Call] | None = None
    function_call: Function | None = None
    annotations: Raw = NULL
    reasoning_details: Raw = NULL


class Logprobs(Struct):
    content: list[Raw] | None = None


class ToldChoice(Struct):
    """`text` is a completion's, which some engines say in a chat. `stop_reason` is vLLM's, `matched_stop` SGLang's."""

    index: int | None = 0
    message: Said | None = None
    delta: Said | None = None
    text: str | None = None
    finish_reason: str | None = None
    logprobs: Logprobs | None = None
    stop_reason: Raw = NULL
    matched_stop: Raw = NULL


class Answer(Struct):
    """`search_results` and `citations` are Perplexity's (sources.py)."""

    choices: list[ToldChoice] | None
    model: str | None = ""
    created: int | float | None = None
    usage: Raw = NULL
    x_groq: Raw = NULL
    error: Raw = NULL
    search_results: Raw = NULL
    citations: Raw = NULL
    system_fingerprint: str | None = None
    service_tier: str | None = None


_decode = msgspec.json.Decoder(Answer).decode
_ERROR = b'"error"'


def read_answer(raw: bytes) -> Answer:
    """A whole answer or a chunk. Raises the error that it tells, or Garbled."""
    try:
        told = _decode(raw)
    except UNREADABLE:
        told = _otherwise(raw)
    if told.error is not NULL and told.error != NULL:
        error = error_in(Body.read_reply(raw))
        assert error is not None
        raise error
    return told


def _otherwise(raw: bytes) -> Answer:
    error = error_in(Body.read_reply(raw))
    if error is not None:
        raise error
    try:
        return _decode(mended(raw))
    except UNREADABLE as fault:
        raise Garbled(f"The engine's answer is not a chat completion: {fault}.") from None


def seconds(told: int | float | None) -> int | None:
    """Unix time; transformers serve and others tell it with a fraction."""
    return None if told is None else int(told)


def pieces(content: str | list[Piece] | None) -> list[tuple[str, str]]:
    """Content as kinds (text, reasoning, refusal) and texts. Pieces of other kinds, such as Mistral's references, hold no text."""
    if content is None or isinstance(content, str):
        return [("text", content)] if content else []
    told: list[tuple[str, str]] = []
    for piece in content:
        for kind, text in (("reasoning", _thought(piece.thinking)), ("text", piece.text), ("refusal", piece.refusal)):
            if text:
                told.append((kind, text))
    return told


def _thought(thinking: str | list[Piece] | None) -> str:
    return thinking if isinstance(thinking, str) else "".join(piece.text or "" for piece in thinking or ())


def arguments(function: Function) -> str:
    told = function.arguments
    return told if isinstance(told, str) else "" if told is None else msgspec.json.encode(told).decode()


def call_id(told: str | None) -> str:
    """Engines that do not name their calls leave it to us."""
    return told or f"call_{uuid.uuid4().hex[:24]}"
