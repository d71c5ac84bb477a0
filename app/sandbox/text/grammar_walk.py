"""The walk: a random text that obeys a grammar, drawn byte by byte from what llguidance allows next.

Bytes that close something weigh more as the text grows, and where a grammar allows free text the walk writes complete words. If a text
does not end within its maximum length, further attempts use other weights; if none ends, the text is returned unfinished.
"""

import json
import threading
import time
from collections.abc import Callable
from math import exp, log
from random import Random

from llguidance import LLMatcher, LLParserLimits

from app.sandbox.protocol.errors import InvalidConstraint
from app.sandbox.text.constraint import Constraint
from app.sandbox.text.draft import Draw, GeneratedText
from app.sandbox.text.grammar_choices import BYTE_TOKENIZER, LETTERS, PRESSURE_LEVELS, STOP, ByteBias, GrammarChoices
from app.sandbox.text.tokens import count_tokens
from app.sandbox.text.vocabulary import WORDS

TARGET_BYTES = 500
ATTEMPT_LIMITS_BYTES = (4_096, 4_096, 4_096, 4_096, 65_536, 16_384)
"""Maximum length of each attempt. Most texts need one short attempt; the long one is for constraints that demand length."""

CHECKED_ROUNDS = 8
"""How often all attempts are made if their texts fail the constraint's check."""

MAX_TOKEN_BYTES = 28
DEADLINE_S = 1.0

SEPARATORS = (b" ", b" ", b" ", b" ", b", ")
BACKSLASH = 92
VOCABULARY = tuple(word.encode() for word in WORDS)
WORD_LOGPROB = -log(len(VOCABULARY))


class Budget:
    """The processor time that all walks of a request may take, in one thread, and a way to cancel them from another."""

    def __init__(self, seconds: float = DEADLINE_S) -> None:
        self._seconds = seconds
        self._deadline: float | None = None
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        self._cancelled.set()

    def check(self, field: str) -> None:
        if self._cancelled.is_set():
            raise InvalidConstraint(f"{field}: the request was cancelled.", field)
        if self._deadline is None:
            self._deadline = time.thread_time() + self._seconds
        if time.thread_time() > self._deadline:
            raise InvalidConstraint(f"{field}: obeying this takes more than {self._seconds:g} seconds of computing.", field)


class Walker:
    """Compiles a grammar once; each walk() gives another text that obeys it.

    Raises InvalidConstraint with llguidance's message for a grammar that does not compile, or exceeds the limits during a walk.
    """

    def __init__(self, constraint: Constraint, budget: Budget) -> None:
        self._constraint = constraint
        self._budget = budget
        self._openers = tuple(opener.encode() for opener in constraint.openers)
        self._closers = tuple(closer.encode() for closer in constraint.closers)
        self._budget.check(constraint.field)
        self._matcher = compile_grammar(constraint.grammar)
        self._check: Callable[[str], bool] | None = None
        self._unenforced = self._matcher.get_error().strip()
        approximation = constraint.approximate() if self._unenforced else None
        approximated = compile_grammar(approximation.grammar) if approximation else None
        if approximation and approximated and not approximated.is_error():
            self._matcher, self._check = approximated, approximation.check
        self._raise_on_error()

    def walk(self, rng: Random, max_tokens: int | None, *, record: bool = False) -> GeneratedText:
        """A text that obeys the grammar with at most `max_tokens`; if no attempt gives one, a text that is too long or unfinished."""
        max_bytes = ATTEMPT_LIMITS_BYTES[-2] if max_tokens is None else MAX_TOKEN_BYTES * max_tokens
        target_bytes = TARGET_BYTES if max_tokens is None else min(TARGET_BYTES, 2 * max_tokens)
        best: GeneratedText | None = None
        check = self._check
        for attempt, attempt_limit in enumerate(ATTEMPT_LIMITS_BYTES * (CHECKED_ROUNDS if check else 1)):
            number = attempt % len(ATTEMPT_LIMITS_BYTES)
            if attempt > number and best is not None:
                break
            bias = ByteBias(rng if number in (2, 3, 5) else None)
            generated = self._attempt(
                rng, bias, target_bytes if number == 0 else max(8, target_bytes // 8), min(attempt_limit, max_bytes), record
            )
            if self._constraint.is_json and generated.is_finished and has_duplicate_key(generated.text):
                continue
            if check and generated.is_finished and not check(generated.text):
                continue
            if generated.is_finished and (max_tokens is None or count_tokens(generated.text) <= max_tokens):
                return generated
            best = best if best and len(best.text) >= len(generated.text) else generated
        if best is None:
            reason = f"The sandbox can only try here: {self._unenforced}" if check else "All had a key twice."
            raise InvalidConstraint(f"{self._constraint.field}: no valid text was found. {reason}", self._constraint.field)
        return best

    def _attempt(self, rng: Random, bias: ByteBias, target_bytes: int, max_bytes: int, record: bool) -> GeneratedText:
        matcher = self._matcher
        matcher.reset()
        out = bytearray()
        draws: list[Draw] = []
        steps = 0
        while len(out) < max_bytes:
            steps += 1
            if steps % 32 == 0:
                self._budget.check(self._constraint.field)
            mask = matcher.compute_logit_bias()
            choices = bias.choices_for(mask)
            if not choices.allowed:
                self._raise_on_error()
                return GeneratedText(decode_text(out), draws, is_finished=matcher.is_accepting())
            if choices.forced is not None:
                # A byte without an alternative is often followed by more of them.
                self._consume(out, matcher.compute_ff_bytes() or bytes((choices.forced,)))
                continue
            level = round(PRESSURE_LEVELS * min(1.0, max(0.0, len(out) / target_bytes - 0.4)))
            if level >= 2 and choices.exits is None:
                choices.exits = self.find_exits(choices, mask)
            word = self._pick_word(rng, out, choices, level) if choices.is_free else None
            if word is not None:
                if record:
                    draws.append(Draw(len(out), decode_text(word), WORD_LOGPROB, [(other, WORD_LOGPROB) for other in WORDS[:20]]))
                self._consume(out, word)
                continue
            table = choices.weight_table(level, is_start=not out)
            byte = table.draw(rng)
            if record:
                draws.append(table.describe_draw(len(out), byte))
            if byte == STOP:
                return GeneratedText(decode_text(out), draws)
            self._consume(out, bytes((byte,)))
        return GeneratedText(decode_text(out), draws, is_finished=False)

    def _pick_word(self, rng: Random, out: bytearray, choices: GrammarChoices, level: int) -> bytes | None:
        """A word where the grammar allows one: mostly at the start of free text, less often after a word, rarely under pressure to end.

        Literal texts of the constraint are tried too, because drawing letters never finds `</tool>`. None: draw a byte instead.
        """
        if self._closers and rng.random() < 0.15 + 0.1 * level:
            closer = rng.choice(self._closers)
            return closer if self._allows(closer) else None
        is_after_word = bool(out) and (out[-1] in LETTERS or out[-1] >= 0x80)
        if is_after_word and not choices.has_space:
            return None
        if rng.random() > (0.6 if is_after_word else 0.95) * exp(-0.6 * level * choices.can_end):
            return None
        if self._openers and choices.has_newline and rng.random() < 0.4:
            opener = rng.choice(self._openers)
            return opener if self._allows(opener) else None
        separator = rng.choice(SEPARATORS) if is_after_word else b""
        words = (separator + rng.choice(VOCABULARY) for _ in range(3))
        return next((word for word in words if self._allows(word)), None)

    def find_exits(self, choices: GrammarChoices, mask: bytes) -> frozenset[int]:
        """The bytes that change what is allowed next. Others may lead nowhere: letters in a word, one more opening bracket."""
        exits: set[int] = set()
        for byte in choices.allowed:
            # Inside a character or an escape sequence the allowed bytes always change, which leads nowhere.
            if byte < 0x80 and byte != BACKSLASH and self._matcher.consume_token(byte):
                if self._matcher.compute_logit_bias() != mask:
                    exits.add(byte)
                self._matcher.rollback(1)
        self._raise_on_error()
        return frozenset(exits)

    def _allows(self, run: bytes) -> bool:
        return self._matcher.validate_tokens(list(run)) == len(run)

    def _consume(self, out: bytearray, run: bytes) -> None:
        if not self._matcher.consume_tokens(list(run)):
            self._raise_on_error()
        out += run

    def _raise_on_error(self) -> None:
        if self._matcher.is_error():
            fault = self._matcher.get_error().replace("<non-verbose/>", "").strip()
            raise InvalidConstraint(f"{self._constraint.field}: {fault}", self._constraint.field)


def compile_grammar(grammar: str) -> LLMatcher:
    return LLMatcher(BYTE_TOKENIZER, grammar, log_level=0, limits=parser_limits())


def parser_limits() -> LLParserLimits:
    """Limits for hostile grammars: milliseconds for a step, tens of them to compile. The Budget limits their sum."""
    return LLParserLimits(
        initial_lexer_fuel=500_000,
        step_max_items=20_000,
        max_lexer_states=50_000,
        max_grammar_size=200_000,
        precompute_large_lexemes=False,
        verbose_errors=False,
    )


def decode_text(out: bytes | bytearray) -> str:
    """The text, without a character that is incomplete at the end."""
    return out.decode(errors="ignore")


def has_duplicate_key(text: str) -> bool:
    """Whether an object has a key twice. llguidance allows that for additional keys, but parsers keep only the last."""

    def reject_duplicates(pairs: list[tuple[str, object]]) -> None:
        if len({key for key, _ in pairs}) < len(pairs):
            raise LookupError

    try:
        json.loads(text, object_pairs_hook=reject_duplicates)
    except LookupError:
        return True
    except (RecursionError, ValueError):
        # Valid JSON that is too deep, or has too long numbers, for Python's parser.
        return False
    return False
