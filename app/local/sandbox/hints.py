"""Hints for a walk: what a constraint spells out at its ends, guessed from its source.

In `(.|\\n)*</answer>` every byte is allowed at every place, so nothing that llguidance says leads a random walk to the end. A hint that
does not fit is not taken, so a wrong guess costs nothing and half a reading of the syntax is enough.
"""

import re
from collections.abc import Iterator

MOST = 50

TOKEN = re.compile(
    r"""(?P<atom>\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[^\\^$|?*+()\[\]{}])(?P<count>\{\d+(?:,\d*)?\}|[?*])?
    |(?P<alternative>\|)
    |(?P<open>\((?:\?[a-zA-Z<>=-]*:?)?)
    |(?P<close>\))(?P<times>\{\d+(?:,\d*)?\})?
    |\{[\d,]*\}
    |.""",
    re.DOTALL | re.VERBOSE,
)
QUOTED = r'\s*"((?:[^"\\]|\\.)*)"'
SAMPLES = {"d": "7", "w": "a", "s": " ", "D": "x", "W": "-", "S": "x", "n": "\n", "t": "\t", "r": "\r"}
LONGEST_REPEAT = 16


def endings_of(regex: str) -> tuple[str, ...]:
    """An example of every tail of every alternative: whatever ends a match is among them, or made of them."""
    tails: dict[str, None] = {}
    for run in runs_of(regex):
        tail = ""
        for piece in reversed(run[-LONGEST_REPEAT:]):
            tail = piece + tail
            tails[tail] = None
            if len(tails) >= MOST:
                return tuple(tails)
    return tuple(tails)


def runs_of(regex: str) -> Iterator[list[str]]:
    """Examples of what each alternative is made of, in order; groups are read as if their alternatives were those of the whole."""
    run: list[str] = []
    groups: list[int] = []
    for found in TOKEN.finditer(regex):
        if found["alternative"]:
            yield run
            run, groups = [], [0 for _ in groups]
        elif found["open"]:
            groups.append(len(run))
        elif found["close"]:
            start = groups.pop() if groups else len(run)
            run[start:] = run[start:] * repeats(found["times"])
        elif found["atom"]:
            run += [example_of(found["atom"])] * repeats(found["count"])
    yield run


def repeats(count: str | None) -> int:
    """The least number that a quantifier asks for, or one that is enough to guess by."""
    if count and count.startswith("{"):
        return min(int(count[1:-1].partition(",")[0]), LONGEST_REPEAT)
    return 0 if count else 1


def example_of(atom: str) -> str:
    """One character that an atom of a regex matches."""
    if atom.startswith("\\"):
        return SAMPLES.get(atom[1], atom[1])
    if not atom.startswith("["):
        return "a" if atom == "." else atom
    inside = atom[1:-1]
    if inside.startswith("^"):
        return next((each for each in "a b0-_.,\n" if each not in inside), "~")
    return example_of(inside[:2]) if inside.startswith("\\") else inside[:1]


def quoted_in(text: str, after: str = "") -> tuple[str, ...]:
    """What stands between double quotes, in the order it comes."""
    found = re.findall(re.escape(after) + QUOTED, text)
    return tuple(dict.fromkeys(each for each in found if each))[:MOST]
