r"""A regex as a JSON schema's `pattern` that means the same to every build of llama.cpp: a JSON string of what the regex matches.

Its own converter (common/json-schema-to-grammar.cpp, /reference/engines.md 2.3) wants ^ first and $ last, knows classes, groups, |
and greedy repeats, takes \d and its like for letters, and writes what the pattern matches between the quotes as it is; a build with
llguidance (xllamacpp 2026.10 is one) escapes it. So shorthands are spelled out; of classes, what a JSON string has to escape (quotes,
backslashes, control characters) is left out, so that an answer without these is given; and a regex that demands one is refused.
"""

from collections.abc import Iterator

from providers.errors import Unsupported
from providers.guided.patterns import Anchor, Characters, Either, Node, Ranges, Repeat, Sequence, read_pattern

# What a JSON string holds as it is.
_PLAIN: Ranges = ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x10FFFF))
# Within a class these would mean something else, and llama.cpp's grammars know no shorter escape for them.
_SIGNS = frozenset(map(ord, "[]^-"))


def as_pattern(regex: str) -> str:
    """Raises Unsupported, saying why."""
    written = _write(read_pattern(regex))
    if not written:
        raise Unsupported("the regex matches nothing but an empty answer.")
    return f"^({written})$"


def _write(node: Node) -> str:
    match node:
        case Characters():
            return _characters(node.ranges)
        case Sequence():
            return "".join(map(_write, node.parts))
        case Either():
            options = [_write(option) for option in node.options]
            said = [option for option in options if option]
            return f"({'|'.join(said)})" + ("?" if len(said) < len(options) else "") if said else ""
        case Repeat():
            part = _write(node.part)
            return f"({part}){_times(node.least, node.most)}" if part else ""
        case Anchor():
            return ""


def _times(least: int, most: int | None) -> str:
    match least, most:
        case 0, None:
            return "*"
        case 1, None:
            return "+"
        case 0, 1:
            return "?"
        case _:
            return f"{{{least},{'' if most is None else most}}}"


def _characters(ranges: Ranges) -> str:
    told = "".join(_spans(ranges))
    if not told:
        raise Unsupported("the regex demands a quote, a backslash or a control character, and builds of this engine differ about those.")
    return told if len(told) == 1 and told.isalnum() else f"[{told}]"


def _spans(ranges: Ranges) -> Iterator[str]:
    for low, high in ranges:
        for least, most in _PLAIN:
            if low <= most and least <= high:
                first, last = max(low, least), min(high, most)
                yield _sign(first) if first == last else f"{_sign(first)}-{_sign(last)}"


def _sign(point: int) -> str:
    return f"\\x{point:02X}" if point in _SIGNS else chr(point)
