"""Rewrites regex patterns of JSON schemas into the subset that llama.cpp's grammar converter supports.

Both converters, in C++ and in llama-cpp-python, copy the characters of a pattern into a grammar for the text between the quotes: a quote
or a backslash has to be escaped here. Syntax that they do not know (\\d, look-ahead, no anchors) means "any string" to the one, with a
line in its log, and ends the process of the other (observed in 2026-11: llama.cpp b11549, llama-cpp-python 0.3.36).
"""

from typing import assert_never

from providers.canonical.errors import Unsupported
from providers.structured_output.parse_regex import parse_anchored_regex
from providers.structured_output.regex_ast import (
    Alternatives,
    Anchor,
    Characters,
    Node,
    Repeat,
    Sequence,
    complement,
    sequence,
    strip_anchors,
)

# The characters that stand unescaped in a JSON string; without DEL, which their own strings lack as well.
_UNESCAPED_RANGES = complement(((0, 31), (34, 34), (92, 92), (127, 127)))
_ESCAPES = {34: r"[\x22]", 92: r"[\x5C]", 8: "b", 9: "t", 10: "n", 12: "f", 13: "r"}
_ANY_CHARACTER = Characters(complement(()))
_ANY_TEXT = Repeat(_ANY_CHARACTER, 0, None)
# The converter expands repetitions; above this count it rejects the grammar.
_MAX_REPETITIONS = 2_000


def write_schema_pattern(pattern: str) -> str:
    """A pattern for the same strings, except those with control characters that JSON has no short escape for. Raises Unsupported."""
    node = parse_anchored_regex(pattern)
    alternatives = node.options if isinstance(node, Alternatives) else (node,)
    written = "|".join(_write_node(_match_anywhere(alternative)) for alternative in alternatives)
    return f"^{written}$" if len(alternatives) == 1 else f"^({written})$"


def write_length_pattern(min_length: int, max_length: int | None) -> str:
    """A pattern for any string of this length; `max_length` None means no limit. Raises Unsupported."""
    return f"^{_write_repeat(Repeat(_ANY_CHARACTER, min_length, max_length))}$"


def _match_anywhere(node: Node) -> Node:
    """JSON Schema searches for a pattern anywhere in the string, unless it has anchors."""
    parts = node.parts if isinstance(node, Sequence) else (node,)
    anchored_start, anchored_end = (bool(parts) and isinstance(parts[index], Anchor) for index in (0, -1))
    return sequence(
        *(() if anchored_start else (_ANY_TEXT,)),
        strip_anchors(node, anchored_start, anchored_end),
        *(() if anchored_end else (_ANY_TEXT,)),
    )


def _write_node(node: Node) -> str:
    match node:
        case Characters():
            return _write_characters(node)
        case Sequence():
            return "".join(map(_write_node, node.parts))
        case Alternatives():
            return f"({'|'.join(map(_write_node, node.options))})"
        case Repeat():
            return _write_repeat(node)
        case Anchor():
            raise Unsupported("it cannot express a pattern with an anchor in its middle.")
        case _:
            assert_never(node)


def _write_characters(node: Characters) -> str:
    """Characters that JSON escapes are written as their escapes; a single letter or digit as itself."""
    unescaped = [(max(low, a), min(high, b)) for low, high in node.ranges for a, b in _UNESCAPED_RANGES if max(low, a) <= min(high, b)]
    escaped = [rf"[\x5C]{letter}" for point, letter in _ESCAPES.items() if any(low <= point <= high for low, high in node.ranges)]
    if unescaped:
        ranges = "".join(
            _write_code_point(low) if low == high else f"{_write_code_point(low)}-{_write_code_point(high)}" for low, high in unescaped
        )
        escaped.insert(0, ranges if len(ranges) == 1 and ranges.isascii() else f"[{ranges}]")
    if not escaped:
        raise Unsupported("it cannot express a pattern that needs a control character.")
    return escaped[0] if unescaped and len(escaped) == 1 else f"({'|'.join(escaped)})"


def _write_code_point(point: int) -> str:
    character = chr(point)
    if character.isascii():
        return character if character.isalnum() else f"\\x{point:02X}"
    return f"\\u{point:04X}" if point < 0x10000 else f"\\U{point:08X}"


def _write_repeat(node: Repeat) -> str:
    if max(node.min_count, node.max_count or 0) > _MAX_REPETITIONS:
        raise Unsupported(f"it cannot express a pattern that repeats more than {_MAX_REPETITIONS} times.")
    inner = _write_node(node.part)
    if len(inner) > 1 and not (isinstance(node.part, Characters | Alternatives) and inner[0] in "[("):
        inner = f"({inner})"
    match node.min_count, node.max_count:
        case 0, None:
            return f"{inner}*"
        case 1, None:
            return f"{inner}+"
        case 0, 1:
            return f"{inner}?"
        case min_count, max_count:
            return f"{inner}{{{min_count},{'' if max_count is None else max_count}}}"
