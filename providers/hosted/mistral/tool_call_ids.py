"""Ids of calls as Mistral takes them: nine letters and digits (else code 3280). Others are minted anew, the same for the same.

Source: /reference/providers.md part 2; anomalyco/opencode#1680, read 2026-11.
"""

import hashlib
import re
import string
from collections.abc import Sequence

_VALID_ID = re.compile(r"[A-Za-z0-9]{9}")
_ALPHABET = string.digits + string.ascii_letters
_ID_LENGTH = 9


class ToolCallIds:
    """Of one conversation: two ids that are not the same stay so."""

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
    number = int.from_bytes(hashlib.sha256(f"{counter}.{id}".encode()).digest())
    characters: list[str] = []
    for _ in range(_ID_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        characters.append(_ALPHABET[digit])
    return "".join(characters)
