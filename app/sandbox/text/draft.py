"""Draft: text and the random draws that produced it, for log probabilities."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from math import log
from random import Random

MAX_ALTERNATIVES = 20
"""As many as a request may ask for."""


@dataclass(frozen=True, slots=True)
class Draw:
    """A text drawn at a byte offset, with its log probability and those of the alternatives."""

    offset: int
    chosen: str
    logprob: float
    alternatives: Sequence[tuple[str, float]]


@dataclass(frozen=True, slots=True)
class GeneratedText:
    """A text and its draws."""

    text: str
    draws: Sequence[Draw] = ()
    is_finished: bool = True  # False: the constraint could not be met within the maximum length


class Draft:
    """A text that grows by fixed parts and by draws."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self._parts: list[str] = []
        self._draws: list[Draw] = []
        self._size_bytes = 0

    def write(self, text: str) -> None:
        self._parts.append(text)
        self._size_bytes += len(text.encode())

    def choose(self, options: Sequence[str]) -> None:
        chosen = self.rng.choice(options)
        logprob = -log(len(options))
        others = islice((other for other in options if other != chosen), MAX_ALTERNATIVES)
        self._draws.append(Draw(self._size_bytes, chosen, logprob, [(other, logprob) for other in others]))
        self.write(chosen)

    def text(self) -> str:
        return "".join(self._parts)

    def truncate_to(self, text: str) -> None:
        """Continues with `text`, a prefix of what was written."""
        self._parts = [text]
        self._size_bytes = len(text.encode())

    def result(self) -> GeneratedText:
        return GeneratedText(self.text(), self._draws)
