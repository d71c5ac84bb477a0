"""The response of generate, and the chunks of a stream of it, in TGI's and LMI's fields.

Sources: router/src/lib.rs (GenerateResponse, StreamResponse) of TGI 3.3; docs.djl.ai, "LMI handlers Inference API Schema"; read 2026-11.
"""

import msgspec
from msgspec import Raw, Struct, field

from providers.canonical.raw_json import DECODE_ERRORS, NULL
from providers.canonical.response_decoding import decode_repaired


class Token(Struct):
    """A token that was generated. The fields `log_prob` and `special_token` are LMI's."""

    text: str | None = None
    logprob: float | None = None
    log_prob: float | None = None
    special: bool = False
    special_token: bool = False


class Details(Struct):
    """The engine's facts about a response beside its text.

    The name in `finish_reason_spaced` is how LMI's documentation spells it; its code, and its streams, use `finish_reason`.
    """

    finish_reason: str | None = None
    finish_reason_spaced: str | None = field(default=None, name="finish reason")
    generated_tokens: int | None = None
    input_length: int | None = None
    prefill: list[Raw] | None = None
    tokens: list[Token] | None = None
    top_tokens: list[list[Token]] | None = None


class Chunk(Struct):
    """An event of a stream."""

    token: Token | None = None
    top_tokens: list[Token] | None = None
    generated_text: str | None = None
    details: Details | None = None
    outputs: list[str] | None = None  # LMI without continuous batching sends nothing else, and does not mark the end
    error: Raw = NULL


_decode = msgspec.json.Decoder(Chunk).decode


def decode_chunk(raw: bytes) -> Chunk:
    """Raises the error that `raw` holds, or InvalidUpstreamResponse."""
    try:
        chunk = _decode(raw)
        if chunk.error == NULL:
            return chunk
    except DECODE_ERRORS:
        pass
    return decode_repaired(raw, _decode, "a response to generate")
