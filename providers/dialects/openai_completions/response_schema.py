"""Completions and chunks as engines send them."""

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from providers.canonical.raw_json import DECODE_ERRORS, NULL
from providers.canonical.response_decoding import decode_repaired


class WireChoice(Struct):
    """`text` is null for an empty text of some engines; a complete choice without the field is none."""

    text: str | UnsetType | None = UNSET
    index: int | None = 0
    finish_reason: str | None = None
    logprobs: Raw = NULL
    stop_reason: Raw = NULL


class WireResponse(Struct):
    choices: list[WireChoice] | None
    model: str | None = ""
    created: int | float | None = None
    usage: Raw = NULL
    error: Raw = NULL
    system_fingerprint: str | None = None
    service_tier: str | None = None


_decode_wire_response = msgspec.json.Decoder(WireResponse).decode


def decode_response(raw: bytes) -> WireResponse:
    """Decodes a response or a chunk. Raises the error that it holds, or InvalidUpstreamResponse."""
    try:
        parsed = _decode_wire_response(raw)
        if parsed.error is NULL or parsed.error == NULL:
            return parsed
    except DECODE_ERRORS:
        pass
    return decode_repaired(raw, _decode_wire_response, "a completion")
