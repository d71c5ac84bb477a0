"""The response of Llama, and the chunks of a stream of it, which have the same shape. No stream was recorded."""

import msgspec
from msgspec import Struct

from providers.canonical.raw_json import DECODE_ERRORS
from providers.canonical.response_decoding import decode_repaired


class Chunk(Struct):
    generation: str
    prompt_token_count: int | None = None
    generation_token_count: int | None = None
    stop_reason: str | None = None


_decode = msgspec.json.Decoder(Chunk).decode


def decode_chunk(raw: bytes) -> Chunk:
    """Raises the error that `raw` holds, or InvalidUpstreamResponse."""
    try:
        return _decode(raw)
    except DECODE_ERRORS:
        return decode_repaired(raw, _decode, "one of Llama")
