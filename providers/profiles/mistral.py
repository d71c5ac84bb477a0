"""Mistral models: tool call ids of exactly nine letters and digits. Other ids are replaced, the same id always by the same one.

Mistral's API answers 400 with code 3280 otherwise, and vLLM refuses them for Mistral models (vllm-project/vllm#9019).
Sources: docs/sources.md#mistral; anomalyco/opencode#1680, read 2026-11.
"""

import hashlib
import re
import string
from collections.abc import Sequence

_VALID_ID = re.compile(r"[A-Za-z0-9]{9}")
_ALPHABET = string.digits + string.ascii_letters
_ID_LENGTH = 9


class ToolCallIds:
    """The ids of one conversation: different ids stay different."""

    def __init__(self, ids: Sequence[str]) -> None:
        self._replacements = {id: id for id in ids if _VALID_ID.fullmatch(id)}
        taken = set(self._replacements)
        for id in ids:
            if id not in self._replacements:
                self._replacements[id] = _mint_unused(id, taken)
                taken.add(self._replacements[id])

    def replacement(self, id: str) -> str:
        return self._replacements[id]


def _mint_unused(id: str, taken: set[str]) -> str:
    counter = 0
    while (candidate := mint_id(id, counter)) in taken:
        counter += 1
    return candidate


def mint_id(id: str, counter: int = 0) -> str:
    """A valid id made from the hash of `id`; `counter` gives another one if that is taken."""
    number = int.from_bytes(hashlib.sha256(f"{counter}.{id}".encode()).digest())
    characters: list[str] = []
    for _ in range(_ID_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        characters.append(_ALPHABET[digit])
    return "".join(characters)
