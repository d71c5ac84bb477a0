"""Text with the chances it was drawn by, so that log probabilities can be told."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from random import Random


@dataclass(frozen=True, slots=True)
class Drawn:
    """At this byte one text was drawn among others, each with the logarithm of its chance."""

    at: int
    chosen: str
    logprob: float
    others: Sequence[tuple[str, float]]


@dataclass(frozen=True, slots=True)
class Said:
    """A text, how it was drawn, and whether it is whole: a constraint that could not be met in the room given leaves it unfinished."""

    text: str
    drawn: Sequence[Drawn] = ()
    is_finished: bool = True


class Draft:
    """A text that grows by fixed words and by draws."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self._parts: list[str] = []
        self._drawn: list[Drawn] = []
        self._size_bytes = 0

    def write(self, text: str) -> None:
        self._parts.append(text)
        self._size_bytes += len(text.encode())

    def choose(self, options: Sequence[str]) -> None:
        chosen = self.rng.choice(options)
        even = -log(len(options))
        self._drawn.append(Drawn(self._size_bytes, chosen, even, [(other, even) for other in options if other != chosen]))
        self.write(chosen)

    def text(self) -> str:
        return "".join(self._parts)

    def cut(self, text: str) -> None:
        """Go on with a beginning of what was written."""
        self._parts = [text]
        self._size_bytes = len(text.encode())

    def said(self) -> Said:
        return Said(self.text(), self._drawn)
