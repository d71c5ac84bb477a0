"""The response of Llama, and the chunks of a stream of it, which have the same shape. No stream was recorded."""

import msgspec
from msgspec import Struct

from providers.canonical.finish_reasons import openai_reason
from providers.canonical.raw_json import DECODE_ERRORS
from providers.canonical.response_decoding import decode_repaired


class Chunk(Struct):
    generation: str
    prompt_token_count: int | None = None
    generation_token_count: int | None = None
    stop_reason: str | None = None


# OpenAI's names.
_FINISH_REASONS = frozenset({"stop", "length"})

_decode = msgspec.json.Decoder(Chunk).decode


def decode_chunk(raw: bytes) -> Chunk:
    """Raises the error that `raw` holds, or InvalidUpstreamResponse."""
    try:
        return _decode(raw)
    except DECODE_ERRORS:
        return decode_repaired(raw, _decode, "one of Llama")


def read_stop_reason(reason: str | None) -> tuple[str | None, str | None]:
    """The finish reason, and the host's own if it is not known. Both None if the response has not finished.

    Raises UpstreamError for a reason that means that the response failed.
    """
    return (reason, None) if reason is None or reason in _FINISH_REASONS else (openai_reason(reason), reason)
