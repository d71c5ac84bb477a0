"""Hints for a walk: literal texts with which parts of a constraint end, guessed from its source.

In `(.|\\n)*</answer>` every byte is allowed everywhere, so llguidance's masks do not lead a random walk to the end. A hint that does not
fit is not used, so a wrong guess costs nothing, and reading the syntax approximately is enough.
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
    """An example of every tail of every alternative. Each end of a match is one of them, or consists of them."""
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
    """Examples of the parts of each alternative, in order; a group's alternatives count as alternatives of the complete regex."""
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
    """The least number of repeats that a quantifier allows, at most MAX_REPEATS."""
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
    """The distinct texts in double quotes, in order."""
    quoted = re.findall(re.escape(prefix) + QUOTED_STRING, text)
    return tuple(dict.fromkeys(each for each in quoted if each))[:MAX_HINTS]
