"""The fast path of the byte edit: chunks that differ only in their choices."""

from msgspec import Struct

from providers.canonical.raw_json import DECODE_ERRORS, NULL
from providers.dialects.openai.choice_heads import read_heads


class ChunkTemplate(Struct, frozen=True):
    """The bytes around the choices, the same in one chunk after another, and the bytes that we write before the choices.

    All our fields are in `prefix`: after the choices only the closing brace is written.
    """

    before: bytes
    after: bytes
    prefix: bytes
    has_deltas: bool  # whether its choices are those of a chat

    def choices(self, data: bytes) -> bytes | None:
        """The choices of a chunk that matches and finishes no choice; None for any other chunk."""
        if not (data.startswith(self.before) and data.endswith(self.after)):
            return None
        choices = data[len(self.before) : -len(self.after)]
        try:
            heads = read_heads(choices)
        except DECODE_ERRORS:
            return None
        for head in heads:
            if head.finish_reason is not None or head.index is None or head.error is not NULL:
                return None
        return choices if heads else None
