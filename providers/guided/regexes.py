"""Regexes out of other constraints, and regexes as engines want them."""

import re
from collections.abc import Iterable

_SPECIAL = frozenset("\\.+*?()|[]{}^$")
_CONTROL = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", "\v": "\\v"}
_ATOM = re.compile(
    r"""(?P<opens>\((?:\?(?:[:=!>]|<[=!]|P?<\w+>|[a-zA-Z-]+:?))?) | (?P<closes>\)) | (?P<times>\{(\d+)(?:,(\d*))?\}) | [*+?|^$]
    | \\[pPxu]\{[^}\\]*\} | \\. | \[\^?\]?(?:\\.|[^\]\\])*\]? | .""",
    re.VERBOSE | re.DOTALL,
)
_MOST_TIMES = 10**9


def choice_to_regex(options: Iterable[str]) -> str:
    """One of the options and nothing else, in the syntax that Rust's, Python's and JavaScript's regexes share."""
    return "(" + "|".join(map(escaped, options)) + ")"


def escaped(text: str) -> str:
    return "".join(f"\\{each}" if each in _SPECIAL else _CONTROL.get(each, each) for each in text)


def unrolled(pattern: str) -> int:
    """How many characters and classes a regex has when its counted repetitions are written out, as many engines write them."""
    open_groups = [0]
    last = 0
    for atom in _ATOM.finditer(pattern):
        match atom.lastgroup:
            case "opens":
                open_groups.append(0)
                last = 0
            case "closes":
                last = open_groups.pop() if len(open_groups) > 1 else 0
                open_groups[-1] += last
            case "times":
                times = max(1, *(int(each[:10]) for each in (atom[4], atom[5]) if each))
                open_groups[-1] += last * (times - 1)
                last = min(last * times, _MOST_TIMES)
            case _ if atom[0] in "*+?|^$":
                pass
            case _:
                last = 1
                open_groups[-1] += 1
    return sum(open_groups)


def anchored(pattern: str) -> str:
    """With anchors at both ends, for engines that look for a pattern anywhere or want to see them; one that has them stays as it is."""
    return pattern if _is_anchored(pattern) else f"^(?:{pattern})$"


def _is_anchored(pattern: str) -> bool:
    """Whether the anchors at its ends hold all of it: no `|` beside them, and the last sign is an anchor."""
    if not pattern.startswith("^") or not pattern.endswith("$"):
        return False
    depth, in_class, escaping = 0, False, False
    for at, each in enumerate(pattern):
        if escaping:
            escaping = False
            if at == len(pattern) - 1:
                return False
        elif each == "\\":
            escaping = True
        elif in_class:
            in_class = each != "]"
        elif each == "[":
            in_class = True
        elif each in "()":
            depth += 1 if each == "(" else -1
        elif each == "|" and depth == 0:
            return False
    return depth == 0 and not in_class
