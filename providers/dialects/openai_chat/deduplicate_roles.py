"""Sends the role once per choice of a stream.

Some hosts (Together, OpenRouter, Perplexity) repeat it in every delta, and OpenAI's own client concatenates what is repeated
(openai 2.x, lib/streaming/_deltas.py, read 2026-11).
"""

import msgspec
from msgspec import Raw, Struct

ROLE_KEY = b'"role"'


class _Delta(Struct):
    role: str | None = None


class _Choice(Struct):
    index: int | None = None
    delta: _Delta | None = None


_decode_typed = msgspec.json.Decoder(list[_Choice]).decode
_decode_choices = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode


class RoleDeduplicator:
    """Drops repeated roles. One per stream."""

    def __init__(self) -> None:
        self._choices_with_role: set[int] = set()

    def drop_repeated_roles(self, choices: bytes) -> bytes:
        """The choices of a chunk, without roles that were sent before; the same object if there are none."""
        try:
            typed = _decode_typed(choices)
        except msgspec.ValidationError:
            return choices
        role_indexes = [choice.index or 0 if choice.delta is not None and choice.delta.role is not None else None for choice in typed]
        repeated = {at for at, index in enumerate(role_indexes) if index is not None and index in self._choices_with_role}
        self._choices_with_role.update(index for index in role_indexes if index is not None)
        if not repeated:
            return choices
        decoded = _decode_choices(choices)
        for at in repeated:
            decoded[at]["delta"] = Raw(
                msgspec.json.encode({key: value for key, value in _decode_object(decoded[at]["delta"]).items() if key != "role"})
            )
        return msgspec.json.encode(decoded)
