"""Regexes as text: choices as regexes, escaping, anchors and size."""

import re
from collections.abc import Iterable

_SPECIAL_CHARACTERS = frozenset("\\.+*?()|[]{}^$")
_CONTROL_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", "\v": "\\v"}
_ATOM = re.compile(
    r"""(?P<opens>\((?:\?(?:[:=!>]|<[=!]|P?<\w+>|[a-zA-Z-]+:?))?) | (?P<closes>\)) | (?P<times>\{(\d+)(?:,(\d*))?\}) | [*+?|^$]
    | \\[pPxu]\{[^}\\]*\} | \\. | \[\^?\]?(?:\\.|[^\]\\])*\]? | .""",
    re.VERBOSE | re.DOTALL,
)
_MAX_SIZE = 10**9


def choice_to_regex(options: Iterable[str]) -> str:
    """A regex that matches exactly the options, in the common syntax of Rust, Python and JavaScript."""
    return "(" + "|".join(map(escape_regex, options)) + ")"


def escape_regex(text: str) -> str:
    return "".join(
        f"\\{character}" if character in _SPECIAL_CHARACTERS else _CONTROL_ESCAPES.get(character, character) for character in text
    )


def unrolled_size(pattern: str) -> int:
    """The number of characters and classes of a regex with its counted repetitions expanded, as many engines expand them."""
    open_groups = [0]
    last_size = 0
    for atom in _ATOM.finditer(pattern):
        match atom.lastgroup:
            case "opens":
                open_groups.append(0)
                last_size = 0
            case "closes":
                last_size = open_groups.pop() if len(open_groups) > 1 else 0
                open_groups[-1] += last_size
            case "times":
                times = max(1, *(int(each[:10]) for each in (atom[4], atom[5]) if each))
                open_groups[-1] += last_size * (times - 1)
                last_size = min(last_size * times, _MAX_SIZE)
            case _ if atom[0] in "*+?|^$":
                pass
            case _:
                last_size = 1
                open_groups[-1] += 1
    return sum(open_groups)


def anchor_regex(pattern: str) -> str:
    """The regex with anchors at both ends, for engines that search for a pattern anywhere or require anchors."""
    return pattern if _is_anchored(pattern) else f"^(?:{pattern})$"


def _is_anchored(pattern: str) -> bool:
    """Whether anchors at both ends apply to the complete regex: no top-level `|`, and the last `$` is not escaped or in a class."""
    if not pattern.startswith("^") or not pattern.endswith("$"):
        return False
    depth, in_class, is_escaped = 0, False, False
    for index, character in enumerate(pattern):
        if is_escaped:
            is_escaped = False
            if index == len(pattern) - 1:
                return False
        elif character == "\\":
            is_escaped = True
        elif in_class:
            in_class = character != "]"
        elif character == "[":
            in_class = True
        elif character in "()":
            depth += 1 if character == "(" else -1
        elif character == "|" and depth == 0:
            return False
    return depth == 0 and not in_class
