"""Roles: told once a choice. Hosts that tell theirs in every delta (Together, OpenRouter, Perplexity) have OpenAI's own client append
them to one another (openai 2.x, lib/streaming/_deltas.py, read 2026-11).
"""

import msgspec
from msgspec import Raw, Struct

MARK = b'"role"'


class _Said(Struct):
    role: str | None = None


class _Choice(Struct):
    index: int | None = None
    delta: _Said | None = None


_typed = msgspec.json.Decoder(list[_Choice]).decode
_choices = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_object = msgspec.json.Decoder(dict[str, Raw]).decode


class Roles:
    """Of one stream."""

    def __init__(self) -> None:
        self._told: set[int] = set()

    def once(self, choices: bytes) -> bytes:
        """Choices of a chunk, without the roles that were told before."""
        try:
            typed = _typed(choices)
        except msgspec.ValidationError:
            return choices
        speaking = [choice.index or 0 if choice.delta is not None and choice.delta.role is not None else None for choice in typed]
        again = {at for at, index in enumerate(speaking) if index is not None and index in self._told}
        self._told.update(index for index in speaking if index is not None)
        if not again:
            return choices
        told = _choices(choices)
        for at in again:
            told[at]["delta"] = Raw(msgspec.json.encode({key: value for key, value in _object(told[at]["delta"]).items() if key != "role"}))
        return msgspec.json.encode(told)
