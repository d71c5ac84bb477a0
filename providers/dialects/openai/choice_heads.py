"""The fields of a streamed or complete choice that every byte edit needs."""

import msgspec
from msgspec import Struct


class ChoiceHead(Struct):
    """The choice fields that byte edits read."""

    index: int | None = None
    finish_reason: str | None = None


read_heads = msgspec.json.Decoder(list[ChoiceHead]).decode
