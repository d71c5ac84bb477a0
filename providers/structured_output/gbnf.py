"""Writes choices and regexes as GBNF, the grammars of llama.cpp.

Source: https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md and src/llama-grammar.cpp of its 0c1e57098, read 2026-11.
"""

from collections.abc import Iterable
from typing import assert_never

from providers.canonical.errors import Unsupported
from providers.structured_output.parse_regex import parse_regex
from providers.structured_output.regex_ast import (
    Alternatives,
    Anchor,
    Characters,
    Node,
    Ranges,
    Repeat,
    Sequence,
    can_be_empty,
    complement,
)

# llama.cpp expands repetitions: it refuses more than 2000 of one, and a few nested ones exhaust its memory.
_MAX_REPETITIONS = 2_000
_MAX_PARTS = 20_000
_LITERAL_ESCAPES = {10: "\\n", 13: "\\r", 9: "\\t", 34: '\\"', 92: "\\\\"}
_CLASS_ESCAPES = {**_LITERAL_ESCAPES, 91: "\\[", 93: "\\]", 94: "\\x5E", 45: "\\x2D"}


def choice_to_gbnf(choices: Iterable[str]) -> str:
    return "root ::= " + " | ".join(_write_literal(map(ord, choice)) for choice in choices)


def regex_to_gbnf(pattern: str) -> str:
    """Raises Unsupported for what GBNF cannot express, and for syntax that engines interpret differently."""
    node = parse_regex(pattern)
    if _expanded_size(node) > _MAX_PARTS:
        raise Unsupported("the regex has too many repetitions for llama.cpp.")
    return "root ::= " + _write_node(node, enclosing="")


def _write_node(node: Node, enclosing: str) -> str:
    """Writes a node, in parentheses where they are needed.

    That depends on `enclosing`: "|" in alternatives, " " in a sequence, "*" in a repetition.
    """
    match node:
        case Characters():
            return _write_characters(node.ranges)
        case Sequence():
            if not node.parts:
                return '""'
            written = " ".join(_write_parts(node.parts))
            return f"({written})" if enclosing == "*" else written
        case Alternatives():
            written = " | ".join(_write_node(option, "|") for option in node.options)
            return f"({written})" if enclosing in (" ", "*") else written
        case Repeat():
            return _write_repeat(node, enclosing)
        case Anchor():
            raise Unsupported("the regex has an anchor in its middle.")
        case _:
            assert_never(node)


def _write_parts(parts: tuple[Node, ...]) -> Iterable[str]:
    """The parts of a sequence, with adjacent single characters as one literal."""
    code_points: list[int] = []
    for part in parts:
        if isinstance(part, Characters) and len(part.ranges) == 1 and part.ranges[0][0] == part.ranges[0][1]:
            code_points.append(part.ranges[0][0])
            continue
        if code_points:
            yield _write_literal(code_points)
            code_points = []
        yield _write_node(part, " ")
    if code_points:
        yield _write_literal(code_points)


def _write_repeat(node: Repeat, enclosing: str) -> str:
    part, min_count, max_count = node.part, node.min_count, node.max_count
    if max_count is None and can_be_empty(part):
        # llama.cpp refuses to repeat something that may be empty, as left recursion.
        non_empty, min_count = _non_empty_form(part), 0
        if non_empty is None:
            return '""'
        part = non_empty
    if max(min_count, max_count or 0) > _MAX_REPETITIONS:
        raise Unsupported(f"the regex repeats something {max(min_count, max_count or 0)} times; llama.cpp allows {_MAX_REPETITIONS}.")
    written = _write_node(part, "*")
    match min_count, max_count:
        case 0, None:
            suffix = "*"
        case 1, None:
            suffix = "+"
        case 0, 1:
            suffix = "?"
        case _, 0:
            return '""'
        case _:
            suffix = f"{{{min_count}}}" if min_count == max_count else f"{{{min_count},{'' if max_count is None else max_count}}}"
    return f"({written}{suffix})" if enclosing == "*" else written + suffix


def _non_empty_form(node: Node) -> Node | None:
    """A node whose repetition matches the same and that is never empty; None if the node matches only the empty text."""
    if not can_be_empty(node):
        return node
    match node:
        case Alternatives():
            return _non_empty_alternatives(node.options)
        case Sequence():
            # Any part may stand alone, as the others may be empty.
            return _non_empty_alternatives(node.parts)
        case Repeat():
            return None if node.max_count == 0 else _non_empty_form(node.part)
        case Characters() | Anchor():
            return None


def _non_empty_alternatives(nodes: Iterable[Node]) -> Node | None:
    alternatives = [non_empty for non_empty in map(_non_empty_form, nodes) if non_empty is not None]
    return None if not alternatives else alternatives[0] if len(alternatives) == 1 else Alternatives(tuple(alternatives))


def _expanded_size(node: Node) -> int:
    match node:
        case Sequence():
            return 1 + sum(map(_expanded_size, node.parts))
        case Alternatives():
            return 1 + sum(map(_expanded_size, node.options))
        case Repeat():
            return 1 + _expanded_size(node.part) * max(1, node.min_count, node.max_count or 0)
        case Characters() | Anchor():
            return 1


def _write_literal(code_points: Iterable[int]) -> str:
    return '"' + "".join(_write_character(code_point, _LITERAL_ESCAPES) for code_point in code_points) + '"'


def _write_characters(ranges: Ranges) -> str:
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return _write_literal((ranges[0][0],))
    excluded = complement(ranges)
    negated = ranges[-1][1] == 0x10FFFF and bool(excluded)
    excluded_text = (
        _write_character(low, _CLASS_ESCAPES) + (f"-{_write_character(high, _CLASS_ESCAPES)}" if high > low else "")
        for low, high in excluded
        if negated
    )
    included_text = (
        _write_character(low, _CLASS_ESCAPES) + (f"-{_write_character(high, _CLASS_ESCAPES)}" if high > low else "") for low, high in ranges
    )
    return f"[^{''.join(excluded_text)}]" if negated else f"[{''.join(included_text)}]"


def _write_character(code_point: int, escapes: dict[int, str]) -> str:
    if code_point in escapes:
        return escapes[code_point]
    return f"\\x{code_point:02X}" if code_point < 32 or code_point == 127 else chr(code_point)
