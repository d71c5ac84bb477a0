r"""A regex as a JSON schema's `pattern` that means the same to every build of llama.cpp: a JSON string that holds a match.

llama.cpp's converter (common/json-schema-to-grammar.cpp, docs/sources.md#llamacpp) requires ^ first and $ last, knows classes, groups,
| and greedy repeats, reads \d and its like as letters, and writes the match between the quotes as it is; a build with llguidance
(xllamacpp 2026.10 is one) escapes it. Therefore shorthands are spelled out; characters that a JSON string must escape (quotes,
backslashes, control characters) are removed from classes; and a regex that requires one of them is refused.
"""

from collections.abc import Iterator

from providers.canonical.errors import Unsupported
from providers.structured_output.parse_regex import parse_regex
from providers.structured_output.regex_ast import Alternatives, Anchor, Characters, Node, Ranges, Repeat, Sequence

# Characters that a JSON string holds unescaped.
_UNESCAPED: Ranges = ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x10FFFF))
# Characters with a meaning of their own in a class. llama.cpp's grammars have no shorter escape for them.
_CLASS_SPECIALS = frozenset(map(ord, "[]^-"))


def to_schema_pattern(regex: str) -> str:
    """Raises Unsupported for a regex that no such pattern can express."""
    written = _write(parse_regex(regex))
    if not written:
        raise Unsupported("the regex matches nothing but an empty answer.")
    return f"^({written})$"


def _write(node: Node) -> str:
    match node:
        case Characters():
            return _characters(node.ranges)
        case Sequence():
            return "".join(map(_write, node.parts))
        case Alternatives():
            options = [_write(option) for option in node.options]
            non_empty = [option for option in options if option]
            return f"({'|'.join(non_empty)})" + ("?" if len(non_empty) < len(options) else "") if non_empty else ""
        case Repeat():
            part = _write(node.part)
            return f"({part}){_quantifier(node.min_count, node.max_count)}" if part else ""
        case Anchor():
            return ""


def _quantifier(minimum: int, maximum: int | None) -> str:
    match minimum, maximum:
        case 0, None:
            return "*"
        case 1, None:
            return "+"
        case 0, 1:
            return "?"
        case _:
            return f"{{{minimum},{'' if maximum is None else maximum}}}"


def _characters(ranges: Ranges) -> str:
    spans = "".join(_unescaped_spans(ranges))
    if not spans:
        raise Unsupported("the regex requires a quote, a backslash or a control character, and builds of this engine differ about those.")
    return spans if len(spans) == 1 and spans.isalnum() else f"[{spans}]"


def _unescaped_spans(ranges: Ranges) -> Iterator[str]:
    for low, high in ranges:
        for plain_low, plain_high in _UNESCAPED:
            if low <= plain_high and plain_low <= high:
                first, last = max(low, plain_low), min(high, plain_high)
                yield _escape(first) if first == last else f"{_escape(first)}-{_escape(last)}"


def _escape(point: int) -> str:
    return f"\\x{point:02X}" if point in _CLASS_SPECIALS else chr(point)
