r"""A regex as a JSON schema's `pattern` that means the same to every build of llama.cpp: a JSON string of what the regex matches.

Its own converter (common/json-schema-to-grammar.cpp, /reference/engines.md 2.3) wants ^ first and $ last, knows classes, groups, |
and greedy repeats, takes \d and its like for letters, and writes what the pattern matches between the quotes as it is; a build with
llguidance (xllamacpp 2026.10 is one) escapes it. So shorthands are spelled out; of classes, what a JSON string has to escape (quotes,
backslashes, control characters) is left out, so that an answer without these is given; and a regex that demands one is refused.
"""

from collections.abc import Iterator

from providers.canonical.errors import Unsupported
from providers.structured_output.regex_ast import Alternatives, Anchor, Characters, Node, Ranges, Repeat, Sequence, parse_regex

# What a JSON string holds as it is.
_UNESCAPED: Ranges = ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x10FFFF))
# Within a class these would mean something else, and llama.cpp's grammars know no shorter escape for them.
_CLASS_SPECIALS = frozenset(map(ord, "[]^-"))


def to_schema_pattern(regex: str) -> str:
    """Raises Unsupported, saying why."""
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
        raise Unsupported("the regex demands a quote, a backslash or a control character, and builds of this engine differ about those.")
    return spans if len(spans) == 1 and spans.isalnum() else f"[{spans}]"


def _unescaped_spans(ranges: Ranges) -> Iterator[str]:
    for low, high in ranges:
        for plain_low, plain_high in _UNESCAPED:
            if low <= plain_high and plain_low <= high:
                first, last = max(low, plain_low), min(high, plain_high)
                yield _escape(first) if first == last else f"{_escape(first)}-{_escape(last)}"


def _escape(point: int) -> str:
    return f"\\x{point:02X}" if point in _CLASS_SPECIALS else chr(point)
