"""What may come next, and how much the sandbox would like it: the taste that makes random texts short and pleasant."""

from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import exp, log
from random import Random

from llguidance import LLTokenizer

from app.sandbox.draft import Draw

BYTE_TOKENIZER = LLTokenizer("byte")
"""The vocabulary of the walk: its tokens are the 256 bytes, some special ones that stand for no text, and one that ends it."""

STOP = 256
"""Stands where a byte stands: the wish to end."""

PRESSURE_LEVELS = 8
"""How many steps the pressure to end has."""

# Each class of bytes has a weight, shared by those of its bytes that are allowed: ten digits must not outweigh one brace.
BYTE_CLASSES = (
    (b"abcdefghijklmnopqrstuvwxyz", 4.0),
    (b"ABCDFGHIJKLMNOPQRSTUVWXYZ", 0.6),
    (b"E", 0.02),  # as a rule a capital like any other, but an exponent wherever numbers are written
    (b"0123456789", 2.0),
    (b" ", 0.4),
    (b'"', 1.5),
    (b"]})>", 1.5),
    (b",", 1.4),
    (b"[{(<", 0.8),
    (b"+-.:_/@!?'*=;&|%#$^`~", 0.3),
    (b"\n\r\t", 0.02),
    (b"\\", 0.001),
    (b"\xc3", 0.05),
    (bytes([*range(0x80, 0xC3), *range(0xC4, 0x100)]), 0.01),
    (bytes([*range(9), 11, 12, *range(14, 32), 127]), 0.0001),
)
CLASS_OF_BYTE = {byte: number for number, (members, _) in enumerate(BYTE_CLASSES) for byte in members}
LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyz")

# How much the pressure to end moves a byte: its weight is multiplied by e to the power of 0.75 × rank × level.
# A byte that leaves the place where the walk is (see Walker.find_exits) ranks one higher.
QUOTE, LOWERCASE_E = 34, 101
PROSE_THRESHOLD = 100
"""So many bytes may follow only where a text is free of nearly any constraint: in a string, between tags."""

RANKS = {**dict.fromkeys(b"]})", 2), **dict.fromkeys(b'">', 1), **dict.fromkeys(b",", -1), **dict.fromkeys(b"[{(<\\", -2), STOP: 3}
OPENING_BRACKETS = dict(zip(b"]})>", b"[{(<", strict=True))
COMMA_RANKS = {**RANKS, 44: 2}
PROSE_RANKS = {QUOTE: 2, STOP: 3}


@dataclass(slots=True)
class WeightTable:
    """What may be drawn, and how likely each is."""

    options: Sequence[int]
    cumulative_weights: Sequence[float]

    def draw(self, rng: Random) -> int:
        return self.options[min(bisect(self.cumulative_weights, rng.random() * self.cumulative_weights[-1]), len(self.options) - 1)]

    def describe_draw(self, offset: int, byte: int) -> Draw:
        """The draw as it is told to those who ask for log probabilities; the wish to end reads as an empty text."""
        weights = [after - before for before, after in zip((0.0, *self.cumulative_weights), self.cumulative_weights, strict=False)]
        logprobs = {
            option: log(max(weight / self.cumulative_weights[-1], 1e-9)) for option, weight in zip(self.options, weights, strict=True)
        }
        alternatives = sorted(
            ((byte_text(other), logprob) for other, logprob in logprobs.items() if other != byte), key=lambda pair: -pair[1]
        )
        return Draw(offset, byte_text(byte), logprobs[byte], alternatives[:20])


class GrammarChoices:
    """One mask of llguidance's, read: which bytes, whether the text may end, whether this is free text."""

    def __init__(self, mask: bytes, biases: Mapping[int, float]) -> None:
        self.allowed = tuple(byte for byte in range(256) if mask[byte])
        self.may_stop = bool(mask[BYTE_TOKENIZER.eos_token])
        self.forced = self.allowed[0] if len(self.allowed) == 1 and not self.may_stop else None
        self.is_free = len(LETTERS.intersection(self.allowed)) >= 20
        self.has_space = bool(mask[32])
        self.has_newline = bool(mask[10])
        self.is_prose = self.is_free and len(self.allowed) > PROSE_THRESHOLD
        self.can_end = not self.is_prose or self.may_stop or (bool(mask[QUOTE]) and not self.has_newline)
        self.exits: frozenset[int] | None = None
        self._biases = biases
        self._tables: dict[tuple[int, bool], WeightTable] = {}

    def weight_table(self, level: int, *, is_start: bool) -> WeightTable:
        found = self._tables.get((level, is_start))
        if found is None:
            found = self._tables[level, is_start] = self._compute_weights(level, is_start)
        return found

    def _compute_weights(self, level: int, is_start: bool) -> WeightTable:
        class_sizes: dict[int, int] = {}
        for byte in self.allowed:
            class_sizes[CLASS_OF_BYTE[byte]] = class_sizes.get(CLASS_OF_BYTE[byte], 0) + 1
        weights = {byte: BYTE_CLASSES[CLASS_OF_BYTE[byte]][1] / class_sizes[CLASS_OF_BYTE[byte]] for byte in self.allowed}
        ranks = RANKS
        if self.is_free:
            # A bracket that could be opened here as well closes nothing: it is text, as in the name of an email address.
            ranks = {byte: rank for byte, rank in RANKS.items() if OPENING_BRACKETS.get(byte) not in self.allowed}
        elif not self.may_stop and not OPENING_BRACKETS.keys() & set(self.allowed):
            # Where nothing closes, a comma is what ends a number; elsewhere it is what goes on.
            ranks = COMMA_RANKS
        if self.is_free and (self.may_stop or len(class_sizes) > 1):
            # Words are taken whole; a single letter is what is left where no word fits and nothing else may come.
            weights.update({byte: weights[byte] * 0.02 for byte in self.allowed if byte in LETTERS})
        elif len(LETTERS.intersection(self.allowed)) <= 3:
            # The first letters of true, false and null, or an exponent: as good as one digit, not as all of them.
            # Where a capital would do as well, as for the T and Z of a time, the capital: some readers know no other.
            weights.update(
                {
                    byte: weights[byte] * (0.01 if byte == LOWERCASE_E or byte - 32 in weights else 0.3)
                    for byte in self.allowed
                    if byte in LETTERS
                }
            )
        if self.is_prose:
            # Any text may stand here, so brackets close nothing, and a quote closes only where it cannot be text (as within JSON).
            weights.update({byte: weight * 0.03 for byte, weight in weights.items() if byte != QUOTE or self.has_newline})
            ranks = PROSE_RANKS
        if self.may_stop:
            # An empty text is allowed by many grammars and pleases nobody.
            weights[STOP] = 0.0005 if is_start else 2.0
        exits = self.exits or frozenset()
        pressure = {byte: exp(0.75 * level * (ranks.get(byte, 0) + (byte in exits))) for byte in weights}
        biased = {byte: weight * pressure[byte] * self._biases.get(byte, 1.0) for byte, weight in weights.items()}
        return WeightTable(tuple(biased), tuple(accumulate(biased.values())))


class ByteBias:
    """The menus of one walk. A taste with tempers likes some bytes much more than others: what one taste never finishes, another may."""

    def __init__(self, rng: Random | None = None) -> None:
        self._biases = {byte: exp(2.5 * rng.gauss(0, 1)) for byte in range(257)} if rng else {}
        self._choices: dict[bytes, GrammarChoices] = {}

    def choices_for(self, mask: bytes) -> GrammarChoices:
        found = self._choices.get(mask)
        if found is None:
            found = self._choices[mask] = GrammarChoices(mask, self._biases)
        return found


def byte_text(byte: int) -> str:
    """A byte as text; one that is only part of a character has the form `bytes:\\xNN`, as OpenAI writes it."""
    if byte == STOP:
        return ""
    return chr(byte) if byte < 0x80 else f"bytes:\\x{byte:02x}"
