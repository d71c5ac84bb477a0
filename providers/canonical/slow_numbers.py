"""Slow numbers: those that take the decoder hundreds of times as long as others do. They are counted before anything is decoded.

msgspec computes the nearest double of a few numbers digit by digit, 10 to 60 microseconds for each, in one call that no other thread can
interrupt: 200 KB of `1e300` held up a whole process for half a second (msgspec 0.22, measured 2026-11). Numbers of fewer digits or
smaller exponents take 3 microseconds at most, and nobody writes 2,000 of those that do.
"""

from collections.abc import Sequence

from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.outside_strings import STEP_BYTES, outside_strings
from providers.wire import count_number_marks
from providers.wire.twin import EXPONENT, MANY_DIGITS, NUMBER_MARKS

MOST_SLOW_NUMBERS = 100
# A text that is shorter has no room for more slow numbers, each of which has five characters and a comma.
UNCOUNTED_BYTES = 6 * MOST_SLOW_NUMBERS
SLOW_NUMBERS_ADVICE = (
    f"at most {MOST_SLOW_NUMBERS} may have an exponent of three digits, as 1e300 has, or 300 digits. Write shorter ones, or write them"
    " as strings."
)

_SLOW = (b"0e000", b"0e+000", b"0e-000", MANY_DIGITS)
# So many of these take as long as one of those.
_SLOWISH_PER_SLOW = 20
_SLOWISH = (b"0e00", b"0e+00", b"0" * 20 + b"e-")


def has_slow_numbers(raw: bytes) -> bool:
    """Whether a JSON text has too many."""
    # The first two are quick; base64 and hexadecimal digits, which look like numbers, are told apart by the third one.
    return len(raw) > UNCOUNTED_BYTES and _count_candidates(raw) > MOST_SLOW_NUMBERS and count_slow_numbers(raw) > MOST_SLOW_NUMBERS


def check_response_numbers(texts: Sequence[bytes]) -> None:
    """Raises InvalidUpstreamResponse if JSON texts of an engine, such as events that came together, have too many."""
    if sum(map(_count_candidates, texts)) > MOST_SLOW_NUMBERS and sum(map(count_slow_numbers, texts)) > MOST_SLOW_NUMBERS:
        raise InvalidUpstreamResponse(f"The engine's response has too many numbers that take long to read: {SLOW_NUMBERS_ADVICE}")


def count_slow_numbers(raw: bytes) -> int:
    """How many there are outside of strings, or more than MOST_SLOW_NUMBERS as soon as that is certain.

    A number that is cut in two between the steps is not counted.
    """
    slow = slowish = 0
    for piece in outside_strings(raw):
        marks = piece.translate(NUMBER_MARKS)
        if EXPONENT in marks or MANY_DIGITS in marks:
            slow += sum(map(marks.count, _SLOW))
            slowish += sum(map(marks.count, _SLOWISH))
            if slow + slowish // _SLOWISH_PER_SLOW > MOST_SLOW_NUMBERS:
                break
    return slow + slowish // _SLOWISH_PER_SLOW


def _count_candidates(raw: bytes) -> int:
    """The exponents and long runs of digits in all of the text, whether within strings or outside."""
    if len(raw) <= STEP_BYTES:
        return count_number_marks(raw)
    candidates = 0
    for start in range(0, len(raw), STEP_BYTES):
        candidates += count_number_marks(raw[start : start + STEP_BYTES])
        if candidates > MOST_SLOW_NUMBERS:
            break
    return candidates
