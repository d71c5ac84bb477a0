"""Grammars as llama.cpp reads them: choices and regexes said in GBNF.

Source: https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md and src/llama-grammar.cpp of its 0c1e57098, read 2026-11.
"""

from collections.abc import Iterable
from typing import assert_never

from providers.errors import Unsupported
from providers.guided.patterns import Anchor, Characters, Either, Node, Ranges, Repeat, Sequence, is_empty, others, read_pattern

# llama.cpp writes a repetition out; it refuses more than 2000 of one, and a few nested ones fill its memory.
_MOST_TIMES = 2_000
_MOST_PARTS = 20_000
_ESCAPED = {10: "\\n", 13: "\\r", 9: "\\t", 34: '\\"', 92: "\\\\"}
_IN_CLASS = {**_ESCAPED, 91: "\\[", 93: "\\]", 94: "\\x5E", 45: "\\x2D"}


def choice_to_gbnf(options: Iterable[str]) -> str:
    return "root ::= " + " | ".join(_literal(map(ord, option)) for option in options)


def regex_to_gbnf(pattern: str) -> str:
    """Raises Unsupported for what GBNF cannot say, and for what engines do not agree about."""
    node = read_pattern(pattern)
    if _weight(node) > _MOST_PARTS:
        raise Unsupported("the regex repeats so much that llama.cpp would not hold it.")
    return "root ::= " + _write(node, within="")


def _write(node: Node, within: str) -> str:
    """`within`: "|" in a list of options, " " in a sequence, "*" under a repetition; which is what parentheses depend on."""
    match node:
        case Characters():
            return _characters(node.ranges)
        case Sequence():
            if not node.parts:
                return '""'
            told = " ".join(_runs(node.parts))
            return f"({told})" if within == "*" else told
        case Either():
            told = " | ".join(_write(option, "|") for option in node.options)
            return f"({told})" if within in (" ", "*") else told
        case Repeat():
            return _repeated(node, within)
        case Anchor():
            raise Unsupported("the regex has an anchor in its middle.")
        case _:
            assert_never(node)


def _runs(parts: tuple[Node, ...]) -> Iterable[str]:
    """Neighbouring letters as one literal."""
    run: list[int] = []
    for part in parts:
        if isinstance(part, Characters) and len(part.ranges) == 1 and part.ranges[0][0] == part.ranges[0][1]:
            run.append(part.ranges[0][0])
            continue
        if run:
            yield _literal(run)
            run = []
        yield _write(part, " ")
    if run:
        yield _literal(run)


def _repeated(node: Repeat, within: str) -> str:
    part, least, most = node.part, node.least, node.most
    if most is None and is_empty(part):
        # llama.cpp refuses the repetition of what may be nothing: to it that is left recursion.
        seed, least = _seed(part), 0
        if seed is None:
            return '""'
        part = seed
    if max(least, most or 0) > _MOST_TIMES:
        raise Unsupported(f"the regex repeats something {max(least, most or 0)} times; llama.cpp takes {_MOST_TIMES}.")
    told = _write(part, "*")
    match least, most:
        case 0, None:
            times = "*"
        case 1, None:
            times = "+"
        case 0, 1:
            times = "?"
        case _, 0:
            return '""'
        case _:
            times = f"{{{least}}}" if least == most else f"{{{least},{'' if most is None else most}}}"
    return f"({told}{times})" if within == "*" else told + times


def _seed(node: Node) -> Node | None:
    """What may be repeated in its place, and is never nothing; None if there is only nothing to repeat."""
    if not is_empty(node):
        return node
    match node:
        case Either():
            return _either(node.options)
        case Sequence():
            # Each part may stand alone, as the others may be nothing.
            return _either(node.parts)
        case Repeat():
            return None if node.most == 0 else _seed(node.part)
        case Characters() | Anchor():
            return None


def _either(nodes: Iterable[Node]) -> Node | None:
    told = [seed for seed in map(_seed, nodes) if seed is not None]
    return None if not told else told[0] if len(told) == 1 else Either(tuple(told))


def _weight(node: Node) -> int:
    match node:
        case Sequence():
            return 1 + sum(map(_weight, node.parts))
        case Either():
            return 1 + sum(map(_weight, node.options))
        case Repeat():
            return 1 + _weight(node.part) * max(1, node.least, node.most or 0)
        case Characters() | Anchor():
            return 1


def _literal(points: Iterable[int]) -> str:
    return '"' + "".join(_character(point, _ESCAPED) for point in points) + '"'


def _characters(ranges: Ranges) -> str:
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return _literal((ranges[0][0],))
    rest = others(ranges)
    negated = ranges[-1][1] == 0x10FFFF and bool(rest)
    told = (_character(low, _IN_CLASS) + (f"-{_character(high, _IN_CLASS)}" if high > low else "") for low, high in rest if negated)
    plain = (_character(low, _IN_CLASS) + (f"-{_character(high, _IN_CLASS)}" if high > low else "") for low, high in ranges)
    return f"[^{''.join(told)}]" if negated else f"[{''.join(plain)}]"


def _character(point: int, escaped: dict[int, str]) -> str:
    if point in escaped:
        return escaped[point]
    return f"\\x{point:02X}" if point < 32 or point == 127 else chr(point)
