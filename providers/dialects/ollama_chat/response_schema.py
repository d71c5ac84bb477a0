"""The response of Ollama's /api/chat, and the lines of a stream of it, which have the same shape.

Source: api/types.go of ollama 0.33, by docs/sources.md#ollama, read 2026-11.
"""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.canonical.response_decoding import decode_repaired
from providers.canonical.upstream_errors import find_error


class Function(Struct):
    name: str = ""
    arguments: Raw = NULL


class Call(Struct):
    function: Function
    id: str | None = None


class Message(Struct):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[Call] | None = None


class Chunk(Struct):
    message: Message | None = None
    model: str = ""
    created_at: str | None = None
    done: bool = False
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    logprobs: list[dict[str, Any]] | None = None
    error: Raw = NULL


_decode = msgspec.json.Decoder(Chunk).decode


def decode_chunk(raw: bytes) -> Chunk:
    """Raises the error that `raw` holds, or InvalidUpstreamResponse."""
    try:
        chunk = _decode(raw)
    except DECODE_ERRORS:
        chunk = decode_repaired(raw, _decode, "one of Ollama's chat")
    if chunk.error != NULL:
        error = find_error(Body.read_response(raw))
        if error is not None:
            raise error
    return chunk
