"""The fields of a streamed or complete choice that every byte edit needs."""

import msgspec
from msgspec import Raw, Struct

from providers.canonical.raw_json import NULL


class ChoiceHead(Struct):
    """The choice fields that byte edits read. `error` is OpenRouter's, for a choice that failed."""

    index: int | None = None
    finish_reason: str | None = None
    error: Raw = NULL


read_heads = msgspec.json.Decoder(list[ChoiceHead]).decode
