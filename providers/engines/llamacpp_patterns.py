"""Patterns of JSON schemas as llama.cpp's converters of schemas obey them: without what those do not know, and as the JSON text has it.

Both, in C++ and in llama-cpp-python, copy a pattern's letters into a grammar for the text between the quotes: a quote or a backslash in it
must be escaped by us. What they do not know (\\d, look-ahead, no anchors) the one takes for "any string", with a line in its log, and
the other ends its process over (both seen in 2026-11: llama.cpp b11549, llama-cpp-python 0.3.36).
"""

from typing import assert_never

from providers.errors import Unsupported
from providers.guided.patterns import Anchor, Characters, Either, Node, Repeat, Sequence, others, read_anchored, sequence, unanchored

# What a JSON string holds as it is; DEL is left out, as their own strings leave it out.
_PLAIN = others(((0, 31), (34, 34), (92, 92), (127, 127)))
_ESCAPES = {34: r"[\x22]", 92: r"[\x5C]", 8: "b", 9: "t", 10: "n", 12: "f", 13: "r"}
_ANY = Characters(others(()))
_ANYTHING = Repeat(_ANY, 0, None)
# A repetition is written out there: of more they refuse the whole grammar.
_MOST_TIMES = 2_000


def write_pattern(pattern: str) -> str:
    """The same strings, but for those with control characters that JSON has no letter for. Raises Unsupported."""
    node = read_anchored(pattern)
    options = node.options if isinstance(node, Either) else (node,)
    told = "|".join(_write(_anywhere(option)) for option in options)
    return f"^{told}$" if len(options) == 1 else f"^({told})$"


def write_length(least: int, most: int | None) -> str:
    """A pattern for any string of such a length. Raises Unsupported."""
    return f"^{_repeated(Repeat(_ANY, least, most))}$"


def _anywhere(node: Node) -> Node:
    """A pattern is looked for anywhere in its string, unless it has anchors."""
    parts = node.parts if isinstance(node, Sequence) else (node,)
    begins, ends = (bool(parts) and isinstance(parts[at], Anchor) for at in (0, -1))
    return sequence(*(() if begins else (_ANYTHING,)), unanchored(node, begins, ends), *(() if ends else (_ANYTHING,)))


def _write(node: Node) -> str:
    match node:
        case Characters():
            return _characters(node)
        case Sequence():
            return "".join(map(_write, node.parts))
        case Either():
            return f"({'|'.join(map(_write, node.options))})"
        case Repeat():
            return _repeated(node)
        case Anchor():
            raise Unsupported("a pattern with an anchor in its middle cannot be said to it.")
        case _:
            assert_never(node)


def _characters(node: Characters) -> str:
    """Escaped ones as what JSON writes for them; a letter or digit alone as itself."""
    plain = [(max(low, a), min(high, b)) for low, high in node.ranges for a, b in _PLAIN if max(low, a) <= min(high, b)]
    escaped = [rf"[\x5C]{sign}" for point, sign in _ESCAPES.items() if any(low <= point <= high for low, high in node.ranges)]
    if plain:
        ranges = "".join(_point(low) if low == high else f"{_point(low)}-{_point(high)}" for low, high in plain)
        escaped.insert(0, ranges if len(ranges) == 1 and ranges.isascii() else f"[{ranges}]")
    if not escaped:
        raise Unsupported("a pattern that needs a control character cannot be said to it.")
    return escaped[0] if plain and len(escaped) == 1 else f"({'|'.join(escaped)})"


def _point(point: int) -> str:
    character = chr(point)
    if character.isascii():
        return character if character.isalnum() else f"\\x{point:02X}"
    return f"\\u{point:04X}" if point < 0x10000 else f"\\U{point:08X}"


def _repeated(node: Repeat) -> str:
    if max(node.least, node.most or 0) > _MOST_TIMES:
        raise Unsupported(f"a pattern that repeats more than {_MOST_TIMES} times cannot be said to it.")
    inner = _write(node.part)
    if len(inner) > 1 and not (isinstance(node.part, Characters | Either) and inner[0] in "[("):
        inner = f"({inner})"
    match node.least, node.most:
        case 0, None:
            return f"{inner}*"
        case 1, None:
            return f"{inner}+"
        case 0, 1:
            return f"{inner}?"
        case least, most:
            return f"{inner}{{{least},{'' if most is None else most}}}"
