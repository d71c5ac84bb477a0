"""The bytes that a grammar allows next, and their weights, which make random texts short and readable."""

from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import exp, log
from random import Random

from llguidance import LLTokenizer

from app.sandbox.text.draft import Draw

BYTE_TOKENIZER = LLTokenizer("byte")
"""The vocabulary of a walk: its tokens are the 256 bytes, some special ones without text, and one that ends the text."""

STOP = 256
"""Used in place of a byte: the decision to end."""

PRESSURE_LEVELS = 8
"""Number of levels of the pressure to end."""

# The allowed bytes of a class share its weight: ten digits must not outweigh one brace.
BYTE_CLASSES = (
    (b"abcdefghijklmnopqrstuvwxyz", 4.0),
    (b"ABCDFGHIJKLMNOPQRSTUVWXYZ", 0.6),
    (b"E", 0.02),  # mostly a capital like the others, but an exponent in numbers
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

# The pressure to end multiplies a byte's weight by e to the power of 0.75 × rank × level.
# A byte that leaves the present part of the grammar (see Walker.find_exits) ranks one higher.
QUOTE, LOWERCASE_E = 34, 101
PROSE_THRESHOLD = 100
"""More allowed bytes than this mean nearly free text: in a string, between tags."""

RANKS = {**dict.fromkeys(b"]})", 2), **dict.fromkeys(b'">', 1), **dict.fromkeys(b",", -1), **dict.fromkeys(b"[{(<\\", -2), STOP: 3}
OPENING_BRACKETS = dict(zip(b"]})>", b"[{(<", strict=True))
COMMA_RANKS = {**RANKS, 44: 2}
PROSE_RANKS = {QUOTE: 2, STOP: 3}


@dataclass(slots=True)
class WeightTable:
    """Options to draw from, by weight."""

    options: Sequence[int]
    cumulative_weights: Sequence[float]

    def draw(self, rng: Random) -> int:
        return self.options[min(bisect(self.cumulative_weights, rng.random() * self.cumulative_weights[-1]), len(self.options) - 1)]

    def describe_draw(self, offset: int, byte: int) -> Draw:
        """The draw for log probabilities, with at most 20 alternatives; STOP becomes an empty text."""
        weights = [after - before for before, after in zip((0.0, *self.cumulative_weights), self.cumulative_weights, strict=False)]
        logprobs = {
            option: log(max(weight / self.cumulative_weights[-1], 1e-9)) for option, weight in zip(self.options, weights, strict=True)
        }
        alternatives = sorted(
            ((byte_text(other), logprob) for other, logprob in logprobs.items() if other != byte), key=lambda pair: -pair[1]
        )
        return Draw(offset, byte_text(byte), logprobs[byte], alternatives[:20])


class GrammarChoices:
    """One mask of llguidance: which bytes are allowed, whether the text may end, whether this is free text."""

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
            # A closing bracket closes nothing where its opening one is allowed too: it is text, as in an email address.
            ranks = {byte: rank for byte, rank in RANKS.items() if OPENING_BRACKETS.get(byte) not in self.allowed}
        elif not self.may_stop and not OPENING_BRACKETS.keys() & set(self.allowed):
            # Where no bracket can be closed, a comma ends a number; elsewhere it continues a list.
            ranks = COMMA_RANKS
        if self.is_free and (self.may_stop or len(class_sizes) > 1):
            # Walks write complete words; a single letter is for places where no word fits and nothing else is allowed.
            weights.update({byte: weights[byte] * 0.02 for byte in self.allowed if byte in LETTERS})
        elif len(LETTERS.intersection(self.allowed)) <= 3:
            # The first letters of true, false and null, or an exponent, weigh as much as one digit, not as all digits.
            # Where the capital is allowed too, as for the T and Z of a time, it is preferred: some parsers require it.
            weights.update(
                {
                    byte: weights[byte] * (0.01 if byte == LOWERCASE_E or byte - 32 in weights else 0.3)
                    for byte in self.allowed
                    if byte in LETTERS
                }
            )
        if self.is_prose:
            # Any text is allowed, so brackets close nothing, and a quote closes only where it cannot be text (as in JSON).
            weights.update({byte: weight * 0.03 for byte, weight in weights.items() if byte != QUOTE or self.has_newline})
            ranks = PROSE_RANKS
        if self.may_stop:
            # Many grammars allow an empty text, which is hardly ever useful.
            weights[STOP] = 0.0005 if is_start else 2.0
        exits = self.exits or frozenset()
        pressure = {byte: exp(0.75 * level * (ranks.get(byte, 0) + (byte in exits))) for byte in weights}
        biased = {byte: weight * pressure[byte] * self._biases.get(byte, 1.0) for byte, weight in weights.items()}
        return WeightTable(tuple(biased), tuple(accumulate(biased.values())))


class ByteBias:
    """The choices of one attempt. With `rng`, some bytes weigh much more than others: such an attempt may finish where others do not."""

    def __init__(self, rng: Random | None = None) -> None:
        self._biases = {byte: exp(2.5 * rng.gauss(0, 1)) for byte in range(257)} if rng else {}
        self._choices: dict[bytes, GrammarChoices] = {}

    def choices_for(self, mask: bytes) -> GrammarChoices:
        found = self._choices.get(mask)
        if found is None:
            found = self._choices[mask] = GrammarChoices(mask, self._biases)
        return found


def byte_text(byte: int) -> str:
    """A byte as text; one that is only part of a character becomes `bytes:\\xNN`, as in OpenAI's API."""
    if byte == STOP:
        return ""
    return chr(byte) if byte < 0x80 else f"bytes:\\x{byte:02x}"
