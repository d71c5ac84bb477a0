"""Ids of calls as Mistral takes them: nine letters and digits (else code 3280). Others are minted anew, the same for the same.

Source: /reference/providers.md part 2; anomalyco/opencode#1680, read 2026-11.
"""

import hashlib
import re
import string
from collections.abc import Sequence

_TAKEN = re.compile(r"[A-Za-z0-9]{9}")
_DIGITS = string.digits + string.ascii_letters
_LONG = 9


class Ids:
    """Of one conversation: two ids that are not the same stay so."""

    def __init__(self, said: Sequence[str]) -> None:
        self._known = {id: id for id in said if _TAKEN.fullmatch(id)}
        taken = set(self._known)
        for id in said:
            if id not in self._known:
                self._known[id] = _minted(id, taken)
                taken.add(self._known[id])

    def of(self, id: str) -> str:
        return self._known[id]


def _minted(id: str, taken: set[str]) -> str:
    again = 0
    while (minted := mint(id, again)) in taken:
        again += 1
    return minted


def mint(id: str, again: int = 0) -> str:
    number = int.from_bytes(hashlib.sha256(f"{again}.{id}".encode()).digest())
    digits: list[str] = []
    for _ in range(_LONG):
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return "".join(digits)
