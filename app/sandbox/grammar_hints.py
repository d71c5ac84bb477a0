"""Hints for a walk: what a constraint spells out at its ends, guessed from its source.

In `(.|\\n)*</answer>` every byte is allowed at every place, so nothing that llguidance says leads a random walk to the end. A hint that
does not fit is not taken, so a wrong guess costs nothing and half a reading of the syntax is enough.
"""

import re
from collections.abc import Iterator

MAX_HINTS = 50

REGEX_TOKEN = re.compile(
    r"""(?P<atom>\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[^\\^$|?*+()\[\]{}])(?P<count>\{\d+(?:,\d*)?\}|[?*])?
    |(?P<alternative>\|)
    |(?P<open>\((?:\?[a-zA-Z<>=-]*:?)?)
    |(?P<close>\))(?P<times>\{\d+(?:,\d*)?\})?
    |\{[\d,]*\}
    |.""",
    re.DOTALL | re.VERBOSE,
)
QUOTED_STRING = r'\s*"((?:[^"\\]|\\.)*)"'
ESCAPE_EXAMPLES = {"d": "7", "w": "a", "s": " ", "D": "x", "W": "-", "S": "x", "n": "\n", "t": "\t", "r": "\r"}
MAX_REPEATS = 16


def example_endings(regex: str) -> tuple[str, ...]:
    """An example of every tail of every alternative: whatever ends a match is among them, or made of them."""
    tails: dict[str, None] = {}
    for run in example_runs(regex):
        tail = ""
        for piece in reversed(run[-MAX_REPEATS:]):
            tail = piece + tail
            tails[tail] = None
            if len(tails) >= MAX_HINTS:
                return tuple(tails)
    return tuple(tails)


def example_runs(regex: str) -> Iterator[list[str]]:
    """Examples of what each alternative is made of, in order; groups are read as if their alternatives were those of the whole."""
    run: list[str] = []
    groups: list[int] = []
    for token in REGEX_TOKEN.finditer(regex):
        if token["alternative"]:
            yield run
            run, groups = [], [0 for _ in groups]
        elif token["open"]:
            groups.append(len(run))
        elif token["close"]:
            start = groups.pop() if groups else len(run)
            run[start:] = run[start:] * repeat_count(token["times"])
        elif token["atom"]:
            run += [example_char(token["atom"])] * repeat_count(token["count"])
    yield run


def repeat_count(quantifier: str | None) -> int:
    """The least number that a quantifier asks for, or one that is enough to guess by."""
    if quantifier and quantifier.startswith("{"):
        return min(int(quantifier[1:-1].partition(",")[0]), MAX_REPEATS)
    return 0 if quantifier else 1


def example_char(atom: str) -> str:
    """One character that an atom of a regex matches."""
    if atom.startswith("\\"):
        return ESCAPE_EXAMPLES.get(atom[1], atom[1])
    if not atom.startswith("["):
        return "a" if atom == "." else atom
    inside = atom[1:-1]
    if inside.startswith("^"):
        return next((each for each in "a b0-_.,\n" if each not in inside), "~")
    return example_char(inside[:2]) if inside.startswith("\\") else inside[:1]


def quoted_strings(text: str, prefix: str = "") -> tuple[str, ...]:
    """What stands between double quotes, in the order it comes."""
    quoted = re.findall(re.escape(prefix) + QUOTED_STRING, text)
    return tuple(dict.fromkeys(each for each in quoted if each))[:MAX_HINTS]
