"""Completions and chunks as engines send them."""

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.canonical.response_decoding import decode_repaired


class WireChoice(Struct):
    """A choice of a completion, or of a chunk of one."""

    text: str | UnsetType | None = UNSET  # null for an empty text of some engines; a complete choice without the field is none
    index: int | None = 0
    finish_reason: str | None = None
    logprobs: Raw = NULL
    stop_reason: Raw = NULL


class WireResponse(Struct):
    choices: list[WireChoice] | None = None
    model: str | None = ""
    created: int | float | None = None
    usage: Raw = NULL
    error: Raw = NULL
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
        if chunk.choices is not None and (chunk.error is NULL or chunk.error == NULL):
            return chunk
    except DECODE_ERRORS:
        pass
    try:
        chunk = decode_repaired(raw, _decode_wire_response, "a completion")
    except InvalidUpstreamResponse:
        if Body.read_response(raw).has_value("choices"):
            raise
        return None
    return None if chunk.choices is None and chunk.usage == NULL else chunk
